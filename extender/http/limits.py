"""Defines the limits of one listener: bytes, seconds and connections.

`BindConnections` keeps some of the connections free for filter, since each bind held at the barrier occupies one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from extender.config.settings import Settings
from extender.http.handshakes import MOST as MOST_HANDSHAKES


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one listener; times in seconds."""

    body_bytes: int = 3 * 1024 * 1024  # body_bytes equals MaxRequestBodyBytes, the API server's own limit.
    # header_bytes limits all bytes of a request outside its body: head, chunk sizes, trailers.
    header_bytes: int = 64 * 1024
    header_seconds: float = 5.0
    body_seconds: float = 5.0
    answer_seconds: float = 10.0  # a client that reads nothing of its answer for this long is disconnected
    connections: int = 2048
    reserved_connections: int = 64
    # the time is longer than the 90 s after which Go's client closes an idle connection
    keep_alive_seconds: float = 120.0
    graceful_seconds: float = 5.0


def probe_limits(limits: Limits) -> Limits:
    """Return the limits of the listener for probes and metrics, which the whole pod network can reach: few connections
    and very short bodies.
    """
    return replace(limits, body_bytes=1024, header_bytes=16 * 1024, connections=64, reserved_connections=1)


def report_limits(limits: Limits) -> Limits:
    """Return the limits of the listener for reports of training code: short bodies, from every training pod."""
    return replace(probe_limits(limits), connections=512)


def people_limits(limits: Limits) -> Limits:
    """Return the limits of the listener for people: few connections, and bodies no longer than a job's manifest."""
    return replace(probe_limits(limits), body_bytes=min(limits.body_bytes, 1024 * 1024), connections=256)


def limits_of(settings: Settings) -> Limits:
    """Return the limits that the settings set for the listeners."""
    server = settings.server
    return Limits(
        body_bytes=server.body_limit_bytes,
        header_seconds=server.header_seconds,
        body_seconds=server.body_seconds,
        answer_seconds=server.answer_seconds,
        connections=server.connections,
        reserved_connections=server.reserved_connections,
        keep_alive_seconds=server.keep_alive_seconds,
        graceful_seconds=server.graceful_seconds,
    )


def most_connections(settings: Settings) -> int:
    """Return how many connections all listeners of the service together may have open."""
    limits, people = limits_of(settings), settings.api
    behind_tls = limits.connections + MOST_HANDSHAKES if settings.server.tls.on else 0
    of_api = people_limits(limits).connections + (0 if people.without_tls else MOST_HANDSHAKES)
    return (
        behind_tls
        + limits.connections
        + probe_limits(limits).connections
        + (of_api if people.enabled else 0)
        + (report_limits(limits).connections if settings.progress.enabled else 0)
    )


class BindConnections:
    """Counts the connections whose bind calls the barrier holds: at most ``connections - reserved_connections``."""

    def __init__(self, limits: Limits) -> None:
        self.limit = max(1, limits.connections - limits.reserved_connections)
        self.held = 0

    def enter(self) -> bool:
        """Count one more connection if the limit allows it; a caller that got True must call `leave`."""
        if self.held >= self.limit:
            return False
        self.held += 1
        return True

    def leave(self) -> None:
        """Count one connection less."""
        self.held -= 1

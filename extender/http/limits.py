"""Defines the limits of one listener: bytes, seconds and connections.

`BindConnections` keeps some of the connections free for filter, since each bind held at the barrier occupies one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one listener; times in seconds."""

    body_bytes: int = 3 * 1024 * 1024  # the API server's own MaxRequestBodyBytes
    header_bytes: int = 64 * 1024  # limits all bytes of a request that are not body: head, chunk sizes, trailers
    header_seconds: float = 5.0
    body_seconds: float = 5.0
    answer_seconds: float = 10.0  # a client that reads nothing of its answer for this long is disconnected
    connections: int = 2048
    reserved_connections: int = 64
    keep_alive_seconds: float = 120.0  # Go's client closes an idle connection after 90 s
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

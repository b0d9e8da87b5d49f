"""Finds settings that contradict each other, and says which to change. Nothing is silently corrected."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from extender.config.hosts import is_loopback
from extender.config.sections import TIMEOUT_MARGIN_SECONDS, BarrierSettings
from policy.systems import make_policy

if TYPE_CHECKING:
    from extender.config.settings import Settings

BACKOFF_MARGIN_SECONDS: Final = 2.0


def broken_relations(settings: Settings) -> Iterator[str]:
    """Yield a message for each contradiction between settings.

    The message names the settings, what is allowed, and which setting to change.
    """
    yield from _broken_rebalance(settings) or _broken_parameters(settings)
    yield from _broken_times(settings)
    yield from _broken_listeners(settings)
    yield from _broken_sharing(settings)
    if settings.barrier.commit == "first":
        yield from against_first(settings)


def against_first(settings: Settings) -> Iterator[str]:
    """Yield a message for each setting with which ``barrier.commit: first`` is not allowed.

    With ``first``, members are bound before kube-scheduler has chosen their nodes.
    """
    if settings.answer == "ranked":
        yield (
            "barrier.commit: 'first' with answer: ranked would bind members to nodes that kube-scheduler has not "
            "chosen; allowed: auto, all, or answer: one-node"
        )
    if settings.server.tls.on or settings.lease.elect:
        yield (
            "barrier.commit: 'first' with a kube-scheduler that places other pods too (server.tls.peers or "
            "lease.elect): until it sees the early bindings it may give their room to those pods; allowed: auto, all"
        )


def _broken_rebalance(settings: Settings) -> list[str]:
    if not settings.rebalance:
        return []
    try:
        make_policy(settings.system)
    except ValueError as error:
        return [f"rebalance: {settings.rebalance!r} is not allowed with policy: {settings.policy}; {error}"]
    return []


def _broken_parameters(settings: Settings) -> Iterator[str]:
    of_base = sorted(name for name in settings.parameters if "." not in name)
    if of_base and settings.policy_parameters is not settings.parameters:
        yield f"parameters: {', '.join(of_base)} is not allowed with policy: kod2; set it in the section kod2"
        return
    try:
        make_policy(settings.system, **settings.policy_parameters)
    except ValueError as error:
        yield f"parameters: {error}"


def _broken_times(settings: Settings) -> Iterator[str]:
    barrier, scheduler, release = settings.barrier, settings.scheduler, settings.release
    least_window = scheduler.pod_max_backoff_seconds + BACKOFF_MARGIN_SECONDS
    if barrier.window_seconds < least_window:
        yield (
            f"barrier.window_seconds: {barrier.window_seconds:g} is shorter than scheduler.pod_max_backoff_seconds "
            f"({scheduler.pod_max_backoff_seconds:g}) + {BACKOFF_MARGIN_SECONDS:g}: a member in back-off would miss "
            f"the barrier; allowed: at least {least_window:g}, or lower scheduler.pod_max_backoff_seconds"
        )
    least_timeout = least_http_timeout_seconds(barrier)
    if barrier.http_timeout_seconds < least_timeout:
        yield (
            f"barrier.http_timeout_seconds: {barrier.http_timeout_seconds:g} is shorter than barrier.window_seconds "
            f"({barrier.window_seconds:g}) + barrier.binding_seconds ({barrier.binding_seconds:g}) + "
            f"barrier.api_deadline_seconds ({barrier.api_deadline_seconds:g}) + {TIMEOUT_MARGIN_SECONDS:g}: "
            f"kube-scheduler would give up on a bind that is still held; allowed: at least {least_timeout:g}, "
            f"or lower barrier.window_seconds"
        )
    yield from _not_above(
        ("scheduler.pod_initial_backoff_seconds", scheduler.pod_initial_backoff_seconds),
        ("scheduler.pod_max_backoff_seconds", scheduler.pod_max_backoff_seconds),
    )
    yield from _not_above(
        ("release.backoff_initial_seconds", release.backoff_initial_seconds),
        ("release.backoff_max_seconds", release.backoff_max_seconds),
    )
    yield from _not_above(
        ("coalesce_seconds", settings.coalesce_seconds),
        ("tick_seconds", settings.tick_seconds),
    )
    yield from _not_above(
        ("nodes.watch_seconds", settings.nodes.watch_seconds),
        ("nodes.half_life_seconds", settings.nodes.half_life_seconds),
    )
    spare = settings.server.connections - settings.server.reserved_connections
    if barrier.http_timeout_seconds >= least_timeout and settings.largest_gang < 1 <= spare:
        patches, least = settings.controller.patches_per_second, math.ceil(1000 / barrier.hold_seconds) / 1000
        yield (
            f"scheduler.pods_per_second: {scheduler.pods_per_second:g}, controller.patches_per_second: {patches:g}: "
            f"the lower rate lets no pod be scheduled while a bind may be held ({barrier.hold_seconds:g} s), so no "
            f"gang could ever start; allowed: at least {least:g} for both"
        )


def _broken_listeners(settings: Settings) -> Iterator[str]:
    server, progress, api = settings.server, settings.progress, settings.api
    if server.connections - server.reserved_connections < 1:
        yield (
            f"server.reserved_connections: {server.reserved_connections} leaves none of server.connections "
            f"({server.connections}) for held binds; allowed: at most {server.connections - 1}, or raise "
            f"server.connections"
        )
    if not is_loopback(server.host) and not server.allow_remote_without_tls:
        yield (
            f"server.host: {server.host!r} is not a loopback address, so anybody who reaches it may bind pods to "
            f"nodes; allowed: 127.0.0.1, ::1 or localhost; to show REST and the page to people set api.enabled, or "
            f"set server.allow_remote_without_tls if something else guards the port"
        )
    if api.enabled and api.without_tls and not is_loopback(api.host):
        yield (
            f"api.without_tls: true with api.host {api.host!r} sends tokens in the clear; allowed: false, or api.host "
            f"127.0.0.1 with something in the pod that ends TLS before it"
        )
    ports = (
        ("server.port", server.port),
        ("server.health_port", server.health_port),
        ("controller.health_port", settings.controller.health_port),
        *([("progress.port", progress.port)] if progress.enabled else []),
        *([("server.tls.port", server.tls.port)] if server.tls.on else []),
        *([("api.port", api.port)] if api.enabled else []),
    )
    seen: dict[int, str] = {}
    for name, port in ports:
        if port and port in seen:
            yield f"{name}: {port} is the port of {seen[port]} too; allowed: a port that no other listener has"
        seen.setdefault(port, name)


def _broken_sharing(settings: Settings) -> Iterator[str]:
    """Yield a message for each contradiction in how replicas of Kohort find their leader.

    Where a kube-scheduler on another host calls several extenders through a Service, the extenders must elect their
    leader with a Lease of their own.
    """
    lease = settings.lease
    if settings.server.tls.on and not lease.elect and not lease.identity:
        yield (
            "lease.elect: False with server.tls.peers: the Lease of a kube-scheduler on another host never names this "
            "pod, so no replica would lead; allowed: true, or lease.identity '*' with a single replica"
        )
    if lease.elect and lease.identity == "*":
        yield (
            "lease.identity: '*' means that every replica leads, which contradicts lease.elect: true; allowed: another "
            "identity, or lease.elect: false"
        )


def _not_above(lower: tuple[str, float], upper: tuple[str, float]) -> Iterator[str]:
    if lower[1] > upper[1]:
        yield f"{lower[0]}: {lower[1]:g} is above {upper[0]} ({upper[1]:g}); allowed: at most that, or raise {upper[0]}"


def least_http_timeout_seconds(barrier: BarrierSettings) -> float:
    """Return the shortest httpTimeout in seconds with which kube-scheduler waits long enough for every bind.

    The longest bind call is held for a whole window; then making the gang's bindings takes all its allowed time, and
    the last call to the API server hangs until its deadline.
    """
    return barrier.window_seconds + barrier.binding_seconds + barrier.api_deadline_seconds + TIMEOUT_MARGIN_SECONDS

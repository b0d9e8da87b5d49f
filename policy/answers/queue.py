"""The queue for people: the waiting jobs in the order in which the policy looks at them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from policy.cluster.model import Job
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy
from policy.systems.queue import equivalence_classes, in_order

# Reasons that pass without a change of the job: such a job may starve, and then comes first once it can start.
PASSING: Final = (Reason.BACKING_OFF, Reason.RELEASING, Reason.ROOM_HELD, Reason.ROOM_OF_OTHERS)


@dataclass(frozen=True, slots=True)
class Place:
    """One waiting job's place. ``position`` counts from 1; ``weight`` is the published one, None without weights."""

    position: int
    job: Job
    weight: float | None
    starving: bool


def places(snapshot: Snapshot, policy: Policy, now: float) -> tuple[Place, ...]:
    """Return the places of the waiting jobs, in order; a policy without weights orders them by arrival."""
    system = policy.base
    weight = system.weights(snapshot)
    if weight is None:
        order = in_order(snapshot.waiting(), lambda _: 0.0, lambda _: False)
        return tuple(Place(at, job, None, starving=False) for at, job in enumerate(order, start=1))
    starving = _starving(snapshot, system, now)
    order = in_order(snapshot.waiting(), weight, starving)
    return tuple(Place(at, job, system.published(weight(job)), starving(job)) for at, job in enumerate(order, start=1))


def _starving(snapshot: Snapshot, system: Policy, now: float) -> Callable[[Job], bool]:
    """Return a function that tells whether a job starves and therefore comes first.

    It is never true for a job that could not start even if it came first.
    """
    _, barred = equivalence_classes(snapshot, now)
    helpless = {uid for uid, verdict in barred.items() if verdict.reason not in PASSING}
    return lambda job: job.uid not in helpless and system.starving(job, now)


def weights(snapshot: Snapshot, policy: Policy) -> Callable[[Job], float | None]:
    """Return a function that computes a job's published weight; None for a malformed job, or without weights.

    The function is costly to make, because it looks at all nodes, and cheap to call: make it once for many jobs.
    """
    system = policy.base
    weight, published = system.weights(snapshot), system.published
    if weight is None:
        return lambda _: None
    return lambda job: None if job.invalid else published(weight(job))

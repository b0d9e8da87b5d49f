"""The queue as it is listed for people: the waiting jobs in the order in which the policy considers them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from policy.cluster.job import Job
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy
from policy.systems.queue import equivalence_classes, in_order

# A job that cannot start for one of these reasons need not be changed, because the reason passes by itself. So the job
# may count as starving.
PASSING: Final = (Reason.BACKING_OFF, Reason.RELEASING, Reason.ROOM_HELD, Reason.ROOM_OF_OTHERS)


@dataclass(frozen=True, slots=True)
class Place:
    """A waiting job's place in the queue.

    position: counted from 1. weight: the published weight; None under a policy without weights. starving: the job has
    waited for so long that it comes before all weights.
    """

    position: int
    job: Job
    weight: float | None
    starving: bool


def places(snapshot: Snapshot, policy: Policy, now: float) -> tuple[Place, ...]:
    """Return each waiting job with its place in the queue, in order; without weights the order is that of arrival."""
    system = policy.base
    weight = system.weights(snapshot)
    if weight is None:
        order = in_order(snapshot.waiting(), lambda _: 0.0, lambda _: False)
        return tuple(Place(at, job, None, starving=False) for at, job in enumerate(order, start=1))
    starving = _starving(snapshot, system, now)
    order = in_order(snapshot.waiting(), weight, starving)
    return tuple(Place(at, job, system.published(weight(job)), starving(job)) for at, job in enumerate(order, start=1))


def _starving(snapshot: Snapshot, system: Policy, now: float) -> Callable[[Job], bool]:
    """Return a function that tells whether a job starves and therefore comes first in the queue.

    The function returns False for a job that could not start even if it came first.
    """
    _, barred = equivalence_classes(snapshot, now)
    helpless = {uid for uid, verdict in barred.items() if verdict.reason not in PASSING}
    return lambda job: job.uid not in helpless and system.starving(job, now)


def weights(snapshot: Snapshot, policy: Policy) -> Callable[[Job], float | None]:
    """Return a function that computes a job's published weight.

    The function returns None for a malformed job, and for every job if the policy has no weights. It is costly to make,
    because all nodes are looked at, and cheap to call: make it once for many jobs.
    """
    system = policy.base
    weight, published = system.weights(snapshot), system.published
    if weight is None:
        return lambda _: None
    return lambda job: None if job.invalid else published(weight(job))

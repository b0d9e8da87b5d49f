"""The queue for people: the waiting jobs in the order in which the policy looks at them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from policy.cluster.model import Job
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy
from policy.systems.queue import in_order, weigher


@dataclass(frozen=True, slots=True)
class Place:
    """One waiting job's place. ``position`` counts from 1; ``weight`` is the published one, if the policy has any."""

    position: int
    job: Job
    weight: float | None
    starving: bool


def places(snapshot: Snapshot, policy: Policy, now: float) -> tuple[Place, ...]:
    """The waiting jobs in order; without weights, the one that came first is first."""
    system = weigher(policy)
    if system is None:
        order = in_order(snapshot.waiting(), lambda _: 0.0, lambda _: False)
        return tuple(Place(at, job, None, starving=False) for at, job in enumerate(order, start=1))
    weight, starving = system.weights(snapshot), partial(system.starving, now=now)
    order = in_order(snapshot.waiting(), weight, starving)
    return tuple(Place(at, job, system.published(weight(job)), starving(job)) for at, job in enumerate(order, start=1))


def weights(snapshot: Snapshot, policy: Policy) -> Callable[[Job], float | None]:
    """The published weight of any job that can be weighed. The nodes are looked at once, so ask once and weigh many."""
    system = weigher(policy)
    if system is None:
        return lambda _: None
    weight, published = system.weights(snapshot), system.published
    return lambda job: None if job.invalid else published(weight(job))

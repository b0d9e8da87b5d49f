"""How the baselines of the Pollux artifact place a job: worker by worker on the emptiest node.

A rule is a parameter of each rival. It packs nothing, and no job is moved to mend a bad placement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from policy.cluster.job import Job, Slot, worker_slots
from policy.placement.room import Room

# A rule returns the node of each worker and takes their room; it returns None and takes nothing if they do not fit.
PlacementRule = Callable[[Room, Job, int], dict[Slot, str] | None]


def emptiest_first(room: Room, job: Job, workers: int) -> dict[Slot, str] | None:
    """Put workers on the node with the most room for them as long as they fit, then on the next; first by name."""
    return _fill(room, job, workers, lambda free, missing: max(free, key=free.__getitem__))


def fullest_first(room: Room, job: Job, workers: int) -> dict[Slot, str] | None:
    """Put workers on the fullest node that takes all that are missing; if there is none, on the emptiest."""

    def node(free: Mapping[str, int], missing: int) -> str:
        fitting = [name for name, count in free.items() if count >= missing]
        return min(fitting, key=free.__getitem__) if fitting else max(free, key=free.__getitem__)

    return _fill(room, job, workers, node)


def _fill(
    room: Room, job: Job, workers: int, choose: Callable[[Mapping[str, int], int], str]
) -> dict[Slot, str] | None:
    """Place the workers node by node. ``choose`` returns the next node, from how many workers each can take and how
    many are still missing.
    """
    role = job.worker
    if role is None:
        return None
    free, nodes = {name: role.requests.how_many(room.free(name)) for name in room}, list[str]()
    while len(nodes) < workers:
        name = choose(free, workers - len(nodes)) if free else ""
        taken = min(free.get(name, 0), workers - len(nodes))
        if taken <= 0:
            return None
        free[name] -= taken
        nodes += [name] * taken
    for name in nodes:
        room.take(name, role.requests)
    return dict(zip(worker_slots(workers), nodes, strict=True))

"""The history of a job as the API showed it, and functions that read a job object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from extender.kube.jobkinds import MAX_WORKERS, MEMORY, MIN_WORKERS
from lab.sim.objects import JobObject, PodObject
from policy.cluster.job import WORKER, Slot
from policy.cluster.node import Node

# A process may act on outdated state for this many seconds, because a stalled watch is given up after 50 s.
STALE: Final = 75.0


class Past:
    """The history of a job as the API showed it, which the checks of the rules use."""

    def __init__(self) -> None:
        self.minimums: list[tuple[float, int]] = []  # (time, minimum of workers from that time on)
        self.least: int | None = None  # the smallest minimum of workers under which the gang was ever complete
        self.partial_since: float | None = None
        self.holds = self.going = False  # whether a member holds room now, and whether a member is terminating now
        self.held_until = -1e9  # the last time at which a member held room, terminating or not
        self.lost_at = -1e9
        self.whole_since: float | None = None
        self.committed = -1e9  # the last time at which bindings were sent while the whole minimum had asked to be bound
        # Kohort's changes of the replicas while the job runs: (time, new number)
        self.turns: list[tuple[float, int]] = []
        self.moves = 0  # how often Kohort suspended the job although its gang was complete, as it does for a move
        self.suspended_at = -1e9  # the last time at which the job was suspended, by a user or by Kohort
        self.asked = 0  # the number of workers that the job asked for before Kohort's last write
        self.unnumbered_since: float | None = None
        # whether another scheduler has bound a member; the job may then run although the policy has rejected it
        self.begun_by_others = False


def complete(job: JobObject, slots: set[Slot], workers: int) -> bool:
    """Tell whether ``slots`` has every rigid member and at least ``workers`` workers."""
    rigid = all(slot in slots for slot in job.spec.slots if slot.role != WORKER)
    return rigid and sum(1 for slot in slots if slot.role == WORKER) >= workers


def any_goes(pods: Iterable[PodObject], nodes: Mapping[str, Node]) -> bool:
    """Tell whether one of the pods is terminating on a ready node, so that its end will be reported."""
    going = (pod for pod in pods if pod.holds_room and pod.deleted is not None)
    return any(pod.node in nodes and nodes[pod.node].ready for pod in going)


def over(job: JobObject | None) -> set[Slot]:
    """Return the slots of the completed indices of an Indexed Job. Their pods may be gone."""
    return {Slot(WORKER, index) for index in job.over} if job is not None else set()


def refused(job: JobObject) -> bool:
    """Tell whether the job's annotation says that the policy has rejected it (OASiS)."""
    return '"rejected":' in job.spec.annotations.get(MEMORY, "")


def broken(job: JobObject) -> bool:
    """Tell whether the job's annotations make its bounds unreadable."""
    return bool(job.spec.annotations.keys() & {MIN_WORKERS, MAX_WORKERS})

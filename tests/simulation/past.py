"""The history of a job as the API showed it, and what is read from a job's object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from extender.kube.jobkinds import MAX_WORKERS, MEMORY, MIN_WORKERS
from lab.sim.objects import JobObject, PodObject
from policy.cluster.model import WORKER, Node, Slot

STALE: Final = 75.0  # seconds for which our processes may act on old state: a stalled watch is given up after 50


class Past:
    """The history of a job as the API showed it."""

    def __init__(self) -> None:
        self.minimums: list[tuple[float, int]] = []  # (since when, minimum)
        self.least: int | None = None  # the minimum that the gang once reached
        self.partial_since: float | None = None
        self.holds = self.going = False  # whether a member holds room; whether one is terminating
        self.held_until = -1e9  # when a member was last bound, terminating or not
        self.lost_at = -1e9
        self.whole_since: float | None = None
        self.committed = -1e9  # when a complete gang's bindings were last sent
        self.turns: list[tuple[float, int]] = []  # our changes of replicas while it runs: (when, to how many)
        self.moves = 0  # how often we suspended it although it was whole
        self.suspended_at = -1e9  # when the job was last suspended, by anybody
        self.asked = 0  # workers before our last write
        self.unnumbered_since: float | None = None
        self.begun_by_others = False  # another scheduler has bound a member, which decides whether the job runs


def complete(job: JobObject, slots: set[Slot], workers: int) -> bool:
    """Tell whether these slots have every rigid member and so many workers."""
    rigid = all(slot in slots for slot in job.spec.slots if slot.role != WORKER)
    return rigid and sum(1 for slot in slots if slot.role == WORKER) >= workers


def any_goes(pods: Iterable[PodObject], nodes: Mapping[str, Node]) -> bool:
    """Tell whether one of the pods is stopping on a node that reports."""
    going = (pod for pod in pods if pod.holds_room and pod.deleted is not None)
    return any(pod.node in nodes and nodes[pod.node].ready for pod in going)


def over(job: JobObject | None) -> set[Slot]:
    """Return the completed indices, whether or not their pods still exist."""
    return {Slot(WORKER, index) for index in job.over} if job is not None else set()


def refused(job: JobObject) -> bool:
    """Tell whether the job's annotation says that the policy has rejected it (OASiS)."""
    return '"rejected":' in job.spec.annotations.get(MEMORY, "")


def broken(job: JobObject) -> bool:
    """Tell whether the job's annotations make its bounds unreadable."""
    return bool(job.spec.annotations.keys() & {MIN_WORKERS, MAX_WORKERS})

"""What the truth said of a job, and when; and what is read off a job's object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from extender.kube.jobkinds import MAX_WORKERS, MEMORY, MIN_WORKERS
from lab.sim.objects import JobObject, PodObject
from policy.cluster.model import WORKER, Node, Slot

STALE: Final = 75.0  # seconds for which our parts may go by what is past: a stalled watch is given up after 50


class Past:
    """What the truth said of a job, and when."""

    def __init__(self) -> None:
        self.minimums: list[tuple[float, int]] = []  # since when the minimum was that
        self.least: int | None = None  # the minimum that the gang once reached
        self.partial_since: float | None = None
        self.holds = self.going = False  # whether a member holds room; whether one is on its way out
        self.held_until = -1e9  # when a member was last bound, going or not
        self.lost_at = -1e9
        self.whole_since: float | None = None
        self.committed = -1e9  # when a complete gang's bindings were last sent
        self.turns: list[tuple[float, int]] = []  # changes of replicas by us while it runs: when, to how many
        self.moves = 0  # times that it was suspended by us although it was whole
        self.suspended_at = -1e9  # when the job was last suspended, by whomever
        self.asked = 0  # workers, before the last write of ours
        self.unnumbered_since: float | None = None
        self.begun_by_others = False  # another scheduler has bound a member: whether the job runs is decided by that


def complete(job: JobObject, slots: set[Slot], workers: int) -> bool:
    """Whether these slots hold every rigid member and so many workers."""
    rigid = all(slot in slots for slot in job.spec.slots if slot.role != WORKER)
    return rigid and sum(1 for slot in slots if slot.role == WORKER) >= workers


def any_goes(pods: Iterable[PodObject], nodes: Mapping[str, Node]) -> bool:
    """Whether one of them stops on a node that tells when it has."""
    going = (pod for pod in pods if pod.holds_room and pod.deleted is not None)
    return any(pod.node in nodes and nodes[pod.node].ready for pod in going)


def over(job: JobObject | None) -> set[Slot]:
    """Indices that are complete, whether or not their pods are still there."""
    return {Slot(WORKER, index) for index in job.over} if job is not None else set()


def refused(job: JobObject) -> bool:
    """Whether the job's object says that the policy has refused it for good (OASiS)."""
    return '"rejected":' in job.spec.annotations.get(MEMORY, "")


def broken(job: JobObject) -> bool:
    """Whether the job's annotations hide its bounds."""
    return bool(job.spec.annotations.keys() & {MIN_WORKERS, MAX_WORKERS})

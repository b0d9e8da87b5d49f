"""Optimus (Peng et al., EuroSys 2018) with an oracle, as the Pollux artifact (OSDI 2021) has it.

Every job gets one worker, in order of arrival, while there are any. Then the job whose remaining time a further worker
shortens most gets one more, until none is left or no job gains. The oracle knows the exact time of an iteration with
any number of workers, and how many iterations are left; Optimus itself estimates both. A job whose number has changed
starts anew on other nodes, however little it gains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from typing import Protocol

from lab.sim.rivals.emptiest import PlacementRule, emptiest_first
from lab.sim.rivals.turns import in_order_of_arrival, turn_over, workers_of_cluster
from policy.cluster.actions import Decision
from policy.cluster.frozen import replace
from policy.cluster.job import Job
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy


class Oracle(Protocol):
    """What Optimus has to know of a job's training."""

    def seconds(self, job: Job, workers: int) -> float:
        """Return the time of one iteration with so many workers."""
        ...

    def left(self, job: Job, done: float) -> float:
        """Return how many iterations are left; ``done``: the share (0 to 1) of the work that the job reports."""
        ...


@dataclass(frozen=True, slots=True)
class Optimus(Policy):
    """The policy; ``oracle`` knows the jobs, and ``place`` chooses nodes."""

    oracle: Oracle = field()
    place: PlacementRule = field(default=emptiest_first)

    @property
    def name(self) -> str:
        """Return ``optimus``."""
        return "optimus"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Divide the cluster among all jobs from scratch; smaller jobs are placed first."""
        jobs, barred = in_order_of_arrival(snapshot, now)
        given = self.numbers(snapshot, jobs)
        sizes = sorted(zip(jobs, given, strict=True), key=lambda one: one[1])
        decision = turn_over(snapshot, sizes, self.place)
        return replace(decision, verdicts={**barred, **decision.verdicts})

    def numbers(self, snapshot: Snapshot, jobs: Sequence[Job]) -> list[int]:
        """Return the number of workers of each job."""
        room, given = workers_of_cluster(snapshot, jobs), list[int]()
        for job in jobs:
            least = max(1, job.min_workers)
            given.append(least if sum(given) + least <= room else 0)
        heap = [(-self._gain(snapshot, job, given[at]), at) for at, job in enumerate(jobs)]
        heapify(heap)
        for _ in range(room - sum(given)):
            if not heap or heap[0][0] >= 0:
                break
            at = heap[0][1]
            given[at] += 1
            heapreplace(heap, (-self._gain(snapshot, jobs[at], given[at]), at))
        return given

    def _gain(self, snapshot: Snapshot, job: Job, workers: int) -> float:
        """Return by how many seconds one more worker shortens the job; 0 for one that has none, or has its most."""
        if not 0 < workers < job.max_workers:
            return 0.0
        reports = snapshot.reports.get(job.uid, ())
        done = next((report.done for report in reversed(reports) if report.done is not None), 0.0)
        saved = self.oracle.seconds(job, workers) - self.oracle.seconds(job, workers + 1)
        return saved * self.oracle.left(job, done)

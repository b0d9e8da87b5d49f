"""Dominant resource fairness (Ghodsi et al., NSDI 2011), a baseline of OASiS: all jobs share by progressive filling."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import ClassVar

from policy.cluster.actions import Decision
from policy.cluster.job import Job, queued
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy
from policy.systems.queue import queue
from policy.systems.shares import Orders, Pools


@dataclass(frozen=True, slots=True)
class Drf(Policy):
    """Gives the next worker, with the ps that it needs, to the job with the least dominant share, until nothing fits.

    The shares depend only on which jobs there are, so they change when a job comes or ends, as in OASiS's paper. A job
    that cannot start for a reason other than room gets no share, because no job could use the room of that share.
    """

    name: ClassVar[str] = "drf"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Compute the shares of all jobs again, and resize only the jobs whose number of workers has changed."""
        running = [job for job in snapshot.running() if queued(job)]
        line = queue(snapshot, now)
        jobs = sorted((*running, *line.ready), key=lambda job: (job.arrival, job.uid))
        orders = Orders(snapshot)
        orders.give(fill(snapshot, jobs))
        return Decision(tuple(orders.actions), {**line.barred, **orders.verdicts})


def fill(snapshot: Snapshot, jobs: list[Job]) -> dict[str, int]:
    """Return by job uid the number of workers that progressive filling gives the job.

    ``jobs``: in order of arrival; among jobs with equal shares the oldest gets the next worker.
    """
    pools, given = Pools(snapshot), {job.uid: 0 for job in jobs}
    heap = [(0.0, number) for number in range(len(jobs))]
    heapify(heap)
    while heap:
        _, number = heappop(heap)
        job = jobs[number]
        have = given[job.uid]
        want = have + 1 if have else max(1, job.min_workers)
        if want <= job.max_workers and pools.take(job, have, want):
            given[job.uid] = want
            heappush(heap, (pools.share(job, want), number))
    return given

"""Tiresias (Gu et al., NSDI 2019) with two queues, as the Pollux artifact (OSDI 2021) has it.

Its policy is discretised least attained service: the service of a job is the time for which it has held GPUs, times
their number. A job enters the first queue, and sinks into the second one when its service has reached a threshold.
Jobs take their turn first queue first, each queue in the order of entry; one that does not fit is passed over. A job
runs with the number of workers that it asks for, and loses all of them when its turn comes no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.sim.rivals.emptiest import PlacementRule, emptiest_first
from lab.sim.rivals.turns import held, in_order_of_arrival, turn_over, workers_of_cluster
from policy.cluster.actions import Decision, Remember
from policy.cluster.frozen import replace
from policy.cluster.job import Job
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy, from_0
from policy.systems.queue import asked_workers

MEMORY = "tiresias"
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class ServiceBook:
    """What Tiresias remembers: the jobs of both queues in order, and the time for which each has held GPUs.

    ``at``: when the times were last counted, in seconds since the epoch.
    """

    at: float
    queues: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    seconds: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Tiresias(Policy):
    """The policy with its parameters.

    ``threshold_hours``: the service in worker-hours (here GPU-hours) at which a job sinks into the second queue.
    ``backfill``: whether jobs behind one that does not fit may run. ``place``: how nodes are chosen.
    """

    threshold_hours: float = 16.0
    backfill: bool = True
    place: PlacementRule = field(default=emptiest_first)

    def __post_init__(self) -> None:
        """Raise ValueError for a threshold below 0."""
        from_0(self, "threshold_hours")

    @property
    def name(self) -> str:
        """Return ``tiresias``."""
        return "tiresias"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Count the service up to now, and run the jobs whose turn it is."""
        jobs, barred = in_order_of_arrival(snapshot, now)
        found = snapshot.memory.get(MEMORY)
        before = found if isinstance(found, ServiceBook) else ServiceBook(now)
        book = self._counted(before, snapshot, jobs, now)
        by_uid = {job.uid: job for job in jobs}
        line = [by_uid[uid] for uid in (*book.queues[0], *book.queues[1])]
        decision = turn_over(snapshot, self._sizes(snapshot, line), self.place)
        remember = (Remember(MEMORY, book),) if book != found else ()
        return replace(decision, actions=(*remember, *decision.actions), verdicts={**barred, **decision.verdicts})

    def _counted(self, book: ServiceBook, snapshot: Snapshot, jobs: Sequence[Job], now: float) -> ServiceBook:
        """Return the book at this time: new jobs enter, and those with enough service sink, in order of arrival."""
        uids = {job.uid for job in jobs}
        first, second = ([uid for uid in queue if uid in uids] for queue in book.queues)
        known, seconds = {*first, *second}, dict(book.seconds)
        first += [job.uid for job in jobs if job.uid not in known]
        for job in jobs:
            workers = held(snapshot, job)
            seconds[job.uid] = seconds.get(job.uid, 0.0) + (now - book.at if workers else 0.0)
            if workers and job.uid in first and seconds[job.uid] * workers >= self.threshold_hours * HOUR:
                first.remove(job.uid)
                second.append(job.uid)
        return ServiceBook(now, (tuple(first), tuple(second)), tuple((job.uid, seconds[job.uid]) for job in jobs))

    def _sizes(self, snapshot: Snapshot, line: Sequence[Job]) -> list[tuple[Job, int]]:
        """Return the number of workers for each job of the line: what it asks for, or none.

        Only the number of workers counts that the whole cluster could hold, so there is no fragmentation.
        """
        room = workers_of_cluster(snapshot, line)
        taken, sizes, closed = 0, list[tuple[Job, int]](), False
        for job in line:
            asked = asked_workers(job)
            fits = taken + asked <= room and not closed
            closed = closed or (not fits and not self.backfill)
            taken += asked if fits else 0
            sizes.append((job, asked if fits else 0))
        return sizes

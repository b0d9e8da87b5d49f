"""The risk-reward heuristic (Irwin, Grit, Chase, HPDC 2004), a baseline of OASiS.

A job is accepted if its utility, less the utility that other jobs lose because it delays them, is above a threshold.
Whenever a job comes or ends, the accepted jobs are ranked by their utility per unit of room and time. In this order the
jobs that fit run, and the others pause. A job's number of workers never changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Set
from dataclasses import dataclass, field, replace
from typing import ClassVar

from policy.cluster.actions import Action, Decision, Reject, Remember
from policy.cluster.job import Job, queued
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot
from policy.cluster.training import SLOT_SECONDS, Utility, timed
from policy.placement.gang import ask_of
from policy.systems.base import Policy, above_0, from_0
from policy.systems.queue import asked_workers, never_fits, queue
from policy.systems.shares import Orders, Pools, stands

MEMORY = "rrh"
TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Chosen:
    """The division of the cluster that was made when a job last came or ended. All fields have uids of jobs.

    jobs: the jobs that were known then. chosen: the jobs that run, by rank. rejected: the jobs that were refused.
    left_out: known jobs that were not ranked, because they could not start for a reason other than room.
    """

    jobs: frozenset[str] = frozenset()
    chosen: tuple[str, ...] = ()
    rejected: frozenset[str] = field(default_factory=frozenset)
    left_out: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Rrh(Policy):
    """The heuristic's parameters.

    slot_seconds: the length in seconds of the time slots in which utility curves count delays. threshold: a job is
    accepted if its utility, less what other jobs lose by it, exceeds this share of theta1, the value of its curve.
    """

    name: ClassVar[str] = "rrh"

    slot_seconds: float = SLOT_SECONDS
    threshold: float = 0.05

    def __post_init__(self) -> None:
        above_0(self, "slot_seconds")
        from_0(self, "threshold")

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Rank the jobs again if one has come or ended; then give the chosen jobs what they ask for.

        A job that cannot start for a reason other than room is neither judged nor ranked until it can.
        """
        remembered = snapshot.memory.get(MEMORY)
        before = remembered if isinstance(remembered, Chosen) else Chosen()
        rejected, barred = before.rejected & snapshot.jobs.keys(), _barred(snapshot, now)
        jobs = {
            job.uid: job
            for job in (*snapshot.running(), *snapshot.waiting())
            if queued(job) and job.uid not in rejected and (job.uid not in barred or job.uid in before.jobs)
        }
        out = jobs.keys() & barred.keys()
        if stands(jobs.keys(), before.jobs, barred=barred.keys(), shares=set(before.chosen), left_out=before.left_out):
            refused: list[str] = []
            book = Chosen(frozenset(jobs), before.chosen, rejected, before.left_out)
        else:
            chosen, refused = self._choose(snapshot, jobs, out, before, now)
            rejected |= frozenset(refused)
            book = Chosen(frozenset(jobs) - rejected, chosen, rejected, frozenset(out) - rejected)
        ranked = {uid: job for uid, job in jobs.items() if uid not in out}
        found = self._orders(snapshot, ranked, book, refused, remember=book != before)
        return replace(found, verdicts={**barred, **found.verdicts})

    def _orders(
        self, snapshot: Snapshot, jobs: dict[str, Job], book: Chosen, refused: list[str], *, remember: bool
    ) -> Decision:
        orders = Orders(snapshot, whole=True)
        kept = [uid for uid in jobs if uid not in book.chosen and uid not in book.rejected]
        orders.give(dict.fromkeys(kept, 0) | {uid: asked_workers(jobs[uid]) for uid in book.chosen})
        why = Verdict(
            Reason.REJECTED, f"its utility has fallen below {self.threshold:g} of the highest that it could have"
        )
        verdicts = dict.fromkeys(book.rejected, why) | orders.verdicts
        actions: list[Action] = [Reject(uid, Reason.REJECTED, why.detail) for uid in refused]
        memory = [Remember(MEMORY, book)] if remember else []
        return Decision((*actions, *orders.actions, *memory), verdicts)

    # -- The methods below choose which jobs run. ------------------------------------------------

    def _choose(
        self, snapshot: Snapshot, jobs: dict[str, Job], out: Set[str], before: Chosen, now: float
    ) -> tuple[tuple[str, ...], list[str]]:
        """Return the uids of the jobs that run, by rank, and those of the jobs that are refused.

        Running jobs are never refused, only paused. ``out``: jobs that cannot start for a reason other than room; they
        are not ranked. ``before``: the previous division.
        """
        pools = Pools(snapshot)
        views = {uid: self._view(snapshot, job, pools, now) for uid, job in jobs.items()}
        accepted = {uid for uid in jobs if uid in before.jobs}
        hopeless = [uid for uid in accepted if not snapshot.gang(uid).admitted and not self._pays(views[uid], 0.0)]
        refused = sorted(hopeless)
        accepted -= set(hopeless) | out
        for uid in sorted(jobs.keys() - before.jobs, key=lambda uid: (jobs[uid].arrival, uid)):
            displaced = set(self._fill(snapshot, accepted, views)) - set(self._fill(snapshot, {*accepted, uid}, views))
            cost = sum(views[other].loss(views[uid].left) for other in displaced)
            if self._pays(views[uid], cost):
                accepted.add(uid)
            else:
                refused.append(uid)
        return self._fill(snapshot, accepted, views), refused

    def _pays(self, view: RankedJob, cost: float) -> bool:
        return view.worth - cost > self.threshold * view.utility.value

    def _fill(self, snapshot: Snapshot, uids: Iterable[str], views: dict[str, RankedJob]) -> tuple[str, ...]:
        """Return the uids of the jobs that run: in the order of rank, each job that fits beside those before it."""
        pools, chosen = Pools(snapshot), []
        for uid in sorted(uids, key=lambda uid: (-views[uid].score, views[uid].job.arrival, uid)):
            if pools.take(views[uid].job, 0, asked_workers(views[uid].job)):
                chosen.append(uid)
        return tuple(chosen)

    def _view(self, snapshot: Snapshot, job: Job, pools: Pools, now: float) -> RankedJob:
        training = timed(job.training, 1, self.slot_seconds)
        work, workers = training.worker_slots(self.slot_seconds), asked_workers(job)
        left = max(TINY, work - self._done(snapshot, job, work, now)) / workers
        share = max(TINY, pools.share(job, workers))
        utility = training.utility or Utility(job.utility, 0.0, 0.0)
        return RankedJob(job, utility, (now - job.arrival) / self.slot_seconds, left, share)

    def _done(self, snapshot: Snapshot, job: Job, work: int, now: float) -> float:
        """Return how many worker-slots the job has done: by its last report, and by the time that it has run since."""
        reports = [report for report in snapshot.reports.get(job.uid, ()) if report.done is not None]
        gang = snapshot.gang(job.uid)
        since = max(reports[-1].at if reports else 0.0, gang.admitted_at or now)
        passed = (now - since) / self.slot_seconds * gang.workers if gang.admitted else 0.0
        return (reports[-1].done or 0.0) * work + passed if reports else passed


def _barred(snapshot: Snapshot, now: float) -> dict[str, Verdict]:
    """Return by uid the verdicts of the waiting jobs that cannot start for a reason other than free room.

    Among them are jobs that would not fit into the empty cluster with all the workers they ask for.
    """
    waiting = queue(snapshot, now)
    found = ((job.uid, never_fits(snapshot, ask_of(snapshot, job, asked_workers(job)))) for job in waiting.ready)
    return {**waiting.barred, **{uid: never for uid, never in found if never is not None}}


@dataclass(frozen=True, slots=True)
class RankedJob:
    """A job with the figures by which it is ranked.

    age: the time slots since its arrival. left: the time slots until its end if it runs from now on. share: its
    dominant share of the cluster. utility: its utility curve.
    """

    job: Job
    utility: Utility
    age: float
    left: float
    share: float

    @property
    def worth(self) -> float:
        """The utility of the job if it runs from now on until it completes."""
        return self.utility.at(math.ceil(self.age + self.left - TINY) - 1)

    def loss(self, slots: float) -> float:
        """Return how much utility the job loses if it is delayed by ``slots`` time slots."""
        return self.worth - self.utility.at(math.ceil(self.age + self.left + slots - TINY) - 1)

    @property
    def score(self) -> float:
        """The figure by which jobs are ranked, the largest first.

        It is the job's utility plus what the job loses by waiting for one time slot, divided by its share of the
        cluster and by the time slots that it needs.
        """
        return (self.worth + self.loss(1.0)) / (self.share * self.left)

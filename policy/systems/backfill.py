"""FIFO with EASY backfill (Lifka, JSSPP 1995): younger jobs use idle room where that does not delay the oldest one.

The oldest job that does not fit (the head) has a reservation: the earliest time at which enough running jobs have
ended, and the room that the head takes then. A younger job starts if it ends before that time, or if it fits beside the
reserved room. A job's duration is what its annotation states (``kohort.dev/training``) for the number of workers that
it has, less the share that it has reported as done. Jobs that state no duration are assumed to end after all others, in
the order of their starts.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from policy.cluster.actions import Action, Admit, Decision
from policy.cluster.gang import Gang, State
from policy.cluster.job import Job, Slot
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot, demand
from policy.placement.ask import Ask
from policy.placement.gang import ask_of, charge
from policy.placement.room import Room
from policy.placement.spread import spread
from policy.systems.base import Policy
from policy.systems.queue import asked_workers, misfits, queue


@dataclass(frozen=True, slots=True)
class FifoBackfill(Policy):
    """``fifo``, except that younger jobs may use idle room where that does not delay the oldest one."""

    name: ClassVar[str] = "fifo-backfill"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Start whole jobs in order of arrival, with the workers they ask for; when one does not fit, start those
        younger jobs that do not delay it.
        """
        return BackfillCycle(snapshot, now).run()


class BackfillCycle:
    """One cycle of EASY backfill on a working copy of the room."""

    def __init__(self, snapshot: Snapshot, now: float) -> None:
        self._snapshot, self._now = snapshot, now
        self._room = Room.of(snapshot)
        self._given: dict[str, Gang] = {}
        self._actions: list[Action] = []
        self._head: Job | None = None
        # The head's reservation has the time at which the head may start, and the room that it leaves free then.
        self._reserved: tuple[float, Room] | None = None

    def run(self) -> Decision:
        """Return the decision: start the jobs that fit with the workers they ask for, and say why the others wait."""
        found = queue(self._snapshot, self._now)
        verdicts = dict(found.barred)
        known = misfits(self._snapshot, FifoBackfill.__name__)
        # crowded_out has the requests that found no room after jobs had started in this cycle. They are not added to
        # ``known``, so that the next cycle tries them again.
        crowded_out: set[Ask] = set()
        for job in found.ready:
            ask = ask_of(self._snapshot, job, asked_workers(job))
            nodes = None if ask in known or ask in crowded_out else spread(self._room, ask)
            if nodes is None:
                (crowded_out if self._actions else known).add(ask)
                verdicts[job.uid] = ask.no_room
                if self._head is None:
                    self._head, self._reserved = job, self._reservation(ask)
            elif not self._starts(job, ask, nodes) and self._head is not None:
                verdicts[job.uid] = Verdict(
                    Reason.BEHIND, f"its start now would delay {self._head.key}, which comes first", self._head.uid
                )
        return Decision(tuple(self._actions), verdicts)

    def _starts(self, job: Job, ask: Ask, nodes: Mapping[Slot, str]) -> bool:
        """Start the job, unless that would delay the head; tell whether it was started."""
        workers = asked_workers(job)
        if self._reserved is not None:
            at, beside = self._reserved
            ends = self._now + _seconds(job, workers)
            if not (ends <= at and ends < math.inf):
                found = spread(self._room.at_most(beside), ask)
                if found is None:
                    return False
                nodes = found
                charge(beside, ask, nodes)
        charge(self._room, ask, nodes)
        self._given[job.uid] = Gang(job.uid, State.PLANNED, nodes=nodes, workers=workers, admitted_at=self._now)
        self._actions.append(Admit(job.uid, workers, nodes))
        return True

    def _reservation(self, ask: Ask) -> tuple[float, Room] | None:
        """Return the head's reservation: the time at which it may start, and the room that it leaves free then.

        The result is None if the head would not fit even after all running jobs had ended; then no job can delay it.
        """
        running = {job.uid: self._snapshot.gang(job.uid) for job in self._snapshot.running()} | self._given
        ends = sorted((self._ends(gang), gang.admitted_at or self._now, uid) for uid, gang in running.items())

        def after(count: int) -> Room:
            room = self._room.branch()
            for _, _, uid in ends[:count]:
                job = self._snapshot.jobs[uid]
                for slot, node in running[uid].nodes.items():
                    room.give(node, demand(job, slot, self._snapshot.member(uid, slot)))
            return room

        counts = range(len(ends) + 1)
        count = bisect_left(counts, True, key=lambda count: spread(after(count), ask) is not None)
        if count == len(counts):
            return None
        room = after(count)
        charge(room, ask, spread(room, ask) or {})
        return (ends[count - 1][0] if count else self._now), room

    def _ends(self, gang: Gang) -> float:
        """Return when a running job ends, in seconds since the epoch, by its annotation and its progress reports.

        The time is infinite if the annotation states no duration.
        """
        job, began = self._snapshot.jobs[gang.job_uid], gang.admitted_at or self._now
        told = [report for report in self._snapshot.reports.get(job.uid, ()) if report.done is not None]
        whole = _seconds(job, gang.workers)
        ends = told[-1].at + (1.0 - (told[-1].done or 0.0)) * whole if told else began + whole
        return max(self._now, ends)


def _seconds(job: Job, workers: int) -> float:
    """Return for how many seconds the job trains with ``workers`` workers, by its annotation; infinite if the
    annotation states no duration.
    """
    training = job.training
    if training is None or not training.is_timed or workers == 0:
        return math.inf
    return training.worker_seconds / workers

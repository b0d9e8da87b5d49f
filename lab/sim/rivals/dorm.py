"""Dorm (Sun et al., 2017), a rival in OASiS: when a job arrives or ends, a MILP sets each job's workers.

The MILP maximises the utilisation of all resources under two bounds: on the sum of the jobs' distances from their
dominant-resource-fair shares, and on the number of running jobs that change. HiGHS solves it within a limit on its
search tree; placement is round robin. If no solution keeps both bounds, the second is dropped, then the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from policy.cluster.actions import Action, Decision, Remember
from policy.cluster.job import Job, queued
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy
from policy.systems.drf import fill
from policy.systems.queue import queue
from policy.systems.shares import Orders, stands

MEMORY = "dorm"


@dataclass(frozen=True, slots=True)
class DormBook:
    """What Dorm remembers: the decided number of workers by job UID, which holds until a job arrives or ends.

    ``left_out`` has the UIDs of the jobs that could not take part in that decision, because they were barred from the
    queue.
    """

    jobs: frozenset[str]
    workers: tuple[tuple[str, int], ...]
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Dorm(Policy):
    """The policy Dorm with its parameters.

    ``fairness`` (theta1 of Dorm) bounds the fairness loss as a share of its maximum, which is two for each job.
    ``changes`` (theta2) is the share of running jobs that may be resized at once. ``nodes`` limits the solver's search
    tree, and ``gap`` is the relative gap at which it may stop.
    """

    fairness: float = 0.1
    changes: float = 0.1
    nodes: int = 1_000
    gap: float = 0.02

    @property
    def name(self) -> str:
        """Return ``dorm``."""
        return "dorm"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Compute new worker numbers if a job has arrived or ended, and return the orders that follow from them."""
        running = [job for job in snapshot.running() if queued(job)]
        line, book = queue(snapshot, now), snapshot.memory.get(MEMORY)
        before = book if isinstance(book, DormBook) else DormBook(frozenset(), ())
        jobs = sorted((*running, *line.ready), key=lambda job: (job.arrival, job.uid))
        left_out = before.jobs & line.barred.keys()
        uids = left_out | {job.uid for job in jobs}
        shares = {uid for uid, given in before.workers if given}
        actions: list[Action] = []
        fresh = not isinstance(book, DormBook)
        if fresh or not stands(uids, before.jobs, barred=line.barred.keys(), shares=shares, left_out=before.left_out):
            before = DormBook(uids, tuple(self.numbers(snapshot, jobs).items()), left_out)
            actions = [Remember(MEMORY, before)]
        orders = Orders(snapshot)
        orders.give({uid: given for uid, given in before.workers if uid not in line.barred})
        return Decision((*actions, *orders.actions), {**line.barred, **orders.verdicts})

    def numbers(self, snapshot: Snapshot, jobs: Sequence[Job]) -> dict[str, int]:
        """Solve the MILP, and return the number of workers by job UID; without a solution, the fair numbers."""
        fair = fill(snapshot, list(jobs))
        if not jobs:
            return {}
        from lab.sim.rivals.program import Program  # imported here, because importing the solver takes long

        program = Program(snapshot, jobs, fair)
        unfairness, changes = program.unfairness(self.fairness), program.changes(self.changes)
        for bounds in ([unfairness, changes], [unfairness], []):
            found = program.solve([*program.rules(), *bounds], nodes=self.nodes, gap=self.gap)
            if found is not None:
                return {job.uid: given for job, given in zip(jobs, found, strict=True)}
        return fair

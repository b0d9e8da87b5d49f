"""Dorm (Sun et al., 2017), as OASiS's rival: when a job comes or ends, a MILP gives each its number of workers.

The utilisation of all resources is maximised; the sum of the jobs' distances from their dominant-resource-fair share,
and the number of running jobs that are changed, are bounded. Solved by HiGHS, with a time limit; placement is round
robin. Where no numbers obey both bounds, those are given up in that order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from policy.cluster.actions import Action, Decision, Remember
from policy.cluster.model import PS, WORKER, Job
from policy.cluster.snapshot import Snapshot, queued
from policy.placement.fit import accepts
from policy.systems.drf import fill
from policy.systems.queue import queue
from policy.systems.shares import Orders, Pools, stands

MEMORY = "dorm"


@dataclass(frozen=True, slots=True)
class Book:
    """The numbers that hold until a job comes or ends. left_out: those of the jobs that were barred."""

    jobs: frozenset[str]
    workers: tuple[tuple[str, int], ...]
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Dorm:
    """fairness (theta1 of Dorm): bound of the fairness loss, as a share of what it could be at most, two for each job.

    changes (theta2): share of the running jobs that may be resized at once. seconds: the solver's time limit; gap: the
    relative gap at which it may stop.
    """

    fairness: float = 0.1
    changes: float = 0.1
    seconds: float = 2.0
    gap: float = 0.02

    @property
    def name(self) -> str:
        """``dorm``."""
        return "dorm"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """New numbers where a job has come or ended."""
        running = [job for job in snapshot.running() if queued(job)]
        line, book = queue(snapshot, now), snapshot.memory.get(MEMORY)
        before = book if isinstance(book, Book) else Book(frozenset(), ())
        jobs = sorted((*running, *line.ready), key=lambda job: (job.arrival, job.uid))
        left_out = before.jobs & line.barred.keys()
        uids = left_out | {job.uid for job in jobs}
        shares = {uid for uid, given in before.workers if given}
        actions: list[Action] = []
        fresh = not isinstance(book, Book)
        if fresh or not stands(uids, before.jobs, barred=line.barred.keys(), shares=shares, left_out=before.left_out):
            before = Book(uids, tuple(self.numbers(snapshot, jobs).items()), left_out)
            actions = [Remember(MEMORY, before)]
        orders = Orders(snapshot)
        orders.give({uid: given for uid, given in before.workers if uid not in line.barred})
        return Decision((*actions, *orders.actions), {**line.barred, **orders.verdicts})

    def numbers(self, snapshot: Snapshot, jobs: Sequence[Job]) -> dict[str, int]:
        """Workers by job uid."""
        fair = fill(snapshot, list(jobs))
        if not jobs:
            return {}
        for bound, changes in ((True, True), (True, False), (False, False)):
            found = self._solve(snapshot, jobs, fair, bound=bound, changes=changes)
            if found is not None:
                return found
        return fair

    def _solve(
        self, snapshot: Snapshot, jobs: Sequence[Job], fair: Mapping[str, int], *, bound: bool, changes: bool
    ) -> dict[str, int] | None:
        """Variables: n (workers), x (runs at all), l (distance from the fair share), r (is changed), each by job."""
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp

        size, pools = len(jobs), Pools(snapshot)
        share = np.array([pools.share(job, 1) for job in jobs])
        most = np.array([float(job.max_workers) for job in jobs])
        now = [snapshot.gang(job.uid).workers if snapshot.gang(job.uid).admitted else 0 for job in jobs]
        eye, none = np.eye(size), np.zeros((size, size))
        rules = []
        for row, room in _rooms(snapshot, jobs):
            rules.append(LinearConstraint(np.concatenate([row, np.zeros(3 * size)])[None], -np.inf, room))
        least = np.array([float(max(1, job.min_workers)) for job in jobs])
        rules.append(LinearConstraint(np.hstack([eye, -np.diag(most), none, none]), -np.inf, 0.0))
        rules.append(LinearConstraint(np.hstack([eye, -np.diag(least), none, none]), 0.0, np.inf))
        target = share * np.array([float(fair[job.uid]) for job in jobs])
        rules.append(LinearConstraint(np.hstack([np.diag(share), none, -eye, none]), -np.inf, target))
        rules.append(LinearConstraint(np.hstack([np.diag(share), none, eye, none]), target, np.inf))
        old = np.array([float(count) for count in now])
        rules.append(LinearConstraint(np.hstack([eye, none, none, -np.diag(most)]), -np.inf, old))
        rules.append(LinearConstraint(np.hstack([eye, none, none, np.diag(most)]), old, np.inf))
        runs = old > 0
        loss = np.concatenate([np.zeros(2 * size), np.ones(size), np.zeros(size)])
        changed = np.concatenate([np.zeros(3 * size), runs.astype(float)])
        if bound:
            rules.append(LinearConstraint(loss[None], -np.inf, self.fairness * 2 * size * float(share.max())))
        if changes:
            rules.append(LinearConstraint(changed[None], -np.inf, math.ceil(self.changes * runs.sum())))
        gain = np.concatenate([-np.array(_use(pools, jobs)), np.zeros(3 * size)])
        top = np.concatenate([most, np.ones(size), np.full(size, np.inf), np.ones(size)])
        whole = np.concatenate([np.ones(2 * size), np.zeros(size), np.ones(size)])
        found = milp(
            gain, constraints=rules, integrality=whole, bounds=Bounds(0.0, top),
            options={"time_limit": self.seconds, "mip_rel_gap": self.gap},
        )  # fmt: skip
        if found.x is None:
            return None
        return {job.uid: round(float(count)) for job, count in zip(jobs, found.x, strict=False)}


def _use(pools: Pools, jobs: Sequence[Job]) -> list[float]:
    """What one worker (with its part of a ps) adds to the sum of all resources' utilisation."""
    use = []
    for job in jobs:
        shares = [
            role.requests[name] * _per_worker(job, role.name) / pools.all[name]
            for role in job.roles
            for name in role.requests
            if name != "pods" and pools.all[name] > 0
        ]
        use.append(sum(shares))
    return use


def _per_worker(job: Job, role: str) -> float:
    if role == WORKER:
        return 1.0
    if role == PS and job.ps_elastic and job.training is not None:
        return 1.0 / job.training.workers_per_ps
    return 0.0


def _rooms(snapshot: Snapshot, jobs: Sequence[Job]) -> list[tuple[list[float], float]]:
    """For each pool and resource: what one worker of each job takes of it, and how much there is.

    A ps counts in parts; the orders round it up, and give what then fits.
    """
    sets: dict[frozenset[str], None] = {}
    nodes = {name: node for name, node in snapshot.nodes.items() if node.ready and not node.unschedulable}
    pool_of = {}
    for job in jobs:
        for role in job.roles:
            names = frozenset(name for name, node in nodes.items() if accepts(node, role.constraints))
            pool_of[job.uid, role.name] = names
            sets[names] = None
    rows = []
    for names in sets:
        resources = sorted({name for node in names for name in nodes[node].allocatable})
        for resource in resources:
            row = [
                sum(
                    role.requests[resource] * _per_worker(job, role.name)
                    for role in job.roles
                    if pool_of[job.uid, role.name] == names
                )
                for job in jobs
            ]
            room = float(sum(nodes[node].allocatable[resource] for node in names))
            if any(row) and room > 0:
                rows.append(([amount / room for amount in row], 1.0))
    return rows

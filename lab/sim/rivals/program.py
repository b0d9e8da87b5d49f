"""Build and solve Dorm's MILP, which decides how many workers each job gets.

It has four variables for each job: n (workers), x (runs at all), l (distance from its fair share), r (is changed).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, diags_array, hstack

from policy.cluster.job import PS, WORKER, Job
from policy.cluster.snapshot import Snapshot
from policy.placement.fit import accepts
from policy.systems.shares import Pools

Column = NDArray[np.float64]  # an array with one number for each job
VARIABLES = ("n", "x", "l", "r")


class Program:
    """The MILP for these jobs; ``fair`` has the workers by UID that dominant resource fairness gives."""

    def __init__(self, snapshot: Snapshot, jobs: Sequence[Job], fair: Mapping[str, int]) -> None:
        pools = Pools(snapshot)
        gangs = [snapshot.gang(job.uid) for job in jobs]
        self._use = np.array([_use(pools, job) for job in jobs])
        self._rooms = _rooms(snapshot, jobs)
        self._share = np.array([pools.share(job, 1) for job in jobs])
        self._fair = self._share * np.array([float(fair[job.uid]) for job in jobs])
        self._least = np.array([float(max(1, job.min_workers)) for job in jobs])
        self._most = np.array([float(job.max_workers) for job in jobs])
        self._now = np.array([float(gang.workers if gang.admitted else 0) for gang in gangs])
        self._one, self._none = np.ones(len(jobs)), np.zeros(len(jobs))

    def rules(self) -> list[LinearConstraint]:
        """Return the constraints on capacity, on the number of workers of each job that runs, and those that define l
        and r.
        """
        one, most, share = self._one, self._most, self._share
        return [
            *(self._sum(1.0, n=row) for row in self._rooms),
            self._each(-math.inf, self._none, n=one, x=-most),
            self._each(self._none, math.inf, n=one, x=-self._least),
            self._each(-math.inf, self._fair, n=share, l=-one),
            self._each(self._fair, math.inf, n=share, l=one),
            self._each(-math.inf, self._now, n=one, r=-most),
            self._each(self._now, math.inf, n=one, r=most),
        ]

    def unfairness(self, most: float) -> LinearConstraint:
        """Return the constraint that the distances from fair shares add up to at most this share of their maximum.

        The maximum is two dominant shares for each job.
        """
        return self._sum(most * 2 * len(self._one) * float(self._share.max()), l=self._one)

    def changes(self, most: float) -> LinearConstraint:
        """Return the constraint that at most this share of the running jobs is changed."""
        runs = (self._now > 0).astype(float)
        return self._sum(math.ceil(most * runs.sum()), r=runs)

    def solve(self, rules: Sequence[LinearConstraint], *, nodes: int, gap: float) -> list[int] | None:
        """Return the number of workers of each job with which the utilisation of the cluster is highest, or None if no
        solution was found.

        ``nodes`` limits the search tree. There is no time limit, because it would make a run depend on the machine.
        """
        one, none = self._one, self._none
        found = milp(
            np.concatenate([-self._use, none, none, none]),
            constraints=rules,
            integrality=np.concatenate([one, one, none, one]),
            bounds=Bounds(0.0, np.concatenate([self._most, one, one * math.inf, one])),
            options={"node_limit": nodes, "mip_rel_gap": gap},
        )
        return None if found.x is None else [round(float(count)) for count in found.x[: len(one)]]

    def _sum(self, most: float, **parts: Column) -> LinearConstraint:
        """Return a single constraint: the weighted sum of the variables of all jobs is at most ``most``.

        ``parts``: for each variable (n, x, l or r) in the sum, an array with its factor for each job.
        """
        return LinearConstraint(np.concatenate([parts.get(v, self._none) for v in VARIABLES])[None], -math.inf, most)

    def _each(self, low: Column | float, high: Column | float, **parts: Column) -> LinearConstraint:
        """Return a constraint for each job: a weighted sum of its variables lies between ``low`` and ``high``.

        ``parts``: for each variable (n, x, l or r) in the sum, an array with its factor for each job.
        """
        blocks = [diags_array(parts[v]) if v in parts else csr_array((len(self._one),) * 2) for v in VARIABLES]
        return LinearConstraint(hstack(blocks, format="csr"), low, high)


def _use(pools: Pools, job: Job) -> float:
    """Return what one worker, with its share of a ps, adds to the sum of all resources' utilisation."""
    return sum(
        role.requests[name] * _per_worker(job, role.name) / pools.all[name]
        for role in job.roles
        for name in role.requests
        if name != "pods" and pools.all[name] > 0
    )


def _per_worker(job: Job, role: str) -> float:
    if role == WORKER:
        return 1.0
    if role == PS and job.ps_elastic and job.training is not None:
        return 1.0 / job.training.workers_per_ps
    return 0.0


def _rooms(snapshot: Snapshot, jobs: Sequence[Job]) -> list[Column]:
    """Return, for each pool and resource, the share (0 to 1) of the pool's capacity that one worker of each job takes.

    A worker takes its fraction of a ps with it. Whole ps are made of fractions later, when the workers are placed.
    """
    nodes = {name: node for name, node in snapshot.nodes.items() if node.ready and not node.unschedulable}
    pool_of = {
        (job.uid, role.name): frozenset(name for name, node in nodes.items() if accepts(node, role.constraints))
        for job in jobs
        for role in job.roles
    }
    rows = []
    for names in dict.fromkeys(pool_of.values()):
        for resource in sorted({name for node in names for name in nodes[node].allocatable}):
            taken = [
                sum(
                    role.requests[resource] * _per_worker(job, role.name)
                    for role in job.roles
                    if pool_of[job.uid, role.name] == names
                )
                for job in jobs
            ]
            room = float(sum(nodes[node].allocatable[resource] for node in names))
            if any(taken) and room > 0:
                rows.append(np.array(taken) / room)
    return rows

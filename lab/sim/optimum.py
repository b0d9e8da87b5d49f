"""Compute the offline optimum of small instances (OASiS, section III-C): all jobs known, a MILP solved by HiGHS.

Constraint (8), on the completion slot, is linear here: there is one variable for each job and completion slot, and no
work after that time slot. The solver may finish a job before its counted slot; this never pays, because the earlier
slot could be counted instead. Slots here are OASiS's time slots.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from lab.sim.objects import JobSpec
from lab.sim.traces import Trace
from policy.cluster.job import PS, WORKER
from policy.placement.fit import accepts


@dataclass(frozen=True, slots=True)
class Optimum:
    """The solver's result.

    ``utility`` is that of the best schedule found, and no schedule exceeds ``bound``; ``proved`` says whether the gap
    between the two is as small as asked. ``completions`` maps each admitted job's name to the time slot of its
    completion. ``slots`` is the number of time slots (T of the paper), and ``variables`` the number of variables of the
    MILP.
    """

    utility: float
    bound: float
    proved: bool
    completions: dict[str, int]
    slots: int
    variables: int


class TooLargeError(ValueError):
    """The instance has too many variables to be solved in reasonable time."""


MOST_VARIABLES = 100_000


@dataclass(frozen=True, slots=True)
class SolverLimits:
    """When HiGHS stops: at a relative gap, after so many seconds, or after so many nodes of its search tree (None:
    never). With nodes instead of seconds the result does not depend on how fast the machine is.
    """

    gap: float = 1e-3
    seconds: float | None = 60.0
    nodes: int | None = None


USUAL = SolverLimits()


def optimum(trace: Trace, slot_seconds: float, slots: int, limits: SolverLimits = USUAL) -> Optimum:
    """Solve OASiS's problem (1)-(13) for the trace in the slots 0 to ``slots`` - 1.

    Raises TooLargeError, and ValueError for a job that states no training or no utility curve.
    """
    return _Model(trace, slot_seconds, slots).solve(limits)


class _Model:
    """The MILP, with the variables x[job, completion], y[job, slot, node] and z[job, slot, node] in one vector."""

    def __init__(self, trace: Trace, slot_seconds: float, slots: int) -> None:
        self._jobs, self._nodes, self._slots = trace.jobs, trace.nodes, slots
        self._slot_seconds = slot_seconds
        self._gain: list[float] = []
        self._top: list[float] = []
        self._rows: list[tuple[dict[int, float], float, float]] = []
        self._ends: dict[int, tuple[JobSpec, int]] = {}
        room: dict[tuple[int, str, str], dict[int, float]] = defaultdict(dict)
        for job in trace.jobs:
            self._add_job(job, room)
        by_name = {node.name: node for node in trace.nodes}
        for (_, node, resource), row in room.items():
            self._rows.append((row, -math.inf, float(by_name[node].allocatable[resource])))

    @property
    def size(self) -> int:
        """Return the number of variables."""
        return len(self._gain)

    def _variable(self, gain: float, top: float) -> int:
        if self.size >= MOST_VARIABLES:
            raise TooLargeError(
                f"the instance has more than {MOST_VARIABLES} variables: give fewer jobs, servers or slots"
            )
        self._gain.append(gain)
        self._top.append(top)
        return len(self._gain) - 1

    def _add_job(self, job: JobSpec, room: dict[tuple[int, str, str], dict[int, float]]) -> None:
        training, worker, server = job.training, job.role(WORKER), job.role(PS)
        if training is None or training.utility is None or worker is None:
            raise ValueError(f"jobs: {job.name} has no description of its training and its utility, which OASiS needs")
        first = math.floor(job.arrival / self._slot_seconds)
        work, most = training.worker_slots(self._slot_seconds), min(job.max_workers, training.chunks)
        ends = {
            slot: self._variable(training.utility.at(slot - first), 1.0)
            for slot in range(first, self._slots)
            if (slot - first + 1) * most >= work
        }
        self._ends |= {at: (job, slot) for slot, at in ends.items()}
        if not ends:
            return
        self._rows.append((dict.fromkeys(ends.values(), 1.0), -math.inf, 1.0))
        enough = dict.fromkeys(ends.values(), -float(work))
        for slot in range(first, max(ends) + 1):
            workers = self._members(job, worker.name, slot, float(most), room)
            servers = self._members(job, server.name, slot, float(most), room) if server is not None else []
            enough |= dict.fromkeys(workers, 1.0)
            later = {at: -float(most) for end, at in ends.items() if end >= slot}
            # OASiS's constraint (3): a job has at most N workers, and none after the time slot in which it completes
            self._rows.append((dict.fromkeys(workers, 1.0) | later, -math.inf, 0.0))
            if server is not None:
                per_ps = training.workers_per_ps if math.isfinite(training.workers_per_ps) else float(most)
                bandwidth = dict.fromkeys(workers, 1.0) | dict.fromkeys(servers, -per_ps)
                # OASiS's constraint (6): the bandwidth of the ps suffices for the workers
                self._rows.append((bandwidth, -math.inf, 0.0))
                # OASiS's constraint (7): at most as many ps as workers
                self._rows.append((dict.fromkeys(servers, 1.0) | dict.fromkeys(workers, -1.0), -math.inf, 0.0))
        self._rows.append((enough, 0.0, math.inf))  # OASiS's constraint (2): all of the job's work is done

    def _members(
        self, job: JobSpec, name: str, slot: int, most: float, room: dict[tuple[int, str, str], dict[int, float]]
    ) -> list[int]:
        role = job.role(name)
        found = []
        for node in self._nodes:
            if role is not None and accepts(node, role.constraints) and role.requests.fits(node.allocatable):
                at = self._variable(0.0, most)
                found.append(at)
                for resource, amount in role.requests.amounts.items():
                    if amount > 0:
                        # OASiS's constraints (4) and (5): the capacity of each node
                        room[slot, node.name, resource][at] = float(amount)
        return found

    def solve(self, limits: SolverLimits) -> Optimum:
        """Solve the MILP with HiGHS."""
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        if not self.size:
            return Optimum(0.0, 0.0, True, {}, self._slots, 0)
        # Each row is scaled by its largest entry, because one matrix has both bytes and counts.
        scales = [max(abs(value) for value in row.values()) for row, _, _ in self._rows]
        values = [v / scale for (row, _, _), scale in zip(self._rows, scales, strict=True) for v in row.values()]
        columns = [at for row, _, _ in self._rows for at in row]
        starts = np.cumsum([0, *(len(row) for row, _, _ in self._rows)])
        matrix = csr_array((values, columns, starts), shape=(len(self._rows), self.size))
        low = np.array([low / scale for (_, low, _), scale in zip(self._rows, scales, strict=True)])
        high = np.array([high / scale for (_, _, high), scale in zip(self._rows, scales, strict=True)])
        found = milp(
            -np.array(self._gain), constraints=LinearConstraint(matrix, low, high), integrality=np.ones(self.size),
            bounds=Bounds(0.0, np.array(self._top)),
            options={"mip_rel_gap": limits.gap, "time_limit": limits.seconds, "node_limit": limits.nodes},
        )  # fmt: skip
        bound = -float(found.mip_dual_bound) if found.mip_dual_bound is not None else math.inf
        if found.x is None:
            return Optimum(0.0, bound, False, {}, self._slots, self.size)
        done = {job.name: slot for at, (job, slot) in self._ends.items() if found.x[at] > 0.5}
        return Optimum(-float(found.fun), bound, found.status == 0, done, self._slots, self.size)

"""Speeds from step times measured by placement (the tables of Pollux, OSDI 2021, and Sia, SOSP 2023).

A row has a placement (the workers on each node, as digits), a local batch, and the seconds of one synchronous step. n
workers do n steps' work in one step, so a gang runs at n * step(one worker) / step(placement).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from lab.sim.fluid.speedmodels import RunningGang
from lab.sim.traces.reading import FieldError, Table, TraceError, TraceRow, read
from policy.cluster.node import Node

Placement = tuple[int, ...]  # A placement lists the numbers of workers on each node, the largest first.


@dataclass(frozen=True)
class StepTimes:
    """Seconds of a step by placement and local batch.

    The measured nodes form a ring. Here all nodes are alike, so placements that differ only in their order are
    averaged. Unmeasured values are interpolated linearly: between batches of one placement, and between placements on
    the same number of nodes (or else the next smaller number that was measured) by their number of workers. Outside the
    measured range, the nearest value counts.
    """

    seconds: Mapping[Placement, Mapping[float, float]]

    def step(self, placement: Placement, batch: float) -> float:
        """Return the seconds of one step; the placement must have at least one worker."""
        if placement in self.seconds:
            return _between(sorted(self.seconds[placement].items()), batch)
        workers, nodes = sum(placement), min(len(placement), max(self._by_nodes))
        while nodes not in self._by_nodes:
            nodes -= 1
        known = self._by_nodes[nodes]
        line = [
            (float(count), fmean(_between(sorted(self.seconds[p].items()), batch) for p in known[count]))
            for count in sorted(known)
        ]
        return _between(line, workers)

    @property
    def middle_batch(self) -> float:
        """Return the median of the batches that were measured with one worker."""
        batches = sorted(self.seconds[1,])
        return batches[len(batches) // 2]

    @cached_property
    def _by_nodes(self) -> dict[int, dict[int, list[Placement]]]:
        """Return the placements by their number of nodes, then by their number of workers."""
        found: dict[int, dict[int, list[Placement]]] = defaultdict(lambda: defaultdict(list))
        for placement in sorted(self.seconds):
            found[len(placement)][sum(placement)].append(placement)
        return found


@dataclass(frozen=True, slots=True)
class Measured:
    """A speed model: rates from step times; a job's ``model`` names its table.

    A job counts with its local batch, or else with the median batch of the table.
    """

    tables: Mapping[str, StepTimes]
    coupled: bool = False

    def rates(self, running: Mapping[str, RunningGang], nodes: Mapping[str, Node]) -> Mapping[str, float]:
        """Return each gang's rate, independent of the others. Raises ValueError for a model without a table."""
        del nodes
        return {uid: self._rate(gang) for uid, gang in running.items()}

    def _rate(self, gang: RunningGang) -> float:
        table = self.tables.get(gang.spec.model)
        if table is None:
            raise ValueError(f"model is {gang.spec.model!r}, must be one of {', '.join(sorted(self.tables))}")
        batch = gang.spec.local_batch or table.middle_batch
        placement = tuple(sorted(Counter(gang.workers).values(), reverse=True))
        return len(gang.workers) * table.step((1,), batch) / table.step(placement, batch)


def step_times(table: Table) -> StepTimes:
    """Read rows with the columns placement, local_bsz, step_time. Raises TraceError with every faulty row."""
    found: dict[Placement, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for placement, batch, seconds in read(table, _row):
        found[placement][batch].append(seconds)
    if (1,) not in found:
        raise TraceError(["placement: no row has the value '1'; allowed: a table that has a row for one worker alone"])
    return StepTimes({p: {b: fmean(times) for b, times in batches.items()} for p, batches in found.items()})


def _row(line: TraceRow) -> tuple[Placement, float, float]:
    line.columns(("placement", "local_bsz", "step_time"))
    text = line.text("placement")
    if not (text.isascii() and text.isdigit()) or "0" in text:
        raise FieldError(line.where, "placement", text, "the workers on each node as digits from 1 to 9")
    placement = tuple(sorted((int(digit) for digit in text), reverse=True))
    return placement, line.number("local_bsz", above=0.0), line.number("step_time", above=0.0)


def _between(line: Sequence[tuple[float, float]], x: float) -> float:
    """Return the value at x of the piecewise linear function through the points of ``line``, which are sorted by x."""
    right = bisect_left(line, (x,))
    if right == len(line):
        return line[-1][1]
    if right == 0 or line[right][0] == x:
        return line[right][1]
    (x0, y0), (x1, y1) = line[right - 1], line[right]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)

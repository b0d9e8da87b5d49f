"""What was measured of each application: the time of a step by placement, and a whole training at each batch size.

The figures come from the artifact's traces. A placement is the number of GPUs on each node, in the order of the job's
workers; the nodes form a ring, so that only the order around the ring matters.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from lab.sim.traces.reading import FieldError, Table, TraceRow, read

Placement = tuple[int, ...]
MEASURED_NODES = 4  # Every placement on up to this many nodes was measured; those on more nodes are interpolated.
# The artifact never runs yolov3 with more samples a pass than this, although its table goes further.
MOST_LOCAL: Mapping[str, int] = {"yolov3": 8}


class StepTime(NamedTuple):
    """The seconds of an optimizer step with one pass, and the part of them in which the gradients are exchanged."""

    step: float
    sync: float


class EpochRow(NamedTuple):
    """One epoch of a whole training at one batch size.

    ``progress`` is the work that is done at the end of the epoch, counted in steps at the initial batch size.
    ``iteration`` counts the real steps until then, and ``metric`` is the validation metric. ``sqr`` and ``var`` are the
    squared norm and the variance of the gradient in the epoch, scaled to the initial batch size.
    """

    progress: float
    iteration: float
    metric: float
    sqr: float
    var: float


@dataclass(frozen=True)
class Profile:
    """The measurements of one application.

    ``measured``: by placement, the step times by local batch (samples a GPU takes in a pass), in order. ``wide``: the
    step times on five nodes and more, by (nodes, GPUs, local batch). ``trainings``: by batch size, the rows of all
    epochs.
    """

    name: str
    measured: Mapping[Placement, Sequence[tuple[float, StepTime]]]
    wide: Mapping[tuple[int, int, int], StepTime]
    trainings: Mapping[int, Sequence[EpochRow]]

    @cached_property
    def initial_batch(self) -> int:
        """Return the batch size in whose steps progress is counted, the smallest that was trained with."""
        return min(self.trainings)

    @cached_property
    def largest_batch(self) -> int:
        """Return the largest batch size that was trained with."""
        return max(self.trainings)

    @cached_property
    def local_batches(self) -> tuple[int, int]:
        """Return the smallest and the largest number of samples that a GPU may take in a pass."""
        sizes = [size for line in self.measured.values() for size, _ in line]
        return int(min(sizes)), MOST_LOCAL.get(self.name, int(max(sizes)))

    @cached_property
    def targets(self) -> tuple[float, ...]:
        """Return the progress at which each epoch ends: the least of all batch sizes, so that it depends on none."""
        return tuple(min(row.progress for row in rows) for rows in zip(*self.trainings.values(), strict=True))

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """Return the share (0 to 1) of the whole work that is done at the end of each epoch."""
        return tuple(target / self.targets[-1] for target in self.targets)

    @property
    def epochs(self) -> int:
        """Return after how many epochs the training is complete."""
        return len(self.targets)

    def step_time(self, placement: Placement, local: int) -> StepTime:
        """Return the time of a step on this placement. Raises ValueError where nothing was measured."""
        if len(placement) <= MEASURED_NODES:
            line = self.measured.get(first_rotation(placement))
            found = between(line, local) if line else None
        else:
            found = self.wide.get((len(placement), sum(placement), local))
        if found is None:
            raise ValueError(f"{self.name}: no step time for {local} samples a GPU on the placement {placement}")
        return StepTime(*found)

    def gradient(self, batch: int, epoch: int) -> tuple[float, float]:
        """Return the squared norm and the variance of the gradient at this batch size in the epoch (from 0).

        Between two batch sizes that were trained with, both are interpolated linearly.
        """
        line = [(float(size), (rows[epoch].sqr, rows[epoch].var)) for size, rows in sorted(self.trainings.items())]
        found = between(line, batch)
        if found is None:
            raise ValueError(f"{self.name}: the batch size is {batch}, must be in {line[0][0]:g}..{line[-1][0]:g}")
        return found[0], found[1]


def first_rotation(placement: Placement) -> Placement:
    """Return the placement read from another place of the ring, so that it is the first in lexicographic order."""
    return min(placement[at:] + placement[:at] for at in range(len(placement)))


def between(line: Sequence[tuple[float, tuple[float, ...]]], x: float) -> tuple[float, ...] | None:
    """Return the values at ``x`` by linear interpolation between the points of ``line``, sorted; None outside them."""
    right = bisect_left(line, x, key=lambda point: point[0])
    if right == len(line):
        return None
    after, high = line[right]
    if after == x:
        return high
    if right == 0:
        return None
    before, low = line[right - 1]
    part = (x - before) / (after - before)
    return tuple(a + (b - a) * part for a, b in zip(low, high, strict=True))


# -- The functions below read the tables of the artifact. ------------------------------------------


def profile(name: str, placements: Table, wide: Table, trainings: Mapping[int, Table]) -> Profile:
    """Return an application's measurements from the rows of its files. Raises TraceError with every faulty row.

    ``wide``: the rows of all applications, of which those of other applications are left out.
    """
    measured: dict[Placement, list[tuple[float, StepTime]]] = {}
    for placement, local, seconds in read(placements, _placement):
        measured.setdefault(placement, []).append((local, seconds))
    own = [(where, row) for where, row in wide if row.get("application") == name]
    return Profile(
        name,
        {placement: tuple(sorted(line)) for placement, line in measured.items()},
        dict(read(own, _wide)),
        {batch: tuple(read(table, _epoch)) for batch, table in sorted(trainings.items())},
    )


def _placement(line: TraceRow) -> tuple[Placement, float, StepTime]:
    text = line.text("placement")
    if not (text.isascii() and text.isdigit()) or "0" in text:
        raise FieldError(line.where, "placement", text, "the GPUs on each node as digits from 1 to 9")
    return first_rotation(tuple(map(int, text))), line.number("local_bsz", above=0.0), _step_time(line)


def _wide(line: TraceRow) -> tuple[tuple[int, int, int], StepTime]:
    key = (line.count("num_nodes"), line.count("num_replicas"), line.count("local_bsz"))
    return key, _step_time(line)


def _step_time(line: TraceRow) -> StepTime:
    return StepTime(line.number("step_time", above=0.0), line.number("sync_time"))


def _epoch(line: TraceRow) -> EpochRow:
    number: Callable[[str], float] = line.number
    return EpochRow(*(number(name) for name in ("progress", "iteration", "metric", "grad_sqr", "grad_var")))

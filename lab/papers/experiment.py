"""Define an experiment of a paper: a function of a seed, bars (bounds) for its results, and mutants that must miss some
bars.

A mutant is the same experiment with one mechanism of the policy switched off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.papers.published import Published

Row = Mapping[str, float]  # The result of one seed maps each measure's name to its value.
# A measure computes the row of a seed. It must be a top-level function, so that it can be sent to other processes.
Measure = Callable[[int], Row]


@dataclass(frozen=True, slots=True)
class OnData:
    """A measure on data that is not part of Kohort; whoever runs it reads the data, because experiments do no I/O.

    ``compute`` computes the row of a seed from the seed and the data. It must be a top-level function or a value that
    can be sent to other processes.
    """

    compute: Callable[[int, Any], Row]

    def __call__(self, seed: int) -> Row:
        """Raise ValueError, because the data is missing."""
        raise ValueError(f"seed {seed}: this measure needs data that is not part of Kohort")


@dataclass(frozen=True, slots=True)
class Bar:
    """A number that is computed by ``value`` from the rows of all seeds, and the bounds (inclusive) within which it
    must be.

    ``paper`` is the text of the paper's own number or statement, and ``published`` the same for comparisons: whether
    our value has its direction and its size is told apart from the bound. ``reason`` says, with the number that is
    reached, why a bound is missed and cannot be reached, and ``untested`` why no mutant names the bar.
    """

    claim: str
    value: Callable[[Sequence[Row]], float]
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    paper: str = ""
    reason: str = ""
    untested: str = ""
    published: Published | None = None

    @property
    def bounded(self) -> bool:
        """Tell whether the bar has a bound; without one, the number is only reported."""
        return self.at_least is not None or self.at_most is not None

    def met(self, rows: Sequence[Row]) -> bool:
        """Tell whether the bound holds; NaN meets no bound."""
        value = self.value(rows)
        low = self.at_least is None or value >= self.at_least
        high = self.at_most is None or value <= self.at_most
        return low and high and value == value  # NaN meets no bound, because it is not equal to itself.

    def spread(self, rows: Sequence[Row]) -> tuple[float, float] | None:
        """Return p10 and p90 of the values of each seed alone; None for one seed, and for an ``OverAllSeeds`` value."""
        if isinstance(self.value, OverAllSeeds) or len(rows) < 2:
            return None
        try:
            alone = [self.value([row]) for row in rows]
        except ZeroDivisionError:
            return None
        return quantile_of(alone, 0.1), quantile_of(alone, 0.9)


@dataclass(frozen=True, slots=True)
class Mutant:
    """The same experiment with one mechanism switched off; ``misses`` names the bars that it must miss.

    ``measure`` returns the measures that the mechanism may change; the others are taken from the experiment's own row
    for that seed. A mutant with a ``reason`` misses no bar; the reason says why no bar depends on the mechanism.
    """

    name: str
    measure: Measure
    misses: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment of a paper.

    ``source`` is the section, table or figure of the paper. ``seeds`` is the number of seeds, counted from 1,000 up,
    over which the bars are computed. ``figure`` draws the paper's figure from our rows on a matplotlib Figure.
    ``assumed`` lists what the paper leaves open and this project has set; it is printed with the result. ``data`` names
    the data that its measures need and that is not part of Kohort; empty if they need none.
    """

    name: str
    system: str
    title: str
    source: str
    measure: Measure
    bars: tuple[Bar, ...]
    seeds: int = 30
    mutants: tuple[Mutant, ...] = ()
    figure: Callable[[Sequence[Row], object], None] | None = None
    assumed: tuple[str, ...] = field(default_factory=tuple)
    data: str = ""


def with_own_rows(own: Sequence[Row], changed: Sequence[Row]) -> list[dict[str, float]]:
    """Return the mutant's rows: for each seed the experiment's own row, in which the mutant's measures replace its
    own.
    """
    return [{**row, **new} for row, new in zip(own, changed, strict=True)]


def mean(measure: str) -> Callable[[Sequence[Row]], float]:
    """Return a function that computes the mean of a measure over the seeds."""
    return lambda rows: sum(row[measure] for row in rows) / len(rows)


def cut(ours: str, plain: str) -> Callable[[Sequence[Row]], float]:
    """Return a function that computes by how many percent the mean of ``ours`` is below that of ``plain``."""
    return lambda rows: 100 * (1 - ratio(ours, plain)(rows))


def ratio(ours: str, other: str) -> Callable[[Sequence[Row]], float]:
    """Return a function that divides the mean of ``ours`` by that of ``other``."""
    return lambda rows: mean(ours)(rows) / mean(other)(rows)


@dataclass(frozen=True, slots=True)
class OverAllSeeds:
    """A value that can be computed only from the rows of all seeds together, such as a quantile or the worst seed."""

    value: Callable[[Sequence[Row]], float]

    def __call__(self, rows: Sequence[Row]) -> float:
        """Return the value, computed over the rows of all seeds."""
        return self.value(rows)


def share(measure: str, holds: Callable[[float], bool]) -> OverAllSeeds:
    """Return a function that computes the share of seeds in which ``holds`` is true for the measure."""
    return OverAllSeeds(lambda rows: sum(1 for row in rows if holds(row[measure])) / len(rows))


def quantile(measure: str, q: float) -> OverAllSeeds:
    """Return a function that computes a quantile of a measure over the seeds, linear between ranks."""
    return OverAllSeeds(lambda rows: quantile_of([row[measure] for row in rows], q))


def worst(measure: str) -> OverAllSeeds:
    """Return a function that computes the lowest value of a measure over the seeds."""
    return OverAllSeeds(lambda rows: min(row[measure] for row in rows))


def best(measure: str) -> OverAllSeeds:
    """Return a function that computes the highest value of a measure over the seeds."""
    return OverAllSeeds(lambda rows: max(row[measure] for row in rows))


def quantile_of(values: Sequence[float], q: float) -> float:
    """Return a quantile of the values, linear between ranks."""
    ranked = sorted(values)
    at = q * (len(ranked) - 1)
    low = int(at)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (at - low)

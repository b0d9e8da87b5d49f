"""An experiment of a paper: one function of a seed, the bars over many seeds, and the mutants that must miss them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Row = Mapping[str, float]  # what one seed gave: measure -> value
Measure = Callable[[int], Row]  # top-level functions, so that other processes can be sent them


@dataclass(frozen=True, slots=True)
class Bar:
    """What must hold over the rows of all seeds. value: from the rows to the number; inclusive bounds.

    paper: the paper's own number in words, or what it says. reason: why a bar that is missed cannot be reached.
    """

    claim: str
    value: Callable[[Sequence[Row]], float]
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    paper: str = ""
    reason: str = ""

    def met(self, rows: Sequence[Row]) -> bool:
        """Whether the bound holds; a value that is not a number meets no bound."""
        value = self.value(rows)
        low = self.at_least is None or value >= self.at_least
        high = self.at_most is None or value <= self.at_most
        return low and high and value == value  # NaN equals nothing


@dataclass(frozen=True, slots=True)
class Mutant:
    """The same experiment with one mechanism switched off; ``misses``: claims of bars that it must miss.

    ``measure``: what the mechanism may change; the rest is as in the experiment's own row of that seed.
    """

    name: str
    measure: Measure
    misses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Experiment:
    """source: section, table or figure of the paper. seeds: how many the bars are stated for, from 1,000 up.

    figure: the paper's figure from our rows; takes the rows and a matplotlib Figure.
    assumed: what the paper leaves open and we have set; printed with the result.
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


def beside(own: Sequence[Row], changed: Sequence[Row]) -> list[dict[str, float]]:
    """The rows of a mutant: the experiment's own, seed by seed, with what the mutant has measured in their place."""
    return [{**row, **new} for row, new in zip(own, changed, strict=True)]


def mean(measure: str) -> Callable[[Sequence[Row]], float]:
    """The mean of a measure over the seeds."""
    return lambda rows: sum(row[measure] for row in rows) / len(rows)


def share(measure: str, holds: Callable[[float], bool]) -> Callable[[Sequence[Row]], float]:
    """The share of seeds in which a measure holds."""
    return lambda rows: sum(1 for row in rows if holds(row[measure])) / len(rows)


def quantile(measure: str, q: float) -> Callable[[Sequence[Row]], float]:
    """A quantile of a measure over the seeds, linear between ranks."""

    def of(rows: Sequence[Row]) -> float:
        values = sorted(row[measure] for row in rows)
        at = q * (len(values) - 1)
        low = int(at)
        high = min(low + 1, len(values) - 1)
        return values[low] + (values[high] - values[low]) * (at - low)

    return of


def worst(measure: str) -> Callable[[Sequence[Row]], float]:
    """The lowest value over the seeds."""
    return lambda rows: min(row[measure] for row in rows)


def best(measure: str) -> Callable[[Sequence[Row]], float]:
    """The highest value over the seeds."""
    return lambda rows: max(row[measure] for row in rows)

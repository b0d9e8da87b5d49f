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
    untested: why no mutant is named for it, where none is.
    """

    claim: str
    value: Callable[[Sequence[Row]], float]
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    paper: str = ""
    reason: str = ""
    untested: str = ""

    @property
    def bounded(self) -> bool:
        """Whether anything is needed; else the number is only reported."""
        return self.at_least is not None or self.at_most is not None

    def met(self, rows: Sequence[Row]) -> bool:
        """Whether the bound holds; a value that is not a number meets no bound."""
        value = self.value(rows)
        low = self.at_least is None or value >= self.at_least
        high = self.at_most is None or value <= self.at_most
        return low and high and value == value  # NaN equals nothing

    def spread(self, rows: Sequence[Row]) -> tuple[float, float] | None:
        """p10 and p90 of what each seed alone gives; None of one seed, and of a value that only all of them have."""
        if isinstance(self.value, OfAll) or len(rows) < 2:
            return None
        try:
            alone = [self.value([row]) for row in rows]
        except ZeroDivisionError:
            return None
        return _quantile(alone, 0.1), _quantile(alone, 0.9)


@dataclass(frozen=True, slots=True)
class Mutant:
    """The same experiment with one mechanism switched off; ``misses``: claims of bars that it must miss.

    ``measure``: what the mechanism may change; the rest is as in the experiment's own row of that seed.
    ``reason``: why it is not caught, where no bar of the experiment depends on the mechanism.
    """

    name: str
    measure: Measure
    misses: tuple[str, ...] = ()
    reason: str = ""


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


def cut(ours: str, plain: str) -> Callable[[Sequence[Row]], float]:
    """By how many percent the mean of the one measure is below the mean of the other."""
    return lambda rows: 100 * (1 - mean(ours)(rows) / mean(plain)(rows))


@dataclass(frozen=True, slots=True)
class OfAll:
    """A value that only all seeds together have: a share of them, a quantile, the worst."""

    value: Callable[[Sequence[Row]], float]

    def __call__(self, rows: Sequence[Row]) -> float:
        """The value over these rows."""
        return self.value(rows)


def share(measure: str, holds: Callable[[float], bool]) -> OfAll:
    """The share of seeds in which a measure holds."""
    return OfAll(lambda rows: sum(1 for row in rows if holds(row[measure])) / len(rows))


def quantile(measure: str, q: float) -> OfAll:
    """A quantile of a measure over the seeds, linear between ranks."""
    return OfAll(lambda rows: _quantile([row[measure] for row in rows], q))


def worst(measure: str) -> OfAll:
    """The lowest value over the seeds."""
    return OfAll(lambda rows: min(row[measure] for row in rows))


def best(measure: str) -> OfAll:
    """The highest value over the seeds."""
    return OfAll(lambda rows: max(row[measure] for row in rows))


def _quantile(values: Sequence[float], q: float) -> float:
    ranked = sorted(values)
    at = q * (len(ranked) - 1)
    low = int(at)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (at - low)

"""Read the bounds of figures and ratios from bounds.toml, and judge a report by them.

The file has each bound with the mean, spread, margin and date behind it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import BenchmarkReport

FILE = Path(__file__).with_name("bounds.toml")


@dataclass(frozen=True, slots=True)
class Bound:
    """The lowest or highest allowed value of one figure of a benchmark.

    ``mean`` and ``spread`` were measured on the date; ``margin`` is the distance of the limit from them, as a share of
    the mean.
    """

    name: str
    date: str
    mean: float
    spread: tuple[float, float]
    margin: float
    at_least: float | None = None
    at_most: float | None = None

    def holds(self, value: float) -> bool:
        """Tell whether the value keeps to the bound."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        return f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"


def read(path: Path = FILE) -> dict[str, list[Bound]]:
    """Return the bounds in the file by the name of their benchmark."""
    with path.open("rb") as handle:
        tables = tomllib.load(handle)
    return {benchmark: [_bound(name, row) for name, row in rows.items()] for benchmark, rows in tables.items()}


def _bound(name: str, row: Mapping[str, object]) -> Bound:
    bound = Bound(name, **row)  # type: ignore[arg-type]
    if (bound.at_least is None) == (bound.at_most is None):
        raise ValueError(f"{name}: either at_least or at_most")
    return bound


def judge(report: BenchmarkReport, bounds: list[Bound]) -> tuple[list[str], bool]:
    """Compare a report with its bounds: return a line of text for each bound whose figure was measured, and whether all
    these bounds hold.

    If no bound's figure was measured, the second value is False.
    """
    found = report.figures | report.ratios
    met = [(bound, found[bound.name].median) for bound in bounds if bound.name in found]
    lines = [f"{'ok  ' if b.holds(value) else 'MISS'} {b.name}: {value:.4g} (bound {b})" for b, value in met]
    if not met:
        lines.append("MISS no bound is about what this run measured")
    return lines, bool(met) and all(bound.holds(value) for bound, value in met)

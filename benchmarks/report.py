"""A benchmark's figures with their spread, ratios and circumstances, printed and written as JSON."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

PACKAGES = ("fastapi", "uvicorn", "uvloop", "msgspec", "httptools", "kubernetes")


@dataclass(frozen=True, slots=True)
class Figure:
    """One value per round; the median is the figure, and lowest and highest are its spread."""

    unit: str
    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    def as_json(self) -> dict[str, Any]:
        """Return median, spread and the value of every round."""
        rounds = [_short(value) for value in self.rounds]
        return {"unit": self.unit, "median": _short(self.median), "low": min(rounds), "high": max(rounds),
                "rounds": rounds}  # fmt: skip


@dataclass(slots=True)
class BenchmarkReport:
    """Collects values round by round; ``setup`` has what a reader needs to repeat the run."""

    name: str
    setup: Mapping[str, Any]
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    load_before: tuple[float, float, float] = field(default_factory=os.getloadavg)
    _values: dict[str, tuple[str, list[float]]] = field(default_factory=dict)
    _ratios: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float, unit: str) -> None:
        """Add one round's value of a figure."""
        self._values.setdefault(name, (unit, []))[1].append(value)

    def times(self, name: str, seconds: Iterable[float]) -> None:
        """Add one round's p50 and p99, in ms, of these durations."""
        ordered = sorted(1000 * one for one in seconds)
        self.add(f"{name} p50", percentile(ordered, 50), "ms")
        self.add(f"{name} p99", percentile(ordered, 99), "ms")

    def ratio(self, name: str, above: float, below: float) -> None:
        """Add one round's ratio, ``above`` divided by ``below``, of two values of the same round; add nothing if
        ``below`` is 0.
        """
        if below:
            self._ratios.setdefault(name, []).append(above / below)

    @property
    def figures(self) -> dict[str, Figure]:
        """Return every figure by name."""
        return {name: Figure(unit, tuple(values)) for name, (unit, values) in self._values.items()}

    @property
    def ratios(self) -> dict[str, Figure]:
        """Return every ratio by name."""
        return {name: Figure("", tuple(values)) for name, values in self._ratios.items()}

    def as_json(self) -> dict[str, Any]:
        """Return the whole report for a file."""
        return {
            "benchmark": self.name,
            "date": self.began.isoformat(timespec="seconds"),
            "setup": dict(self.setup),
            "machine": {"cores": os.cpu_count(), "system": platform.system(), "arch": platform.machine()},
            "load": {"before": self.load_before, "after": os.getloadavg()},
            "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
            "figures": {name: figure.as_json() for name, figure in self.figures.items()},
            "ratios": {name: _short(figure.median) for name, figure in self.ratios.items()},
            "ratios_spread": {name: figure.as_json() for name, figure in self.ratios.items()},
        }

    def show(self, console: Console) -> None:
        """Print a table of all figures and ratios."""
        table = Table(title=f"{self.name}: {', '.join(f'{k} {v}' for k, v in self.setup.items())}")
        for column in ("figure", "median", "lowest", "highest", "unit"):
            table.add_column(column, justify="left" if column in ("figure", "unit") else "right")
        for name, figure in (self.figures | self.ratios).items():
            row = (_short(value) for value in (figure.median, min(figure.rounds), max(figure.rounds)))
            table.add_row(name, *(f"{value:g}" for value in row), figure.unit or "ratio")
        console.print(table)
        load = ", ".join(f"{load:.1f}" for load in (self.load_before[0], os.getloadavg()[0]))
        console.print(f"load average before and after: {load}; cores: {os.cpu_count()}")

    def write(self, path: Path) -> None:
        """Write the report as JSON."""
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n")


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the value that ``percent`` percent of the ordered values do not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def progress(text: str) -> None:
    """Print a progress line on standard error."""
    print(text, file=sys.stderr, flush=True)


def _short(value: float) -> float:
    """Return the number rounded to four digits, which is more than the precision of any figure."""
    return float(f"{value:.4g}")

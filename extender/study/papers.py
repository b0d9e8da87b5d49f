"""The papers' experiments: finds them, runs their seeds and mutants, and judges their bars."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import policy.sim.papers
from extender.study.errors import refuse
from extender.study.pool import Case
from extender.study.rows import Row
from policy.sim.papers.base import Bar, Experiment, Mutant, beside


@cache
def experiments() -> dict[str, Experiment]:
    """Every experiment of policy/sim/papers by its name, in the order of their modules."""
    found: dict[str, Experiment] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(policy.sim.papers.__path__)):
        listed = getattr(importlib.import_module(f"policy.sim.papers.{module}"), "EXPERIMENTS", ())
        for experiment in listed:
            if found.get(experiment.name, experiment) is not experiment:
                raise ValueError(f"two experiments are named {experiment.name}")
            found[experiment.name] = experiment
    return found


def named(names: Iterable[str]) -> list[Experiment]:
    """The experiments of these names; a system's name is all of its own. Raises StudyError."""
    known = experiments()
    systems = dict.fromkeys(experiment.system for experiment in known.values())
    found: dict[str, Experiment] = {}
    for name in names:
        mine = [one for one in known.values() if name in (one.name, one.system)]
        if not mine:
            raise refuse("NAME", name, f"{', '.join(known)}; or a system: {', '.join(systems)}")
        found |= {one.name: one for one in mine}
    return list(found.values())


def cases(experiment: Experiment, seeds: Sequence[int], mutant: Mutant | None = None) -> list[Case]:
    """One case for each seed."""
    variant = mutant.name if mutant else ""
    label = f"paper {experiment.name}{f' ({variant})' if variant else ''}"
    return [Case(f"{label} seed {seed}", measure, (experiment.name, variant, seed)) for seed in seeds]


def measure(name: str, variant: str, seed: int) -> Row:
    """One seed of an experiment, or of its mutant of that name; another process finds them by name."""
    experiment = experiments()[name]
    measures = {mutant.name: mutant.measure for mutant in experiment.mutants} | {"": experiment.measure}
    return dict(measures[variant](seed))


@dataclass(frozen=True, slots=True)
class Judged:
    """A bar and what our runs reached."""

    bar: Bar
    value: float
    met: bool


@dataclass(frozen=True, slots=True)
class MutantOutcome:
    """bars: those that the mutant has to miss. caught: it missed every one of them."""

    name: str
    bars: tuple[Judged, ...]

    @property
    def caught(self) -> bool:
        """Whether every bar that should tell was missed."""
        return bool(self.bars) and not any(judged.met for judged in self.bars)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One experiment over its seeds."""

    experiment: Experiment
    seeds: tuple[int, ...]
    rows: tuple[Row, ...]
    bars: tuple[Judged, ...]
    mutants: tuple[MutantOutcome, ...] = ()

    @property
    def good(self) -> bool:
        """All bars met and all mutants caught."""
        return all(judged.met for judged in self.bars) and all(mutant.caught for mutant in self.mutants)

    def to_dict(self) -> dict[str, object]:
        """For a JSON file; a number that is none (0 / 0) is null there."""
        experiment = self.experiment
        return {
            "name": experiment.name,
            "system": experiment.system,
            "title": experiment.title,
            "source": experiment.source,
            "assumed": list(experiment.assumed),
            "seeds": list(self.seeds),
            "bars": [_bar(judged) for judged in self.bars],
            "mutants": [
                {"name": mutant.name, "caught": mutant.caught, "bars": [_bar(judged) for judged in mutant.bars]}
                for mutant in self.mutants
            ],
            "rows": [{key: _finite(value) for key, value in row.items()} for row in self.rows],
        }


def judge(bars: Iterable[Bar], rows: Sequence[Row]) -> tuple[Judged, ...]:
    """What the rows reach of each bar."""
    return tuple(Judged(bar, bar.value(rows), bar.met(rows)) for bar in bars)


def mutant_outcome(experiment: Experiment, mutant: Mutant, own: Sequence[Row], rows: Sequence[Row]) -> MutantOutcome:
    """The bars that this mutant must miss, judged over its rows; ``own``: the experiment's, of the same seeds."""
    bars = [bar for bar in experiment.bars if bar.claim in mutant.misses]
    return MutantOutcome(mutant.name, judge(bars, beside(own, rows)))


def _bar(judged: Judged) -> dict[str, object]:
    bar = judged.bar
    return {
        "claim": bar.claim,
        "paper": bar.paper,
        "value": _finite(judged.value),
        "unit": bar.unit,
        "at_least": bar.at_least,
        "at_most": bar.at_most,
        "met": judged.met,
        "reason": bar.reason,
    }


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value

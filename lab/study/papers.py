"""The papers' experiments: finds them, runs their seeds and mutants, and judges their bars."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import lab.sim.papers
from lab.sim.papers.base import Bar, Experiment, Mutant, beside
from lab.study.errors import refuse
from lab.study.pool import Case
from lab.study.rows import Row


@cache
def experiments() -> dict[str, Experiment]:
    """Every experiment of lab/sim/papers by its name, in the order of their modules."""
    found: dict[str, Experiment] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(lab.sim.papers.__path__)):
        listed = getattr(importlib.import_module(f"lab.sim.papers.{module}"), "EXPERIMENTS", ())
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
    """A bar and what our runs reached; ``spread``: p10 and p90 of the seeds, where each has such a value."""

    bar: Bar
    value: float
    met: bool
    spread: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class MutantOutcome:
    """bars: all of the experiment, over the mutant's rows. caught: every one that the mutant names is missed."""

    mutant: Mutant
    bars: tuple[Judged, ...]

    @property
    def named(self) -> tuple[Judged, ...]:
        """The bars that should tell."""
        return tuple(judged for judged in self.bars if judged.bar.claim in self.mutant.misses)

    @property
    def caught(self) -> bool:
        """Whether every bar that should tell was missed."""
        return bool(self.named) and not any(judged.met for judged in self.named)

    @property
    def untold(self) -> bool:
        """Whether no bar is named for it, and why is said: it can be neither caught nor missed."""
        return not self.mutant.misses and bool(self.mutant.reason)


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
        """All bars met, and all mutants caught that a bar is named for."""
        return all(judged.met for judged in self.bars) and all(one.caught or one.untold for one in self.mutants)

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
                {
                    "name": found.mutant.name,
                    "caught": found.caught,
                    "reason": found.mutant.reason,
                    "bars": [_bar(judged) for judged in found.named],
                    "missed": [judged.bar.claim for judged in found.bars if not judged.met],
                }
                for found in self.mutants
            ],
            "rows": [{key: _finite(value) for key, value in row.items()} for row in self.rows],
        }


def judge(bars: Iterable[Bar], rows: Sequence[Row]) -> tuple[Judged, ...]:
    """What the rows reach of each bar."""
    return tuple(Judged(bar, bar.value(rows), bar.met(rows), bar.spread(rows)) for bar in bars)


def mutant_outcome(experiment: Experiment, mutant: Mutant, own: Sequence[Row], rows: Sequence[Row]) -> MutantOutcome:
    """The experiment's bars, judged over the mutant's rows; ``own``: the experiment's, of the same seeds."""
    return MutantOutcome(mutant, judge(experiment.bars, beside(own, rows)))


def _bar(judged: Judged) -> dict[str, object]:
    bar = judged.bar
    return {
        "claim": bar.claim,
        "paper": bar.paper,
        "value": _finite(judged.value),
        "p10": _finite(judged.spread[0]) if judged.spread else None,
        "p90": _finite(judged.spread[1]) if judged.spread else None,
        "unit": bar.unit,
        "at_least": bar.at_least,
        "at_most": bar.at_most,
        "met": judged.met,
        "reason": bar.reason,
    }


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""Find the papers' experiments, run their seeds and mutants, and check which bars the results meet.

A bar is a range in which a result must be; a mutant is the experiment with one mechanism switched off, which must
miss certain bars.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import lab.papers
from lab.papers.experiment import Bar, Experiment, Mutant, OnData, with_own_rows
from lab.study import polluxfiles
from lab.study.donerows import Row
from lab.study.pool import StudyCase
from lab.study.studyerrors import refuse


@cache
def experiments() -> dict[str, Experiment]:
    """Return every experiment of lab/papers by name, in the order of the modules.

    Raises ValueError if two experiments have the same name.
    """
    found: dict[str, Experiment] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(lab.papers.__path__)):
        listed = getattr(importlib.import_module(f"lab.papers.{module}"), "EXPERIMENTS", ())
        for experiment in listed:
            if found.get(experiment.name, experiment) is not experiment:
                raise ValueError(f"two experiments are named {experiment.name}")
            found[experiment.name] = experiment
    return found


def named(names: Iterable[str]) -> list[Experiment]:
    """Return the experiments of these names; a system's name stands for all its experiments. Raises StudyError."""
    known = experiments()
    systems = dict.fromkeys(experiment.system for experiment in known.values())
    found: dict[str, Experiment] = {}
    for name in names:
        mine = [one for one in known.values() if name in (one.name, one.system)]
        if not mine:
            raise refuse("NAME", name, f"{', '.join(known)}; or a system: {', '.join(systems)}")
        found |= {one.name: one for one in mine}
    return list(found.values())


def cases(
    experiment: Experiment, seeds: Sequence[int], mutant: Mutant | None = None, data: str = ""
) -> list[StudyCase]:
    """Return one case for each seed of the experiment, or of its mutant.

    data: the folder with the data of an experiment that needs some. Raises StudyError if it has none.
    """
    variant = mutant.name if mutant else ""
    label = f"paper {experiment.name}{f' ({variant})' if variant else ''}"
    folder, on = (data, f" on {polluxfiles.contents(data)}") if experiment.data else ("", "")
    return [StudyCase(f"{label} seed {seed}{on}", measure, (experiment.name, variant, seed, folder)) for seed in seeds]


def measure(name: str, variant: str, seed: int, data: str = "") -> Row:
    """Run one seed of an experiment, or of its mutant named ``variant`` (empty: no mutant), and return the row.

    Experiment and mutant are passed by name, because another process may run this. data: the folder with the data that
    the experiment needs.
    """
    experiment = experiments()[name]
    measures = {mutant.name: mutant.measure for mutant in experiment.mutants} | {"": experiment.measure}
    found = measures[variant]
    return dict(found.compute(seed, polluxfiles.artifact(data)) if isinstance(found, OnData) else found(seed))


@dataclass(frozen=True, slots=True)
class Judged:
    """A bar, the value that our runs reached, and whether that meets the bar.

    spread: (p10, p90) over the seeds; None if there is only one value for all seeds.
    """

    bar: Bar
    value: float
    met: bool
    spread: tuple[float, float] | None = None

    @property
    def direction(self) -> bool | None:
        """Whether the value has the direction that the paper states; None if the paper states none."""
        return self.bar.published.direction(self.value) if self.bar.published else None

    @property
    def size(self) -> bool | None:
        """Whether the value has the size that the paper states; None if the paper states no number."""
        return self.bar.published.size(self.value) if self.bar.published else None


@dataclass(frozen=True, slots=True)
class MutantOutcome:
    """The result of a mutant: which of the experiment's bars its rows meet.

    A mutant is ``caught`` if it misses every bar that it is expected to miss.
    """

    mutant: Mutant
    bars: tuple[Judged, ...]

    @property
    def named(self) -> tuple[Judged, ...]:
        """Return the bars that this mutant is expected to miss, each with the value that the mutant reached."""
        return tuple(judged for judged in self.bars if judged.bar.claim in self.mutant.misses)

    @property
    def caught(self) -> bool:
        """Tell whether the mutant missed every bar that it is expected to miss, and there is at least one."""
        return bool(self.named) and not any(judged.met for judged in self.named)

    @property
    def without_bar(self) -> bool:
        """Tell whether the mutant states a reason why it misses no bar; it counts neither as caught nor as missed."""
        return not self.mutant.misses and bool(self.mutant.reason)


@dataclass(frozen=True, slots=True)
class ExperimentOutcome:
    """The result of one experiment: a row for each seed, its bars, and its mutants if they were run."""

    experiment: Experiment
    seeds: tuple[int, ...]
    rows: tuple[Row, ...]
    bars: tuple[Judged, ...]
    mutants: tuple[MutantOutcome, ...] = ()

    @property
    def good(self) -> bool:
        """Tell whether all bars are met, and all mutants that are expected to miss a bar are caught."""
        return all(judged.met for judged in self.bars) and all(one.caught or one.without_bar for one in self.mutants)

    def to_dict(self) -> dict[str, object]:
        """Return the outcome for JSON; a number that is not finite (such as 0 / 0) becomes null."""
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
    """Return each bar with the value that these rows give, and whether it is met."""
    return tuple(Judged(bar, bar.value(rows), bar.met(rows), bar.spread(rows)) for bar in bars)


def mutant_outcome(experiment: Experiment, mutant: Mutant, own: Sequence[Row], rows: Sequence[Row]) -> MutantOutcome:
    """Return which of the experiment's bars the mutant meets.

    own: the experiment's own rows. rows: the mutant's rows for the same seeds.
    """
    return MutantOutcome(mutant, judge(experiment.bars, with_own_rows(own, rows)))


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
        "paper_number": bar.published.number if bar.published else None,
        "direction_reproduced": judged.direction,
        "size_reproduced": judged.size,
    }


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value

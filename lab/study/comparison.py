"""``kohort simulate`` and ``kohort compare``: policies on traces over seeds, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.study.cases import Run, check_pods, follows_seed, measures_of, policy_of, run_one
from lab.study.errors import refuse
from lab.study.pool import Case
from lab.study.rows import Row
from lab.study.scenes import scene, varies
from lab.study.slots import SLOT, slot_on
from lab.study.specs import Spec, Value
from lab.study.stats import Difference, Spread, paired, spread


@dataclass(frozen=True, slots=True)
class Plan:
    """What is compared. The first policy is the one that the others are held against."""

    policies: tuple[Spec, ...]
    traces: tuple[Spec, ...]
    seeds: range
    simulator: tuple[tuple[str, Value], ...] = ()
    pods: bool = False
    jobs: bool = False

    def check(self) -> None:
        """Raise StudyError for a policy or a trace that is none, before anything runs."""
        for option, specs in (("--policy", self.policies), ("--trace", self.traces)):
            labels = [one.label for one in specs]
            if twice := [one for index, one in enumerate(labels) if one in labels[:index]]:
                raise refuse(option, twice[0], "each one once, or with a label=NAME of its own")
        for policy in self.policies:
            policy_of(policy, self.seeds[0])
        for trace in self.traces:
            found = scene(trace, self.seeds[0], self.simulator)
            self._simulator(trace)
            if self.pods:
                check_pods(trace, self.simulator, found)

    def check_measure(self, measure: str) -> None:
        """Raise StudyError for a measure that the runs on one of the traces do not have, before anything runs."""
        for trace in self.traces:
            known = measures_of(scene(trace, self.seeds[0], self.simulator), self.pods)
            if measure not in known:
                raise refuse("--measure", measure, ", ".join(known))

    def runs(self, policy: Spec, trace: Spec) -> list[Run]:
        """One for each seed; one alone where neither the trace nor the policy has chance in it."""
        given = self._simulator(trace), self.pods, self.jobs
        seeds = self.seeds if varies(trace) or follows_seed(policy) else self.seeds[:1]
        return [Run(policy, trace, seed, *given) for seed in seeds]

    def _simulator(self, trace: Spec) -> tuple[tuple[str, Value], ...]:
        """With the slot in which all policies' runs on that trace are measured."""
        slot = slot_on(trace, self.seeds[0], self.simulator, self.policies)
        return self.simulator if slot is None else ((SLOT, slot), *(one for one in self.simulator if one[0] != SLOT))

    def cases(self) -> list[Case]:
        """All, trace by trace and seed by seed, so that what belongs together is done together."""
        found = [run for trace in self.traces for policy in self.policies for run in self.runs(policy, trace)]
        return [Case(run.key, run_one, (run,)) for run in sorted(found, key=lambda run: run.seed)]


@dataclass(frozen=True, slots=True)
class Line:
    """One policy on one trace: the spread of every measure, and its difference to the first policy's.

    seeds: its runs; pairs: those of the difference, which are more where only the first policy draws.
    """

    trace: str
    policy: str
    seeds: int
    pairs: int
    spreads: dict[str, Spread]
    differences: dict[str, Difference]


def compare(plan: Plan, rows: dict[str, Row]) -> list[Line]:
    """A line for each trace and policy. rows: by case."""
    lines = []
    for trace in plan.traces:
        firsts = _columns([rows[run.key] for run in plan.runs(plan.policies[0], trace)])
        for policy in plan.policies:
            found = _columns([rows[run.key] for run in plan.runs(policy, trace)])
            spreads = {name: spread(values) for name, values in found.items()}
            pairs = {name: _pairs(firsts[name], values) for name, values in found.items() if name in firsts}
            shown = {name: paired(*both) for name, both in pairs.items() if policy is not plan.policies[0]}
            count = max(len(firsts["jobs"]), len(found["jobs"]))
            lines.append(Line(trace.label, policy.label, len(found["jobs"]), count, spreads, shown))
    return lines


def _pairs(first: list[float], other: list[float]) -> tuple[list[float], list[float]]:
    """By seed: what was run once is the same with every seed of the other."""
    count = max(len(first), len(other))
    return (first * count if len(first) == 1 else first), (other * count if len(other) == 1 else other)


def _columns(rows: Sequence[Row]) -> dict[str, list[float]]:
    return {
        name: [float(row[name]) for row in rows]
        for name, value in rows[0].items()
        if isinstance(value, int | float) and all(name in row for row in rows)
    }

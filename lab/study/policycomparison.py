"""Define what ``kohort simulate`` and ``kohort compare`` run (policies on traces over seeds) and compare the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.study.cases import StudyRun, check_pods, follows_seed, measures_of, policy_of, run_one
from lab.study.commonslot import SLOT, slot_on
from lab.study.donerows import Row
from lab.study.pool import StudyCase
from lab.study.scenes import scene, varies
from lab.study.specs import NamedSpec, Value
from lab.study.stats import PairedDifference, Spread, paired, spread
from lab.study.studyerrors import refuse


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """The policies, traces and seeds to compare; the other policies are compared with the first one."""

    policies: tuple[NamedSpec, ...]
    traces: tuple[NamedSpec, ...]
    seeds: range
    simulator: tuple[tuple[str, Value], ...] = ()
    pods: bool = False
    jobs: bool = False

    def check(self) -> None:
        """Raise StudyError for an unknown or repeated policy or trace, before anything runs."""
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
        """Raise StudyError, before anything runs, if runs on one of the traces do not have this measure."""
        for trace in self.traces:
            known = measures_of(scene(trace, self.seeds[0], self.simulator), self.pods)
            if measure not in known:
                raise refuse("--measure", measure, ", ".join(known))

    def runs(self, policy: NamedSpec, trace: NamedSpec) -> list[StudyRun]:
        """Return one run for each seed, or a single run if neither the trace nor the policy is random."""
        given = self._simulator(trace), self.pods, self.jobs
        seeds = self.seeds if varies(trace) or follows_seed(policy) else self.seeds[:1]
        return [StudyRun(policy, trace, seed, *given) for seed in seeds]

    def _simulator(self, trace: NamedSpec) -> tuple[tuple[str, Value], ...]:
        """Return the simulator settings, with the length of the time slot that all policies on that trace share."""
        slot = slot_on(trace, self.seeds[0], self.simulator, self.policies)
        return self.simulator if slot is None else ((SLOT, slot), *(one for one in self.simulator if one[0] != SLOT))

    def cases(self) -> list[StudyCase]:
        """Return all cases ordered by seed, so that runs with the same trace and seed can share the trace."""
        found = [run for trace in self.traces for policy in self.policies for run in self.runs(policy, trace)]
        return [StudyCase(run.key, run_one, (run,)) for run in sorted(found, key=lambda run: run.seed)]


@dataclass(frozen=True, slots=True)
class ComparisonLine:
    """The results of one policy on one trace: the spread of each measure, and the difference to the first policy.

    ``seeds`` is the number of the policy's runs, ``pairs`` the number of compared pairs of runs. There are more pairs
    than runs if the policy needed one run only, because it is not random, and the first policy is random.
    """

    trace: str
    policy: str
    seeds: int
    pairs: int
    spreads: dict[str, Spread]
    differences: dict[str, PairedDifference]


def compare(plan: ComparisonPlan, rows: dict[str, Row]) -> list[ComparisonLine]:
    """Return a line for each trace and policy; ``rows`` maps the key of a case to its row."""
    lines = []
    for trace in plan.traces:
        firsts = _columns([rows[run.key] for run in plan.runs(plan.policies[0], trace)])
        for policy in plan.policies:
            found = _columns([rows[run.key] for run in plan.runs(policy, trace)])
            spreads = {name: spread(values) for name, values in found.items()}
            pairs = {name: _pairs(firsts[name], values) for name, values in found.items() if name in firsts}
            shown = {name: paired(*both) for name, both in pairs.items() if policy is not plan.policies[0]}
            count = max(len(firsts["jobs"]), len(found["jobs"]))
            lines.append(ComparisonLine(trace.label, policy.label, len(found["jobs"]), count, spreads, shown))
    return lines


def _pairs(first: list[float], other: list[float]) -> tuple[list[float], list[float]]:
    """Return both series with one value per seed; the value of a policy that was run only once is repeated."""
    count = max(len(first), len(other))
    return (first * count if len(first) == 1 else first), (other * count if len(other) == 1 else other)


def _columns(rows: Sequence[Row]) -> dict[str, list[float]]:
    return {
        name: [float(row[name]) for row in rows]
        for name, value in rows[0].items()
        if isinstance(value, int | float) and all(name in row for row in rows)
    }

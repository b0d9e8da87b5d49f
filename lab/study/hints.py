"""Warn about comparisons that are allowed, but in which a policy that moves jobs cannot move any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.study.named import StudyScene
from lab.study.policycomparison import ComparisonPlan
from lab.study.scenes import MIGRATABLE, SIM, scene
from lab.study.specs import NamedSpec
from policy.systems import REBALANCERS

REPORTS = frozenset({"specon"})  # These policies choose moves from the progress that jobs report.
SECONDS = 30  # In the SpeCon paper, a job sends a report after every 30 s.


def hints(plan: ComparisonPlan) -> list[str]:
    """Return a warning for each policy that moves jobs but cannot move any on some traces, with the reason."""
    traces: dict[tuple[str, str], list[str]] = {}
    for trace in plan.traces:
        at = scene(trace, plan.seeds[0], plan.simulator)
        for policy in plan.policies:
            if lacking := ", ".join(_lacking(policy, at, plan.pods)):
                traces.setdefault((policy.label, lacking), []).append(trace.label)
    return [f"{policy} moves nothing on {', '.join(on)}: {why}" for (policy, why), on in traces.items()]


def _lacking(policy: NamedSpec, at: StudyScene, pods: bool) -> Iterator[str]:
    mover = _mover(policy.name.split("+"))
    if mover in REPORTS and pods:
        yield "no job reports pod by pod (leave --pods out)"
    elif mover in REPORTS and at.settings.report_seconds is None:
        yield f"no job reports (set {SIM}report_seconds={SECONDS})"
    if mover and not any(job.migratable for job in at.trace.jobs):
        yield f"no job may be moved (set {MIGRATABLE}=true, a parameter of the trace)"


def _mover(names: Sequence[str]) -> str:
    """Return the last of these systems that moves jobs, or "" if none of them does.

    names: the parts of a policy's name, such as ``kod2+specon``; the last part is the outermost system.
    """
    return next((name for name in reversed(names) if name in REBALANCERS), "")

"""Run a single policy on a single trace with a single seed, and return the measures as a row."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from lab.sim.fluid.fluidrun import simulate
from lab.sim.fluid.speedmodels import Saturating
from lab.sim.objects import KOHORT
from lab.sim.report import RunResult
from lab.sim.rivals import RIVALS
from lab.sim.traces import rigid
from lab.study.commonslot import SLOT, has
from lab.study.donerows import Row
from lab.study.faultfiles import FAULTS
from lab.study.named import StudyScene
from lab.study.scenes import SIM, scene
from lab.study.specs import SEED, NamedSpec, Value
from lab.study.studyerrors import StudyError, refuse
from lab.study.tracespeeds import name_of
from policy.cluster.snapshot import Rules
from policy.systems import built, make_policy
from policy.systems.base import Policy

# Only these simulator settings have an effect in the pod-level simulator.
PODS_HEED = frozenset({"patience", "horizon"})
# Measures that the pod-level simulator does not compute.
UNMEASURED = frozenset({"rejected", "mean_scaling_seconds", "moves", "total_utility", "fairness", "fragmentation"})
# These policies do not scale jobs, so all jobs are made rigid, with all their replicas.
PLAIN = frozenset({"fifo-pod"})


@dataclass(frozen=True, slots=True)
class StudyRun:
    """One run: a policy on a trace with a seed.

    ``simulator`` has settings of the simulator. ``pods`` chooses the pod-level simulator (operator, kube-scheduler,
    kubelets) instead of the job-level one. ``jobs`` adds a row for each job to the result.
    """

    policy: NamedSpec
    trace: NamedSpec
    seed: int
    simulator: tuple[tuple[str, Value], ...] = ()
    pods: bool = False
    jobs: bool = False

    @property
    def key(self) -> str:
        """Return a text that is different for each run of a study; the finished row is stored under it."""
        given = ",".join(f"{name}={value}" for name, value in self.simulator)
        how = f"{'pods' if self.pods else 'jobs'} {given}".strip()
        rows = " with jobs" if self.jobs else ""
        return f"run {_text(self.policy)} on {_text(self.trace)} seed {self.seed} ({how}){rows}"


def _text(spec: NamedSpec) -> str:
    text = ",".join([spec.name, *(f"{name}={value}" for name, value in spec.parameters)])
    return f"{text} as {spec.contents}" if spec.contents else text


def policy_of(spec: NamedSpec, seed: int, slot_seconds: float | None = None) -> Policy:
    """Return the policy that ``spec`` names. Raises StudyError.

    A policy that has the parameters ``seed`` or ``slot_seconds`` gets these values, unless the spec states others.
    """
    every: dict[str, Value] = {SEED: seed} | ({SLOT: slot_seconds} if slot_seconds is not None else {})
    ours = {name: value for name, value in every.items() if has(spec, name)}
    try:
        if spec.name in RIVALS:
            rival: Policy = built(spec.name, RIVALS[spec.name], dict(spec.given()))
            return rival
        return make_policy(spec.name, **spec.given(**ours))
    except (TypeError, ValueError) as error:
        raise StudyError(
            f"--policy {spec.text or spec.name}: {error}; see docs/policies, and docs/simulator.md for the baselines"
        ) from None


def follows_seed(spec: NamedSpec) -> bool:
    """Tell whether the policy decides at random by the study's seed, not by one of its own. Raises StudyError."""
    return SEED not in dict(spec.parameters) and policy_of(spec, 0).base.draws


def run_one(run: StudyRun) -> Row:
    """Simulate the run and return its measures as a row; with ``run.jobs``, key ``jobs_table`` has a row for each
    job.
    """
    found = result_of(run, scene(run.trace, run.seed, run.simulator))
    row: Row = dict(measures(found, pods=run.pods))
    if run.jobs:
        row["jobs_table"] = [job_row(job) for job in found.jobs]
    return row


def result_of(run: StudyRun, at: StudyScene, on_step: Any = None) -> RunResult:
    """Simulate the run on the scene ``at`` and return the result; ``on_step`` is called with every step."""
    policy = policy_of(run.policy, run.seed, at.settings.slot_seconds)
    trace = rigid(at.trace, KOHORT) if run.policy.name in PLAIN else at.trace
    if not run.pods:
        return simulate(trace, policy, at.settings, faults=at.faults, on_step=on_step)
    # The module is imported late, because it imports the whole service, which other runs do not need.
    from lab.virtual.podrun import HORIZON
    from lab.virtual.podrun import simulate as simulate_pods

    horizon = at.settings.horizon
    if math.isinf(horizon):
        horizon = HORIZON + max((job.arrival for job in trace.jobs), default=0.0)
    look = (lambda step, _: on_step(step)) if on_step is not None else None
    return simulate_pods(trace, policy, patience=at.settings.patience, horizon=horizon, on_step=look)


def rules_of_run(run: StudyRun, at: StudyScene, policy: Policy) -> Rules:
    """Return the rules with which the snapshot of the run begins: the settings that limit what the policy may
    decide.
    """
    if not run.pods:
        return at.settings.rules
    from lab.virtual.podrun import settings_for
    from lab.virtual.service import rules_under

    return rules_under(policy, settings_for())


def check_pods(trace: NamedSpec, simulator: tuple[tuple[str, Value], ...], at: StudyScene) -> None:
    """Raise StudyError if a run asks the pod-level simulator for a feature that only the job-level one has."""
    named = {name.removeprefix(SIM) for name, _ in trace.parameters if name.startswith(SIM)}
    if others := sorted((named | {name for name, _ in simulator}) - PODS_HEED):
        raise refuse("--pods: the setting", f"sim.{others[0]}", ", ".join(f"sim.{name}" for name in sorted(PODS_HEED)))
    if at.faults:
        raise refuse("--pods: the parameter", FAULTS, "no faults, because only the job-level simulator has them")
    if not isinstance(at.settings.speeds, Saturating):
        raise refuse(f"--pods: the speeds of {trace.label}", name_of(at.settings.speeds), name_of(Saturating()))


def measures(result: RunResult, *, pods: bool = False) -> dict[str, float]:
    """Return the measures of a result by name; times are in seconds, shares between 0 and 1.

    Lateness is included only if a finished job has a target. With ``pods``, the measures that the pod-level simulator
    does not compute are left out.
    """
    found: dict[str, float] = {
        "jobs": len(result.jobs),
        "finished": result.finished,
        "rejected": result.rejected,
        "mean_jct_seconds": result.mean_jct_seconds,
        "charged_jct_seconds": result.charged_jct_seconds,
        "mean_waiting_seconds": result.mean_waiting_seconds,
        "mean_scaling_seconds": result.mean_scaling_seconds,
        "makespan_seconds": result.makespan_seconds,
        "utilisation": result.utilisation,
        "held": result.held,
        "resizes": result.resizes,
        "moves": result.moves,
        "cross_pairs": result.cross_pairs,
        "total_utility": result.total_utility,
        "fairness": result.fairness,
        "fragmentation": result.fragmentation,
    }
    if (late := result.mean_lateness_slots) is not None:
        found["mean_lateness_slots"] = late
    found |= {f"utilisation_{name}": use.computing for name, use in sorted(result.use.items())}
    return {name: value for name, value in found.items() if not (pods and name in UNMEASURED)}


def measures_of(at: StudyScene, pods: bool) -> list[str]:
    """Return the names of the measures that a run on this scene will have, without running it.

    ``pods`` says that the run uses the pod-level simulator, which does not measure the utilisation of each resource.
    """
    plain = list(measures(RunResult("", (), 0.0, 0.0, 0.0, 0.0), pods=pods))
    if pods:
        return plain
    had = {name for node in at.trace.nodes for name, amount in node.allocatable.amounts.items() if amount} - {"pods"}
    late = ["mean_lateness_slots"] if any(job.training and job.training.utility for job in at.trace.jobs) else []
    return plain + late + [f"utilisation_{name}" for name in sorted(had)]


def job_row(job: Any) -> Row:
    """Return the outcome of one job as a row of the table of jobs."""
    return asdict(job) | {"jct_seconds": job.jct_seconds, "waiting_seconds": job.waiting_seconds}

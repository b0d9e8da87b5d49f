"""DRS on DRAGON's Table 1 with three assignments of utilities, because DRS's own tables are not in its text.

E1: all jobs have the same utility, so that only scaling differs. E2: utilities are drawn from 1, 2, 3. E3: all jobs
have the same utility, and a large job of higher utility arrives in the full cluster.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from lab.papers.dragonworld import MAXIMUM, SPEEDS, hundred_jobs, job, row_of, steps_in, table_1
from lab.papers.drsfigures import draw_classes
from lab.papers.experiment import Bar, Experiment, Mutant, Row, cut, mean, share
from lab.papers.switches import WithoutScaleIn, WithoutScaleOut
from lab.sim.objects import JobSpec
from lab.sim.traces.trace import Trace
from policy.cluster.actions import Decision
from policy.cluster.snapshot import Snapshot
from policy.placement.grow import Where
from policy.systems.base import Policy
from policy.systems.baselines import FifoPod, KubeflowSpread, Retry
from policy.systems.dragon import Dragon
from policy.systems.drs import Drs

HIGH = 3.0
DRS = Drs()
LOADED_GAP = 125.0


@dataclass(frozen=True, slots=True)
class OtherUtilities(Policy):
    """Lets a policy see each job's utility multiplied by ``factor``: 0 hides utilities, -1 reverses their order."""

    policy: Policy
    factor: float

    @property
    def name(self) -> str:
        """Return the name of the policy with the factor appended."""
        return f"{self.policy.name}, utilities x {self.factor:g}"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Return the policy's decision on a snapshot with the changed utilities."""
        jobs = {uid: replace(one, utility=self.factor * one.utility) for uid, one in snapshot.jobs.items()}
        return self.policy.decide(replace(snapshot, jobs=jobs), now)


def equal_jobs(seed: int) -> Trace:
    """Return the trace of experiment E1: Table 1 unchanged, in which all jobs have the same utility. The seed has no
    effect.
    """
    del seed
    return table_1()


def drawn_utilities(seed: int) -> Trace:
    """Return the trace of experiment E2: Table 1, in which each job's utility is 1, 2 or 3 and at least one job has
    3.
    """
    draw, trace = random.Random(seed), table_1()
    worth = [float(draw.randint(1, 3)) for _ in trace.jobs]
    if HIGH not in worth:
        worth[draw.randrange(len(worth))] = HIGH
    return replace(trace, jobs=tuple(replace(one, utility=u) for one, u in zip(trace.jobs, worth, strict=True)))


def late_large_job(seed: int) -> Trace:
    """Return the trace of experiment E3: Table 1 with utility 1, and a job that arrives later while the GPUs are full.

    The later job has 3 or 4 workers and utility 3.
    """
    draw, trace = random.Random(seed), table_1()
    model = draw.choice(sorted(SPEEDS.models))
    steps = steps_in(model, draw.uniform(600.0, 1200.0), MAXIMUM)
    late = job("job-13", model, (3, MAXIMUM, MAXIMUM), steps, round(draw.uniform(8.0, 12.0) * 60.0, 1))
    jobs = (*trace.jobs, replace(late, utility=HIGH))
    return replace(trace, jobs=tuple(sorted(jobs, key=lambda one: (one.arrival, one.name))))


def loaded(seed: int) -> Trace:
    """Return the trace of DRAGON's hundred jobs, one every 125 s on average, so that jobs queue; each has utility 1, 2
    or 3.
    """
    draw, trace = random.Random(seed), hundred_jobs(seed, LOADED_GAP)
    return replace(trace, jobs=tuple(replace(one, utility=float(draw.randint(1, 3))) for one in trace.jobs))


@dataclass(frozen=True, slots=True)
class DrsCase:
    """Runs the policy under test, DRAGON and (``baseline``) the default scheduler on the trace of a seed."""

    trace: Callable[[int], Trace]
    policy: Policy = DRS
    baseline: bool = True

    def __call__(self, seed: int) -> Row:
        """Run the policies, and return each one's mean elapsed minutes, of all jobs and of those of the highest
        utility.

        The keys are elapsed/NAME and elapsed/NAME/top. ``top gain`` is by how many percent DRS's mean elapsed time of
        the jobs of the highest utility is below DRAGON's.
        """
        trace = self.trace(seed)
        runs: dict[str, Policy] = {"dragon": Dragon(), "drs": self.policy}
        if self.baseline:
            runs["kubeflow"] = KubeflowSpread(seed=seed + 1)
        row: dict[str, float] = {}
        for name, policy in runs.items():
            found = row_of(name, trace, policy)
            row |= {key: value for key, value in found.items() if key.count("/") == 1}
            for label, jobs in _classes(trace).items():
                row[f"elapsed/{name}/{label}"] = sum(found[f"elapsed/{name}/{one.name}"] for one in jobs) / len(jobs)
        return row | {"top gain": 100 * (1 - row["elapsed/drs/top"] / row["elapsed/dragon/top"])}


def _classes(trace: Trace) -> dict[str, list[JobSpec]]:
    """Return the jobs by their utility as a text, such as ``1``; the jobs of the highest utility are under ``top``."""
    top = max(one.utility for one in trace.jobs)
    found: dict[str, list[JobSpec]] = {"top": []}
    for one in trace.jobs:
        found.setdefault("top" if one.utility == top else f"{one.utility:g}", []).append(one)
    return found


def _better(gain: float) -> bool:
    return gain > 0


BELOW_DRAGON = "elapsed, DRS below DRAGON"
BELOW_KUBEFLOW = "elapsed, DRS below kubeflow-spread"
TOP_OFTEN = "seeds in which the highest utility's jobs are done sooner than under DRAGON"
TOP_MEAN = "elapsed of the highest utility's jobs, mean gain over DRAGON"
SOURCE = "DRS, experiments 1-3 (their tables are not in the text)"
ASSUMED = (
    "the article's job tables and charts are not in its text: the jobs are those of DRAGON's Table 1, and the "
    "utilities are our choice",
    "speeds, the cost of a restart and the default scheduler's placement are those of dragon-table-1",
)

NO_SCALE_UP = WithoutScaleOut(DRS)
NO_SCALE_DOWN = WithoutScaleIn(DRS)
ANYWHERE = Drs(scale_up=Where.ANYWHERE)
NOBODY_YIELDS = (
    "among jobs of one utility no job gives workers up for another; drs-newcomers is the experiment in which "
    "scale-down decides"
)
SHORT_QUEUE = (
    "with the jobs of Table 1 hardly any job waits, and the difference comes from the scale-up, which leaves free "
    "capacity on other nodes unused; utilities decide in drs-loaded, and scale-down in drs-newcomers"
)


def no_gang(trace: Callable[[int], Trace], seed: int) -> Row:
    """Return the measures of a deliberately changed run (a mutant): the pod-by-pod baseline runs in place of DRS."""
    return DrsCase(trace, FifoPod(Retry.RANDOM, seed), baseline=False)(seed)


def same_utility(trace: Callable[[int], Trace], *misses: str, reason: str = "") -> Mutant:
    """Return the measures of a deliberately changed run (a mutant) in which DRS sees the same utility for all jobs."""
    return Mutant("no utility", DrsCase(trace, OtherUtilities(DRS, 0.0), baseline=False), misses, reason)


EQUAL = Experiment(
    name="drs-equal",
    system="drs",
    title="E1: Table 1, all jobs of one utility",
    source=SOURCE,
    measure=DrsCase(equal_jobs),
    bars=(
        Bar(BELOW_DRAGON, cut("elapsed/drs", "elapsed/dragon"), at_least=-3.0, unit="%"),
        Bar(BELOW_KUBEFLOW, cut("elapsed/drs", "elapsed/kubeflow"), at_least=60.0, unit="%"),
        Bar("waiting, DRS", mean("wait/drs"), unit="min"),
        Bar("GPU use, DRS", mean("use/drs"), unit="%"),
    ),
    seeds=100,
    mutants=(
        Mutant("no scale-up", DrsCase(equal_jobs, NO_SCALE_UP, baseline=False), (BELOW_DRAGON, BELOW_KUBEFLOW)),
        Mutant("no gang", partial(no_gang, equal_jobs), (BELOW_DRAGON, BELOW_KUBEFLOW)),
        Mutant("no scale-down", DrsCase(equal_jobs, NO_SCALE_DOWN, baseline=False), reason=NOBODY_YIELDS),
    ),
    figure=draw_classes,
    assumed=ASSUMED,
)


def _top_bars(mean_gain: float) -> tuple[Bar, ...]:
    return (
        Bar(TOP_OFTEN, share("top gain", _better), at_least=0.8),
        Bar(TOP_MEAN, mean("top gain"), at_least=mean_gain, unit="%"),
        Bar(BELOW_DRAGON, cut("elapsed/drs", "elapsed/dragon"), unit="%"),
    )


DRAWN = Experiment(
    name="drs-drawn",
    system="drs",
    title="E2: Table 1, utilities drawn from 1, 2, 3",
    source=SOURCE,
    measure=DrsCase(drawn_utilities),
    bars=_top_bars(10.0),
    mutants=(
        Mutant("no scale-up", DrsCase(drawn_utilities, NO_SCALE_UP, baseline=False), (TOP_OFTEN, TOP_MEAN)),
        Mutant("scale-up on any node", DrsCase(drawn_utilities, ANYWHERE, baseline=False), (TOP_OFTEN, TOP_MEAN)),
        Mutant("no gang", partial(no_gang, drawn_utilities), (TOP_OFTEN, TOP_MEAN)),
        Mutant("no scale-down", DrsCase(drawn_utilities, NO_SCALE_DOWN, baseline=False), reason=SHORT_QUEUE),
        same_utility(drawn_utilities, reason=SHORT_QUEUE),
    ),
    figure=draw_classes,
    assumed=ASSUMED,
)

LATE = Experiment(
    name="drs-late",
    system="drs",
    title="E3: Table 1, and a large job of high utility comes into the full cluster",
    source=SOURCE,
    measure=DrsCase(late_large_job),
    bars=_top_bars(10.0),
    mutants=(
        Mutant(
            "utilities turned round",
            DrsCase(late_large_job, OtherUtilities(DRS, -1.0), baseline=False),
            (TOP_OFTEN, TOP_MEAN),
        ),
        Mutant("no gang", partial(no_gang, late_large_job), (TOP_OFTEN, TOP_MEAN)),
        Mutant("no scale-down", DrsCase(late_large_job, NO_SCALE_DOWN, baseline=False), reason=SHORT_QUEUE),
        same_utility(late_large_job, reason=SHORT_QUEUE),
    ),
    figure=draw_classes,
    assumed=ASSUMED,
)

LOADED = Experiment(
    name="drs-loaded",
    system="drs",
    title="DRAGON's hundred jobs with utilities drawn from 1, 2, 3: a cluster with a queue",
    source="ours: on Table 1 nearly nobody waits, so that utilities decide little",
    measure=DrsCase(loaded, baseline=False),
    bars=_top_bars(40.0),
    mutants=(same_utility(loaded, TOP_OFTEN, TOP_MEAN),),
    figure=draw_classes,
    assumed=ASSUMED,
)

EXPERIMENTS = (EQUAL, DRAWN, LATE, LOADED)

"""An experiment of this project: long jobs have grown over the cluster, and smaller jobs of higher utility arrive.

The papers' own traces show little of scale-in: if all jobs start small and some job always waits, no job has workers to
give. Here each newcomer waits until a job gives up workers, or for hours.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from lab.papers.dragonworld import MAXIMUM, SPEEDS, four_nodes, job, row_of, steps_in
from lab.papers.experiment import Bar, Experiment, Mutant, Row, cut, mean, worst
from lab.papers.newcomersfigure import draw_newcomers
from lab.papers.switches import WithoutScaleIn, WithoutScaleOut
from lab.sim.objects import JobSpec
from lab.sim.traces.trace import Trace
from policy.systems.base import Policy
from policy.systems.baselines import LocalityOnly
from policy.systems.dragon import Dragon
from policy.systems.dragonchoices import Sizes
from policy.systems.drs import Drs
from policy.systems.kod2 import Kod2

LONG_JOBS, LONG_MINIMUM, LONG_MAXIMUM = 4, 2, 8
LONG_HOURS = (1.5, 2.5)  # A long job takes this many hours with its maximum of workers.
NEWCOMERS, UTILITY = 8, 3.0
# QUIET is the seconds before the first newcomer can arrive, and GAP the mean seconds between two newcomers.
QUIET, GAP = 1200.0, 600.0
SHORT_MINUTES = (5.0, 15.0)


def newcomers(seed: int) -> Trace:
    """Return the trace of newcomers among long jobs, on 4 nodes of 8 GPUs.

    Four jobs of utility 1 (2 to 8 workers, 1.5 to 2.5 h at 8) arrive in the first minute, and eight rigid ones of
    utility 3 (2 to 4 workers, 5 to 15 min) with Poisson arrivals every 10 min after the first 20.
    """
    draw = random.Random(seed)
    bounds = (LONG_MINIMUM, LONG_MINIMUM, LONG_MAXIMUM)
    long_ones = [_long(draw, number, bounds, 60.0) for number in range(LONG_JOBS)]
    at, heavy = QUIET, list[JobSpec]()
    for number in range(NEWCOMERS):
        at += draw.expovariate(1.0 / GAP)
        heavy.append(_newcomer(draw, number, at))
    jobs = sorted((*long_ones, *heavy), key=lambda one: (one.arrival, one.name))
    return Trace(four_nodes(), tuple(jobs))


def _long(draw: random.Random, number: int, bounds: tuple[int, int, int], within: float) -> JobSpec:
    """Return a long job that arrives in the first ``within`` seconds.

    ``bounds`` has the minimum, asked and maximum number of workers.
    """
    model, seconds = _model(draw), draw.uniform(*LONG_HOURS) * 3600.0
    at = round(draw.uniform(0, within), 1) if within else 0.0
    return job(f"long-{number}", model, bounds, steps_in(model, seconds, bounds[2]), at)


def _newcomer(draw: random.Random, number: int, at: float) -> JobSpec:
    model, workers, seconds = _model(draw), draw.randint(2, MAXIMUM), draw.uniform(*SHORT_MINUTES) * 60.0
    found = job(f"new-{number}", model, (workers,) * 3, steps_in(model, seconds, workers), round(at, 1))
    return replace(found, utility=UTILITY)


RIGID_WORKERS, ASKED, LEAST = 7, 6, 2
# The two jobs arrive this many seconds after the start; up to five minutes are added at random.
COMES_AT = (900.0, 3600.0)


def gaps(seed: int) -> Trace:
    """Return a trace in which a smaller start helps, on 4 nodes of 8 GPUs.

    Four rigid jobs of 7 workers (1.5 to 2.5 h) leave one GPU of each node. Two jobs then arrive one after the other;
    they ask for 6 workers, but could run with 2 (5 to 15 min at 6).
    """
    draw = random.Random(seed)
    jobs = [_long(draw, number, (RIGID_WORKERS,) * 3, 0.0) for number in range(LONG_JOBS)]
    for number, after in enumerate(COMES_AT):
        model, seconds = _model(draw), draw.uniform(*SHORT_MINUTES) * 60.0
        at = round(after + draw.uniform(0.0, 300.0), 1)
        jobs.append(job(f"new-{number}", model, (LEAST, ASKED, ASKED), steps_in(model, seconds, ASKED), at))
    return Trace(four_nodes(), tuple(sorted(jobs, key=lambda one: (one.arrival, one.name))))


def _model(draw: random.Random) -> str:
    return draw.choice(sorted(SPEEDS.models))


@dataclass(frozen=True, slots=True)
class NewcomersCase:
    """Runs policies on the trace of a seed; ``policies`` has them by name, the one under test as ``ours``."""

    policies: Mapping[str, Policy]
    make: Callable[[int], Trace] = newcomers

    def __call__(self, seed: int) -> Row:
        """Run each policy, and return the mean minutes wait/NAME/KIND and elapsed/NAME/KIND, and the number of jobs
        finished/NAME.

        NAME is the policy's name, and KIND is ``new`` for newcomers and ``long`` for long jobs.
        """
        trace, row = self.make(seed), dict[str, float]()
        for name, policy in self.policies.items():
            found = row_of(name, trace, policy)
            row[f"finished/{name}"] = found[f"finished/{name}"]
            for kind in ("new", "long"):
                jobs = [one.name for one in trace.jobs if one.name.startswith(kind)]
                elapsed = fmean(found[f"elapsed/{name}/{one}"] for one in jobs)
                row[f"elapsed/{name}/{kind}"] = elapsed
                row[f"wait/{name}/{kind}"] = elapsed - fmean(found[f"run/{name}/{one}"] for one in jobs)
        return row


WAITING = "mean waiting of the newcomers"
UNYIELDING = "their waiting where nobody yields"
LONG = "elapsed of the long jobs, below locality-only, which never grows them"


def _experiment(policy: Policy, most_minutes: float, rigid: Policy, small: Policy) -> Experiment:
    """Return the experiment for ``policy``, under which newcomers may wait ``most_minutes`` on average.

    ``rigid`` is the policy without scale-in, and ``small`` the policy without scale-out; both run as mutants.
    """
    return Experiment(
        name=f"{policy.name}-newcomers",
        system=policy.name,
        title="More useful jobs come into a cluster over which others have grown",
        source="ours: on the paper's own jobs scale-in decides little",
        measure=NewcomersCase({"ours": policy, "rigid": rigid, "locality": LocalityOnly()}),
        bars=(
            Bar(WAITING, mean("wait/ours/new"), at_most=most_minutes, unit="min"),
            Bar(UNYIELDING, mean("wait/rigid/new"), unit="min"),
            Bar(LONG, cut("elapsed/ours/long", "elapsed/locality/long"), at_least=50.0, unit="%"),
            Bar("jobs finished of 12, worst seed", worst("finished/ours")),
        ),
        mutants=(
            Mutant("no scale-in", NewcomersCase({"ours": rigid}), (WAITING,)),
            Mutant("no scale-out", NewcomersCase({"ours": small}), (LONG,)),
        ),
        figure=draw_newcomers,
        assumed=("speeds and the cost of a restart are those of dragon-table-1",),
    )


SMALLER = Experiment(
    name="dragon-gaps",
    system="dragon",
    title="Jobs come into gaps that hold them with fewer workers than they ask for, and nobody has any to give",
    source="ours: where others can yield, smaller starts alone decide little",
    measure=NewcomersCase({"ours": Dragon(), "locality": LocalityOnly()}, gaps),
    bars=(
        Bar(WAITING, mean("wait/ours/new"), at_most=0.5, unit="min"),
        Bar("their elapsed time", mean("elapsed/ours/new"), unit="min"),
        Bar("their waiting under locality-only", mean("wait/locality/new"), unit="min"),
        Bar("jobs finished of 6, worst seed", worst("finished/ours")),
    ),
    mutants=(Mutant("no smaller starts", NewcomersCase({"ours": Dragon(sizes=Sizes.ASKED)}, gaps), (WAITING,)),),
    assumed=("speeds and the cost of a restart are those of dragon-table-1",),
)

EXPERIMENTS = (
    SMALLER,
    _experiment(Dragon(), 2.5, Dragon(urgent_threshold=math.inf), WithoutScaleOut(Dragon())),
    _experiment(Drs(), 10.0, WithoutScaleIn(Drs()), WithoutScaleOut(Drs())),
    _experiment(Kod2(), 2.5, WithoutScaleIn(Kod2()), WithoutScaleOut(Kod2())),
)

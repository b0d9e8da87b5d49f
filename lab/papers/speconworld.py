"""The world of SpeCon's experiments (SpeCon, section VI): jobs that share each node's CPU, and comparing two runs.

Trace, initial placement and speeds are the same with and without moves, so that all differences are due to the moves.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from lab.sim.fluid.fluidrun import simulate
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.fluid.speedmodels import SharedCpu
from lab.sim.objects import JobSpec
from lab.sim.traces import Trace, node, pod_requests
from policy.cluster.job import WORKER, Role
from policy.systems.base import Policy
from policy.systems.specon import SpeCon

# These are the exponents k of the loss exp(-k p). By SpeCon's Figure 1, 65, 98 and 90 % of the reduction of the loss
# are reached after 20 % of the time.
VAE, BI_RNN, GRU = 5.20, 19.56, 11.51
MODELS = (VAE, BI_RNN, GRU)
# docs/policies/specon.md has the results of these parameters: each algorithm may move a job once. By default, a job is
# moved once in all, by either algorithm, and the same bars are met.
AS_RUN = SpeCon(moves_per_job=2)
# A move stops a job for this many seconds; by SpeCon's Figures 2 and 3, saving and resuming take less than 5 s.
MOVE_SECONDS = 4.0
REPORT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Setup:
    """One schedule of the paper; work is in seconds on a node without other jobs.

    The work is this project's calibration, as the paper gives none. ``gap`` is the seconds between two arrivals, or
    None for random arrivals in [0, ``within``]. ``short`` and ``long`` are the mean work of a short and of a long job,
    ``share`` the share of long jobs, and ``spread`` the standard deviation of the work as a share of its mean.
    """

    jobs: int
    workers: int
    gap: float | None = None
    within: float = 0.0
    short: float = 215.0
    long: float = 215.0
    share: float = 0.0
    spread: float = 0.05
    decays: tuple[float, ...] = (VAE,)


FIXED = Setup(20, 4, gap=50.0)
# This schedule is FIXED with sizes of jobs that differ more.
UNEVEN = Setup(20, 4, gap=50.0, short=200.0, long=200.0, spread=0.25)
# This is the schedule of SpeCon's Table III; the paper does not say how many jobs it has.
SINGLE = Setup(20, 4, within=300.0)
MIXED: Mapping[int, Setup] = {
    20: Setup(20, 4, None, 300.0, 129.0, 301.0, 0.5, 0.12, MODELS),
    30: Setup(30, 4, None, 600.0, 109.0, 300.0, 0.5, 0.12, MODELS),
    50: Setup(50, 8, None, 1200.0, 90.0, 344.0, 0.6, 0.12, MODELS),
}
SCHEDULES: Mapping[str, Setup] = {"fixed": FIXED, **{str(jobs): setup for jobs, setup in MIXED.items()}}
SETTINGS = FluidSettings(
    speeds=SharedCpu(),
    start_seconds=0.0,
    migrate_seconds=MOVE_SECONDS,
    tick_seconds=REPORT_SECONDS,
    report_seconds=REPORT_SECONDS,
)


ASSUMED = (
    "a node's CPU is shared equally by the jobs on it, without loss (with loss: specon-gamma); a job that is alone on "
    "a node has rate 1",
    "work is normal around 215 s (20 VAE jobs) or around two means (mixed jobs: 129/301, 109/300, 90/344 s), chosen "
    "so that the default scheduler's average is near the paper's",
    "jobs report their loss to Kohort; the paper's monitor reads it from logs on a persistent volume",
    "the loss is an exponential that gives Figure 1's share after 20 % of the time, and it is reported every 5 s",
    "a move is 4 s without progress (Figures 2 and 3: less than 5 s); with and without moves, new jobs are placed "
    "round robin by their number",
)


def trace_of(setup: Setup, seed: int) -> Trace:
    """Return the trace of that seed. Each job has one worker, which requests little CPU and shares its node's CPU with
    the others.
    """
    draw = random.Random(seed)
    nodes = tuple(node(f"worker-{index + 1}", 16, 64) for index in range(setup.workers))
    if setup.gap is None:
        arrivals = sorted(draw.uniform(0.0, setup.within) for _ in range(setup.jobs))
    else:
        arrivals = [index * setup.gap for index in range(setup.jobs)]
    return Trace(nodes, tuple(_job(draw, setup, index, at) for index, at in enumerate(arrivals)))


def _job(draw: random.Random, setup: Setup, index: int, arrival: float) -> JobSpec:
    mean = setup.long if draw.random() < setup.share else setup.short
    return JobSpec(
        name=f"job-{index + 1:02d}",
        roles=(Role(WORKER, 1, pod_requests(0.25, 1)),),
        min_workers=1,
        max_workers=1,
        work_seconds=max(10.0, mean * draw.gauss(1.0, setup.spread)),
        arrival=arrival,
        decay=draw.choice(setup.decays),
        migratable=True,
    )


@dataclass(frozen=True, slots=True)
class RunTimes:
    """The times of one run: each job's completion time, in the order of the jobs, and the makespan."""

    seconds: tuple[float, ...]
    makespan: float
    moves: int = 0


def run(setup: Setup, policy: Policy, seed: int, settings: FluidSettings = SETTINGS) -> RunTimes:
    """Run the jobs of that seed under the policy, and return their times."""
    result = simulate(trace_of(setup, seed), policy, settings)
    first, last = min(job.arrival for job in result.jobs), max(job.ended for job in result.jobs)
    seconds = {job.name: job.jct_seconds for job in result.jobs}
    return RunTimes(tuple(seconds[name] for name in sorted(seconds)), last - first, result.moves)


def compare(ours: RunTimes, plain: RunTimes) -> dict[str, float]:
    """Return the measures that the paper prints, in percent of the default scheduler's; below 0 is sooner.

    ``average``, ``median`` and ``makespan`` are changes, and ``better`` is the share of jobs that end sooner. ``best``
    is by how much the job that gains most ends sooner, ``worst`` by how much the job that loses most ends later.
    ``moves`` is a number.
    """
    changes = [100.0 * (one / other - 1.0) for one, other in zip(ours.seconds, plain.seconds, strict=True)]
    return {
        "average": _change(fmean(ours.seconds), fmean(plain.seconds)),
        "median": _change(median(ours.seconds), median(plain.seconds)),
        "makespan": _change(ours.makespan, plain.makespan),
        "better": 100.0 * fmean(change < 0.0 for change in changes),
        "best": -min(changes),
        "worst": max(changes),
        "moves": float(ours.moves),
    }


def _change(ours: float, plain: float) -> float:
    return 100.0 * (ours / plain - 1.0)


def named(prefix: str, row: Mapping[str, float]) -> dict[str, float]:
    """Return the measures of the row under the names ``prefix/measure``."""
    return {f"{prefix}/{name}": value for name, value in row.items()}


def per_job(prefix: str, seconds: Sequence[float]) -> dict[str, float]:
    """Return each job's completion time by the name ``prefix/job``, for the figures."""
    return {f"{prefix}/{index + 1:02d}": value for index, value in enumerate(seconds)}

"""Sweep what SpeCon's results hang on and the paper does not say: how much speed jobs lose by sharing a node's CPU.

Each of n jobs on a node gets 1 / (n (1 + gamma (n - 1))) of it. Work is scaled so that the default scheduler's average
stays what it is without loss (`SCALE`, found on the seeds 0-9), because the paper's averages are the only calibration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lab.papers.experiment import Bar, Experiment, Row, mean
from lab.papers.published import effect
from lab.papers.speconworld import AS_RUN, FIXED, MIXED, SETTINGS, Setup, compare, named, run
from lab.sim.fluid.speedmodels import SharedCpu
from policy.systems.baselines import RoundRobin

GAMMAS = (0.0, 0.05, 0.1, 0.2)
SCHEDULES: Mapping[str, Setup] = {"fixed": FIXED, **{str(jobs): setup for jobs, setup in MIXED.items()}}
# By schedule: the factor on the work for each gamma, in the order of GAMMAS.
SCALE: Mapping[str, tuple[float, ...]] = {
    "fixed": (1.0, 1.0, 1.0, 1.0),
    "20": (1.0, 1.0, 1.0, 1.0),
    "30": (1.0, 1.0, 1.0, 1.0),
    "50": (1.0, 1.0, 1.0, 1.0),
}
# The paper's average, makespan and best job, in percent.
PAPER = {
    "fixed": (-14.7, -5.6, 37.6), "20": (-13.6, -24.7, 31.6), "30": (-7.6, -14.8, 28.8), "50": (-7.2, -11.1, 41.9),
}  # fmt: skip
MEASURES = ("average", "makespan", "best")


def scaled(setup: Setup, factor: float) -> Setup:
    """Return the schedule with all work multiplied by ``factor``."""
    return replace(setup, short=setup.short * factor, long=setup.long * factor)


def sweep(seed: int) -> Row:
    """Run every schedule at every gamma, and compare SpeCon with the default scheduler."""
    row: dict[str, float] = {}
    for schedule, setup in SCHEDULES.items():
        for gamma, factor in zip(GAMMAS, SCALE[schedule], strict=True):
            settings, jobs = replace(SETTINGS, speeds=SharedCpu(gamma)), scaled(setup, factor)
            ours, plain = run(jobs, AS_RUN, seed, settings), run(jobs, RoundRobin(), seed, settings)
            found = {**compare(ours, plain), "plain": sum(plain.seconds) / setup.jobs}
            row |= named(cell(schedule, gamma), found)
    return row


def cell(schedule: str, gamma: float) -> str:
    """Return the name of the pair of schedule and gamma in rows."""
    return f"{schedule}, gamma {gamma:g}"


def _bars() -> tuple[Bar, ...]:
    bars = []
    for schedule in SCHEDULES:
        for gamma in GAMMAS:
            name = cell(schedule, gamma)
            for measure, number in zip(MEASURES, PAPER[schedule], strict=True):
                value = mean(f"{name}/{measure}")
                bars.append(Bar(f"{name}: {measure}", value, unit="%", paper=f"{number:g} %", published=effect(number)))
            bars.append(Bar(f"{name}: average without moves", mean(f"{name}/plain"), unit="s"))
    return tuple(bars)


SWEEP = Experiment(
    name="specon-gamma",
    system="specon",
    title="All four schedules where jobs lose speed by sharing a node",
    source="SpeCon, Figures 5, 6, 7 and 12; gamma is ours",
    measure=sweep,
    bars=_bars(),
    assumed=(
        "n jobs on a node get 1 / (n (1 + gamma (n - 1))) of it each; work is scaled so that the default scheduler's "
        "average stays near the paper's (found on the seeds 0-9); all else is as in specon-mixed-20, -30, -50 and "
        "specon-fixed",
    ),
)

EXPERIMENTS = (SWEEP,)

"""Sweep what SpeCon's results hang on and the paper does not say: how much speed jobs lose by sharing a node's CPU.

Each of n jobs on a node gets 1 / (n (1 + gamma (n - 1))) of it. In each seed, work is scaled so that the default
scheduler's average stays what it is without loss, because the paper's averages are the only calibration that there is.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean

from lab.papers.experiment import Bar, Experiment, Row, mean
from lab.papers.published import effect
from lab.papers.speconworld import AS_RUN, SCHEDULES, SETTINGS, RunTimes, Setup, compare, named, run
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.fluid.speedmodels import SharedCpu
from policy.systems.baselines import RoundRobin

GAMMAS = (0.0, 0.05, 0.1, 0.2)
CLOSE_ENOUGH, TRIALS = 0.01, 8
# By how many percent the average grows for one percent more work (a first guess): more work also means more neighbours.
ELASTICITY = 2.5
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
        target = fmean(run(setup, RoundRobin(), seed, SETTINGS).seconds)
        for gamma in GAMMAS:
            settings = replace(SETTINGS, speeds=SharedCpu(gamma))
            jobs, plain = calibrated(setup, seed, settings, target)
            found = {**compare(run(jobs, AS_RUN, seed, settings), plain), "plain": fmean(plain.seconds)}
            row |= named(cell(schedule, gamma), found)
    return row


def calibrated(setup: Setup, seed: int, settings: FluidSettings, target: float) -> tuple[Setup, RunTimes]:
    """Return the schedule with its work scaled so that the default scheduler's average is ``target``, to CLOSE_ENOUGH,
    and the default scheduler's times.
    """
    factor, elasticity, step, before = 1.0, ELASTICITY, 0.0, 0.0
    for _ in range(TRIALS):
        jobs = scaled(setup, factor)
        plain = run(jobs, RoundRobin(), seed, settings)
        over = math.log(fmean(plain.seconds) / target)
        if abs(over) <= CLOSE_ENOUGH:
            break
        if step:
            elasticity = min(2 * ELASTICITY, max(1.0, (over - before) / step))
        step, before = -over / elasticity, over
        factor *= math.exp(step)
    return jobs, plain


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
        "average stays what it is without loss, to 1 %; all else is as in specon-mixed-20, -30, -50 and specon-fixed",
    ),
)

EXPERIMENTS = (SWEEP,)

"""SpeCon's Table III: twenty jobs of one model at random, by alpha and by the interval between two rounds."""

from __future__ import annotations

from dataclasses import replace

from lab.papers.experiment import Bar, Experiment, Row, mean
from lab.papers.published import effect, level
from lab.papers.speconfigures import draw_grid
from lab.papers.speconworld import AS_RUN, ASSUMED, SINGLE, compare, named, run
from policy.systems.baselines import RoundRobin

# SpeCon's Table III maps alpha and the interval in seconds to percentages: jobs reduced, overall, best, makespan.
TABLE_III = {
    (0.05, 20.0): (60.0, 5.7, 29.1, 6.1),
    (0.05, 25.0): (60.0, 6.8, 27.8, 7.5),
    (0.05, 30.0): (55.0, 3.2, 21.3, 4.0),
    (0.01, 30.0): (65.0, 9.6, 31.0, 8.2),
    (0.10, 30.0): (60.0, 6.4, 23.9, 3.1),
}


def grid(seed: int) -> Row:
    """Run the seed's jobs with each pair of alpha and interval in SpeCon's Table III."""
    plain, row = run(SINGLE, RoundRobin(), seed), dict[str, float]()
    for alpha, interval in TABLE_III:
        found = compare(run(SINGLE, replace(AS_RUN, alpha=alpha, interval=interval), seed), plain)
        row |= named(cell(alpha, interval), found)
    return row


def cell(alpha: float, interval: float) -> str:
    """Return the name of the pair of alpha and interval, in rows and figures."""
    return f"{alpha:.2f}, {interval:g} s"


def _grid_bars() -> tuple[Bar, ...]:
    bars = []
    for (alpha, interval), (reduced, overall, best, makespan) in TABLE_III.items():
        name = cell(alpha, interval)
        stated = (
            ("jobs reduced", "better", reduced, level), ("overall", "average", -overall, effect),
            ("best", "best", best, effect), ("makespan", "makespan", -makespan, effect),
        )  # fmt: skip
        for what, measure, number, published in stated:
            value = mean(f"{name}/{measure}")
            bars.append(Bar(f"{name}: {what}", value, unit="%", paper=f"{number:g} %", published=published(number)))
    return tuple(bars)


GRID = Experiment(
    name="specon-table-3",
    system="specon",
    title="20 VAE jobs at random in 300 s: alpha and interval",
    source="SpeCon, section VI-C1, Table III",
    measure=grid,
    bars=_grid_bars(),
    figure=draw_grid,
    assumed=(*ASSUMED, "20 jobs: the paper does not say how many"),
)

EXPERIMENTS = (GRID,)

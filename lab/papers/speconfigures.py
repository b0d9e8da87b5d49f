"""Draw SpeCon's figures from our rows; the caller passes a matplotlib Figure (the extra ``sim``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.papers.experiment import Row, mean, quantile

DEFAULT, SPECON = "default scheduler", "SpeCon"


def draw_completion(rows: Sequence[Row], figure: Any) -> None:
    """Draw SpeCon's Figures 5, 6, 7 and 12: each job's completion time in one seed with and without moves, and over all
    seeds how much the moves change the mean, the median and the makespan.
    """
    left, right = figure.subplots(1, 2, width_ratios=(3, 1))
    jobs = [key.removeprefix("default/") for key in rows[0] if key.startswith("default/")]
    for shift, prefix, label in ((-0.2, "default", DEFAULT), (0.2, "specon", SPECON)):
        heights = [rows[0][f"{prefix}/{job}"] for job in jobs]
        left.bar([at + shift for at in range(1, len(jobs) + 1)], heights, 0.4, label=label)
    left.set_xlabel("job (one seed)")
    left.set_ylabel("completion time (s)")
    left.legend()
    measures = ("average", "median", "makespan")
    right.boxplot([[row[name] for row in rows] for name in measures], tick_labels=list(measures))
    right.axhline(0, color="black", linewidth=0.5)
    right.set_ylabel("change, all seeds (%)")
    right.tick_params(axis="x", rotation=30)


def draw_grid(rows: Sequence[Row], figure: Any) -> None:
    """Draw the pairs of SpeCon's Table III as bars: how much moves change the mean completion time, with p10-p90.

    A pair is alpha, the threshold below which a job counts as converged, and the interval between two rounds.
    """
    cells = list(dict.fromkeys(key.split("/")[0] for key in rows[0]))
    _bars(figure.subplots(), rows, cells, "average")


def draw_variants(rows: Sequence[Row], figure: Any) -> None:
    """Draw how much each variant of SpeCon changes the mean completion time, with one panel for each schedule."""
    names = list(dict.fromkeys(key.split("/")[0] for key in rows[0]))
    schedules = list(dict.fromkeys(key.split("/")[1] for key in rows[0]))
    for axes, schedule in zip(figure.subplots(2, 2).flat, schedules, strict=True):
        _bars(axes, rows, [f"{name}/{schedule}" for name in names], "average", names)
        axes.set_title(schedule)


def draw_guests(rows: Sequence[Row], figure: Any) -> None:
    """Draw what the rebalancer ``guests`` changes on each schedule of jobs, against no moves: the mean completion time,
    the makespan and the completion time of the job that fares worst.
    """
    schedules = [key.removesuffix("/average") for key in rows[0] if key.endswith("/average")]
    for axes, measure in zip(figure.subplots(1, 3), ("average", "makespan", "worst"), strict=True):
        _bars(axes, rows, schedules, measure)
        axes.set_title(measure)


def draw_costs(rows: Sequence[Row], figure: Any) -> None:
    """Draw SpeCon's Figures 2 and 3: what a move costs, by model and by the job's progress."""
    axes = figure.subplots()
    for model in dict.fromkeys(key.split("/")[0] for key in rows[0] if "/" in key):
        shares = [key.split("/")[1] for key in rows[0] if key.startswith(f"{model}/")]
        costs = [mean(f"{model}/{share}")(rows) for share in shares]
        axes.plot([100 * float(share) for share in shares], costs, marker="o", label=model)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("share of the work done (%)")
    axes.set_ylabel("cost of a move (s)")
    axes.legend()


def _bars(axes: Any, rows: Sequence[Row], keys: list[str], measure: str, labels: list[str] | None = None) -> None:
    """Draw the mean over the seeds of the measure key/``measure`` for each key, with p10-p90."""
    heights = [mean(f"{key}/{measure}")(rows) for key in keys]
    spread = [
        [max(0.0, middle - quantile(f"{key}/{measure}", 0.1)(rows)) for key, middle in zip(keys, heights, strict=True)],
        [max(0.0, quantile(f"{key}/{measure}", 0.9)(rows) - middle) for key, middle in zip(keys, heights, strict=True)],
    ]
    axes.bar(labels or keys, heights, yerr=spread)
    axes.axhline(0, color="black", linewidth=0.5)
    axes.tick_params(axis="x", rotation=30)
    axes.set_ylabel("change (%)")

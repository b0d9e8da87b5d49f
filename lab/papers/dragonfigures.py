"""Draw DRAGON's figures from our rows; the caller passes a matplotlib Figure (the extra ``sim``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.papers.experiment import Row, mean

NAMES = {"kubeflow": "Kubeflow", "locality": "locality-aware", "dragon": "DRAGON"}
COLOURS = {"kubeflow": "tab:gray", "locality": "tab:blue", "dragon": "tab:orange"}
PARTS = {"run": "running", "wait": "waiting", "scaling": "scaling"}
SLICE_MINUTES = 5
# At workload intensity 1, this is the mean number of seconds between arrivals. It is inferred, because the paper does
# not state it.
REFERENCE_GAP = 250.0


def draw_table_1(rows: Sequence[Row], figure: Any) -> None:
    """Draw DRAGON's Figures 6, 7 and 8."""
    six, seven, eight = figure.subplots(3, 1)
    _draw_6(rows, six)
    _draw_7(rows, seven)
    _draw_8(rows, eight)


def _draw_6(rows: Sequence[Row], axes: Any) -> None:
    """Draw the running time of each job."""
    jobs = [key.rsplit("/", 1)[1] for key in rows[0] if key.startswith("run/dragon/")]
    for shift, (name, label) in zip((-0.27, 0.0, 0.27), NAMES.items(), strict=True):
        heights = [mean(f"run/{name}/{job}")(rows) for job in jobs]
        places = [index + shift for index in range(len(jobs))]
        axes.bar(places, heights, 0.27, label=label, color=COLOURS[name])
    axes.set_xticks(range(len(jobs)), [str(index + 1) for index in range(len(jobs))])
    axes.set_xlabel("job")
    axes.set_ylabel("running (min)")
    axes.legend()


def _draw_7(rows: Sequence[Row], axes: Any) -> None:
    """Draw the mean waiting, running and scaling time, as shares of the elapsed time under Kubeflow."""
    whole, floor = mean("elapsed/kubeflow")(rows), dict.fromkeys(NAMES, 0.0)
    for part, label in PARTS.items():
        heights = {name: mean(f"{part}/{name}")(rows) / whole for name in NAMES}
        axes.bar(list(NAMES.values()), list(heights.values()), 0.5, bottom=list(floor.values()), label=label)
        floor = {name: floor[name] + heights[name] for name in NAMES}
    axes.set_ylabel("elapsed, normalised")
    axes.legend()


def _draw_8(rows: Sequence[Row], axes: Any) -> None:
    """Draw the share of GPUs held over time, as the mean over the seeds."""
    for name, label in NAMES.items():
        keys = sorted(key for key in rows[0] if key.startswith(f"use/{name}/"))
        minutes = [SLICE_MINUTES * (index + 0.5) for index in range(len(keys))]
        axes.plot(minutes, [mean(key)(rows) for key in keys], label=label, color=COLOURS[name])
    axes.set_xlabel("time (min)")
    axes.set_ylabel("GPUs held (%)")
    axes.legend()


def draw_hundred(rows: Sequence[Row], figure: Any) -> None:
    """Draw DRAGON's Figures 9 and 10: the reduction of elapsed, running and waiting time by workload intensity."""
    gaps = sorted((int(key.rsplit("-", 1)[1]) for key in rows[0] if key.startswith("elapsed/dragon-")), reverse=True)
    for axes, plain in zip(figure.subplots(1, 2), ("locality", "kubeflow"), strict=True):
        for measure, label in (("elapsed", "elapsed"), ("run", "running"), ("wait", "waiting")):
            pairs = [(mean(f"{measure}/dragon-{gap}")(rows), mean(f"{measure}/{plain}-{gap}")(rows)) for gap in gaps]
            cuts = [100 * (1 - ours / theirs) for ours, theirs in pairs]
            axes.plot([REFERENCE_GAP / gap for gap in gaps], cuts, marker="o", label=label)
        axes.axhline(0, color="black", linewidth=0.5)
        axes.set_title(f"against {NAMES[plain]}")
        axes.set_xlabel("workload intensity")
        axes.set_ylabel("time reduction (%)")
        axes.legend()

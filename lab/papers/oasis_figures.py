"""Draw OASiS's figures from our rows; the caller passes a matplotlib Figure (the extra ``sim``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.papers.experiment import Row, mean, ratio

LOADS = (25, 50, 100, 200, 400)
SYSTEMS = ("oasis", "fifo", "fifo-backfill", "drf", "rrh", "dorm")


def draw_load(rows: Sequence[Row], figure: Any) -> None:
    """Draw OASiS's Figure 4 (left): total utility by number of jobs."""
    axes = figure.subplots()
    for name in SYSTEMS:
        loads = [jobs for jobs in LOADS if f"{name}_{jobs}" in rows[0]]
        axes.plot(loads, [mean(f"{name}_{jobs}")(rows) for jobs in loads], marker="o", label=name)
    axes.set_xlabel("jobs")
    axes.set_ylabel("total utility")
    axes.legend()


def draw_lateness(rows: Sequence[Row], figure: Any) -> None:
    """Draw OASiS's Figure 4 (right): completion less target, mean and standard deviation."""
    for axes, kind in zip(figure.subplots(1, 2, sharey=True), ("sensitive", "critical"), strict=True):
        means = [mean(f"{name}_{kind}_mean")(rows) for name in SYSTEMS]
        errors = [mean(f"{name}_{kind}_std")(rows) for name in SYSTEMS]
        axes.errorbar(range(len(SYSTEMS)), means, yerr=errors, fmt="o", capsize=4)
        axes.axhline(0.0, linewidth=0.5)
        axes.set_xticks(range(len(SYSTEMS)), SYSTEMS, rotation=45)
        axes.set_title(f"time-{kind} jobs")
    figure.supylabel("completion less target (slots)")


def draw_optimum(rows: Sequence[Row], figure: Any) -> None:
    """Draw OASiS's Figure 6: left, the optimum over OASiS by servers and utility range; right, wrong bounds U and L."""
    left, right = figure.subplots(1, 2)
    cases = [name.removeprefix("optimum_") for name in rows[0] if name.startswith("optimum_")]
    left.bar(cases, [ratio(f"optimum_{case}", f"oasis_{case}")(rows) for case in cases])
    left.tick_params(axis="x", rotation=45)
    left.set_ylabel("optimum / OASiS")
    wrong = [name.removeprefix("wrong_") for name in rows[0] if name.startswith("wrong_")]
    right.bar(wrong, [ratio(f"wrong_{case}", "oasis_3+3")(rows) for case in wrong])
    right.tick_params(axis="x", rotation=45)
    right.set_ylabel("utility / utility with the right bounds")

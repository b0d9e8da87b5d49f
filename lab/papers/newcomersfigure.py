"""Draw waiting and elapsed time of newcomers and long jobs; the caller passes a matplotlib Figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.papers.experiment import Row, mean

NAMES = {"ours": "the policy", "rigid": "without scale-in", "locality": "locality-only"}
GROUPS = {"newcomers, waiting": "wait/{}/new", "newcomers, elapsed": "elapsed/{}/new", "long jobs": "elapsed/{}/long"}


def draw_newcomers(rows: Sequence[Row], figure: Any) -> None:
    """Draw minutes (lower is better) in two panels, because the long jobs take hours."""
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    groups = list(GROUPS.items())
    for axes, shown in ((left, groups[:2]), (right, groups[2:])):
        for index, (name, label) in enumerate(NAMES.items()):
            heights = [mean(measure.format(name))(rows) for _, measure in shown]
            axes.bar([place + 0.27 * (index - 1) for place in range(len(shown))], heights, 0.27, label=label)
        axes.set_xticks(range(len(shown)), [title for title, _ in shown])
    left.set_ylabel("minutes")
    right.legend()

"""Draw DRS's bar charts from our rows; the caller passes a matplotlib Figure (the extra ``sim``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.papers.experiment import Row, mean

NAMES = {"kubeflow": "Kubeflow", "dragon": "DRAGON", "drs": "DRS"}


def draw_classes(rows: Sequence[Row], figure: Any) -> None:
    """Draw the mean elapsed time under each scheduler, of all jobs and of those of each utility; lower is better."""
    axes = figure.subplots()
    groups = {"all": "", "highest utility": "/top"}
    known = {name: label for name, label in NAMES.items() if f"elapsed/{name}" in rows[0]}
    for index, (name, label) in enumerate(known.items()):
        heights = [mean(f"elapsed/{name}{suffix}")(rows) for suffix in groups.values()]
        axes.bar([place + 0.27 * (index - 1) for place in range(len(groups))], heights, 0.27, label=label)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_ylabel("elapsed (min)")
    axes.legend()

"""Draw KOD2's figures from our rows; the caller passes a matplotlib Figure (the extra ``sim``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.papers.experiment import Row, mean, quantile

OURS, PLAIN = "KOD2", "default scheduler"


def draw_ten_jobs(rows: Sequence[Row], figure: Any) -> None:
    """Draw mean JCT by the baseline's patience with p10-p90, and the spread of its reduction over the seeds."""
    names = {"600": "D = 600 s", "1800": "D = 1800 s", "3600": "D = 3600 s"}
    left, right = figure.subplots(1, 2)
    left.bar([OURS], [mean("jct")(rows) / 60], yerr=_spread(rows, "jct", 60))
    for name, label in names.items():
        left.bar([label], [mean(f"jct_{name}")(rows) / 60], yerr=_spread(rows, f"jct_{name}", 60), color="tab:gray")
    left.set_ylabel("mean JCT (min)")
    right.boxplot([[row[f"reduction_{name}"] for row in rows] for name in names], tick_labels=list(names.values()))
    right.axhline(0, color="black", linewidth=0.5)
    right.set_ylabel("JCT reduction (%)")
    for axes in (left, right):
        axes.tick_params(axis="x", rotation=30)


def draw_figure_4(rows: Sequence[Row], figure: Any) -> None:
    """Draw training time by workers, relative to one worker."""
    axes = figure.subplots()
    for model in _names(rows, "time"):
        found = {
            int(key.rsplit("/", 1)[1]): value for key, value in rows[0].items() if key.startswith(f"time/{model}/")
        }
        axes.plot(list(found), list(found.values()), marker="o", label=model)
    axes.set_xlabel("workers")
    axes.set_ylabel("training time (one worker's = 1)")
    axes.legend()


def draw_figure_7(rows: Sequence[Row], figure: Any) -> None:
    """Draw one panel for each model: mean JCT by batch."""
    models = _names(rows, "jct")
    for axes, model in zip(figure.subplots(2, 2).flat, models, strict=True):
        batches = [key.rsplit("/", 1)[1] for key in rows[0] if key.startswith(f"jct/{model}/")]
        _pairs(axes, rows, "jct", [f"{model}/{batch}" for batch in batches], batches, 60)
        axes.set_title(model)
        axes.set_xlabel("batch size")
        axes.set_ylabel("mean JCT (min)")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2)


def draw_figure_8(rows: Sequence[Row], figure: Any) -> None:
    """Draw the CPU utilisation of each model."""
    axes = figure.subplots()
    cells = [key.removeprefix("cpu/") for key in rows[0] if key.startswith("cpu/")]
    _pairs(axes, rows, "cpu", cells, [cell.split("/")[0] for cell in cells], 0.01)
    axes.set_ylabel("mean CPU utilisation (%)")
    axes.legend()


def _names(rows: Sequence[Row], measure: str) -> list[str]:
    return list(dict.fromkeys(key.split("/")[1] for key in rows[0] if key.startswith(f"{measure}/")))


def _pairs(axes: Any, rows: Sequence[Row], measure: str, cells: list[str], labels: list[str], unit: float) -> None:
    """Draw two bars for each cell (pair of model and batch size), ours and the baseline's, with p10-p90."""
    for shift, prefix, label in ((-0.2, "", OURS), (0.2, "plain_", PLAIN)):
        keys = [f"{prefix}{measure}/{cell}" for cell in cells]
        heights = [mean(key)(rows) / unit for key in keys]
        spreads = [_spread(rows, key, unit) for key in keys]
        below, above = [low[0] for low, _ in spreads], [high[0] for _, high in spreads]
        axes.bar([x + shift for x in range(len(cells))], heights, 0.4, yerr=[below, above], label=label)
    axes.set_xticks(range(len(cells)), labels)


def _spread(rows: Sequence[Row], key: str, unit: float) -> list[list[float]]:
    """Return the two distances from the mean to p10 and p90 for matplotlib's error bars; not below 0."""
    middle = mean(key)(rows)
    return [[max(0.0, middle - quantile(key, 0.1)(rows)) / unit], [max(0.0, quantile(key, 0.9)(rows) - middle) / unit]]

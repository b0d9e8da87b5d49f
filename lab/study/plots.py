"""Draw the figures of a comparison (needs matplotlib, the extra ``sim``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.study.donerows import Row
from lab.study.policycomparison import ComparisonLine

SHOWN = ("mean_jct_seconds", "mean_waiting_seconds", "makespan_seconds", "utilisation")


def draw_comparison(lines: Sequence[ComparisonLine], figure: Any) -> None:
    """Draw a panel for each measure of SHOWN, with a bar for each policy and trace and its range from p10 to p90.

    The panel of utilisation shows, for each trace, the resource that any policy has used most.
    """
    policies = list(dict.fromkeys(line.policy for line in lines))
    traces = list(dict.fromkeys(line.trace for line in lines))
    width = 0.8 / len(policies)
    for axes, measure in zip(figure.subplots(2, 2).flat, SHOWN, strict=True):
        measured = dict.fromkeys(traces, measure)
        if measure == "utilisation":
            measured = {trace: _busiest([line for line in lines if line.trace == trace]) for trace in traces}
        for index, policy in enumerate(policies):
            found = {line.trace: line.spreads[measured[line.trace]] for line in lines if line.policy == policy}
            spreads = [found[trace] for trace in traces]
            means = [spread.mean for spread in spreads]
            below = [max(0.0, spread.mean - spread.p10) for spread in spreads]
            above = [max(0.0, spread.p90 - spread.mean) for spread in spreads]
            places = [x + (index - (len(policies) - 1) / 2) * width for x in range(len(traces))]
            axes.bar(
                places, means, width, yerr=[below, above], label=policy, color=f"C{index}", hatch="//" * (index > 9)
            )
        names = [trace + measured[trace].removeprefix(measure).replace("_", ": ", 1) for trace in traces]
        axes.set_xticks(range(len(traces)), names, rotation=15, fontsize="small")
        axes.set_ylabel(measure.replace("_", " "))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize="small")


def _busiest(lines: Sequence[ComparisonLine]) -> str:
    """Return the name of the utilisation measure (``utilisation_`` and a resource) that has the highest mean.

    ``lines``: the results of each policy on one trace; the highest mean of any of them counts.
    """
    names = {name for line in lines for name in line.spreads if name.startswith("utilisation_")}
    used = {name: max(line.spreads[name].mean for line in lines if name in line.spreads) for name in sorted(names)}
    return max(used, key=lambda name: used[name], default="utilisation")


def draw_completion(jobs: Sequence[Row], figure: Any) -> None:
    """Draw for each policy and trace which share of its jobs had finished after each time.

    Jobs that did not finish keep the share below 1.
    """
    axes = figure.subplots()
    for name in dict.fromkeys((job["policy"], job["trace"]) for job in jobs):
        mine = [job for job in jobs if (job["policy"], job["trace"]) == name]
        times = sorted(job["jct_seconds"] for job in mine if job["finished"])
        axes.step(
            times, [(index + 1) / len(mine) for index in range(len(times))], where="post", label=" on ".join(name)
        )
    axes.set_xlabel("completion time (s)")
    axes.set_ylabel("share of jobs")
    axes.set_ylim(0, 1.02)
    axes.legend()

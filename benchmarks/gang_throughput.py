"""How fast gangs are bound on the real control plane: the plain kube-scheduler against Kohort, in turn.

Two hundred gangs of one ps and four workers exist before the scheduler starts. Pods per second run from the first to
the last binding as a watch sees them; CPU seconds are those of each process in that time, per 1,000 pods. Both
schedulers look at all nodes and have the same client limits; each runs alone. Nodes have no kubelet.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from benchmarks import command, live
from benchmarks.report import Report, progress
from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort
from tests.controlplane.process import Process

LIMIT_SECONDS = 90.0
GANG = 5


@dataclass(slots=True)
class Run:
    """What one variant did in one round."""

    pods_per_second: float
    cpu: Mapping[str, float]  # seconds per 1,000 pods, by process
    spread: float  # median over the gangs, seconds
    unbound: int = 0  # pods that had no node after 90 s
    counts: dict[str, float] = field(default_factory=dict)  # per pod

    @property
    def total_cpu(self) -> float:
        """Of all processes."""
        return sum(self.cpu.values())


def measure(options: argparse.Namespace) -> Report:
    """Alternate; the ratios are of runs of the same round."""
    setup = {"nodes": options.nodes, "gangs": options.gangs, "pods a gang": GANG, "rounds": options.rounds,
             "window seconds": options.window}  # fmt: skip
    report = Report("gang_throughput", setup)
    progress(f"starting a control plane of {options.nodes} nodes")
    with live.bare_plane(options.nodes) as plane:
        plain, parts = live.plain_scheduler(plane), live.kohort(plane, live.window(options.window))
        plain.stop()
        live.pause(parts)
        for number in range(options.rounds + 1):
            order = ["plain", "kohort"] if number % 2 else ["kohort", "plain"]
            runs = {name: _run(plane, plain if name == "plain" else parts, options.gangs, number) for name in order}
            label = f"round {number} of {options.rounds}" if number else "warm-up"
            progress(f"{label}: {', '.join(f'{k} {r.pods_per_second:.0f} pods/s' for k, r in runs.items())}, "
                     f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
            if number:
                _note(report, runs)
    return report


def _run(plane: ControlPlane, who: Process | Kohort, gangs: int, number: int) -> Run:
    name = "kohort" if isinstance(who, Kohort) else "plain"
    live.open_gate(plane)
    pods = live.submit(plane, live.gangs(gangs, name, f"{name}{number}"))
    if isinstance(who, Kohort):
        live.resume(plane, who)
        begin: Callable[[], object] = who.scheduler.start
        processes = {"scheduler": who.scheduler, "extender": who.extender, "controller": who.controller}
    else:
        begin, processes = who.start, {"scheduler": who}
    processes |= {"apiserver": plane.processes["kube-apiserver"], "etcd": plane.processes["etcd"]}
    first: dict[str, float] = {}
    before = _counts(who) if isinstance(who, Kohort) else {}
    try:
        with live.Bindings(plane, on_first=lambda: first.update(live.cpu_seconds(processes))) as seen:
            begin()
            with suppress(TimeoutError):  # what was not bound is a figure
                live.wait(lambda: len(seen.at) == len(pods), f"{len(pods)} bound pods", LIMIT_SECONDS, 0.01)
            last = live.cpu_seconds(processes)
        seconds = max(seen.at.values()) - min(seen.at.values())
        cpu = {key: (last[key] - first[key]) * 1000 / len(pods) for key in processes}
        done = Run(len(seen.at) / seconds, cpu, statistics.median(seen.spreads()), len(pods) - len(seen.at))
        if isinstance(who, Kohort):
            after = _counts(who)
            done.counts = {key: (after[key] - before.get(key, 0)) / len(pods) for key in after}
        return done
    finally:
        who.stop()
        live.clear(plane)


def _counts(parts: Kohort) -> dict[str, float]:
    """Verb calls, refusals and the controller's writes so far."""
    calls = live.series(parts.health, "kohort_verb_requests_total")
    refusals = live.series(parts.health, "kohort_verb_refusals_total")
    writes = live.series(parts.controller_health, "kohort_controller_writes_total")
    return {f"{what} {labels}": value for what, found in (("calls", calls), ("refusals", refusals), ("writes", writes))
            for labels, value in found.items()}  # fmt: skip


def _note(report: Report, runs: Mapping[str, Run]) -> None:
    for name, run in runs.items():
        report.add(f"pods per second, {name}", run.pods_per_second, "pods/s")
        report.add(f"gang spread p50, {name}", 1000 * run.spread, "ms")
        report.add(f"pods not bound in {LIMIT_SECONDS:g} s, {name}", run.unbound, "pods")
        report.add(f"CPU per 1,000 pods, {name}", run.total_cpu, "s")
        for process, seconds in run.cpu.items():
            report.add(f"CPU per 1,000 pods, {name}: {process}", seconds, "s")
    ours, plain = runs["kohort"], runs["plain"]
    for what, count in ours.counts.items():
        report.add(f"{what} per pod", count, "calls")
    report.ratio("pods_per_second/plain", ours.pods_per_second, plain.pods_per_second)
    report.ratio("cpu_seconds/plain", ours.total_cpu, plain.total_cpu)
    report.ratio("gang_spread/plain", ours.spread, plain.spread)


def main() -> None:
    """The command."""
    made = command.parser("gang_throughput", __doc__, (500,), 5, several=False)
    made.add_argument("--gangs", type=command.positive, default=200, help="gangs of five pods")
    made.add_argument("--window", type=command.positive, default=8, help="barrier.window_seconds; 8 is as shipped")
    command.run(made, measure)


if __name__ == "__main__":
    main()

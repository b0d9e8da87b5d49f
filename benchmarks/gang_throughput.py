"""Measure how fast gangs are bound on the real control plane: plain kube-scheduler, its own gangs, and Kohort.

Two hundred gangs of one ps and four workers exist before the scheduler starts. Pods per second count from the first to
the last binding as a watch sees them; CPU seconds are those of each process in that time, per 1,000 pods. All
schedulers look at all nodes, all clients have the same limits, and each scheduler runs alone. Nodes have no kubelet.
``native`` is kube-scheduler with the feature GenericWorkload and one PodGroup per gang. ``kohort`` is Kohort as it is
shipped, with ``barrier.commit: first``, and ``kohort-all`` with ``all``; ``--commit first all`` measures both in the
same rounds.

Above 500 nodes Kohort nominates its planned nodes. Here this happens before its kube-scheduler starts, and the time and
the CPU from the first nomination to the last are added to those of the bindings.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from benchmarks import command, live
from benchmarks.report import BenchmarkReport, progress
from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort
from tests.controlplane.process import Process

LIMIT_SECONDS = 90.0
GANG = 5
NOMINATES_ABOVE = 500  # Kohort nominates planned nodes in clusters of more nodes than this, by the shipped setting.
RIVALS = ("plain", "native")
VARIANTS = {"first": "kohort", "all": "kohort-all"}  # the variant of Kohort by the setting barrier.commit
LATER_SECONDS = 1.0  # after the last binding, when the pods' conditions are read
Cpu = Mapping[str, float]  # CPU seconds by the name of the process


@dataclass(slots=True)
class ThroughputRun:
    """What was measured of one scheduler (plain kube-scheduler, its own gangs, or Kohort) in one round."""

    pods_per_second: float
    cpu: Cpu  # cpu has the CPU seconds of each process, for each 1,000 pods.
    spread: float  # spread is the median, over the gangs, of the seconds from a gang's first to its last binding.
    unbound: int = 0  # unbound is the number of pods that had no node after 90 s.
    # misreported is the number of bound pods with PodScheduled=False one second after the last binding.
    misreported: int = 0
    # nominating is the seconds in which planned nodes were nominated; they count in the pods per second.
    nominating: float = 0.0
    # counts has the number of verb calls, refusals and writes by name, for each pod.
    counts: dict[str, float] = field(default_factory=dict)

    @property
    def total_cpu(self) -> float:
        """Return the CPU seconds of all processes."""
        return sum(self.cpu.values())


@dataclass(slots=True)
class Bench:
    """The control plane and all schedulers that are compared on it, of which one runs at a time."""

    plane: ControlPlane
    kohorts: Mapping[str, Kohort]
    rivals: Mapping[str, Process]
    nominates: bool

    def run(self, name: str, gangs: int, number: int) -> ThroughputRun:
        """Let the scheduler ``name`` bind this number of gangs on the empty cluster, empty the cluster again, and
        return what was measured.

        ``number``: the number of the round, which makes the gangs' names unique.
        """
        live.open_gate(self.plane)
        parts = self.kohorts.get(name)
        made = live.gangs(gangs, name if parts is None else "kohort", f"{name}{number}")
        pods = len(live.submit(self.plane, made, grouped=name == "native"))
        try:
            run = self._rival(self.rivals[name], pods) if parts is None else self._kohort(parts, pods)
            time.sleep(LATER_SECONDS)
            run.misreported = live.misreported(self.plane)
            return run
        finally:
            (self.rivals[name] if parts is None else parts).stop()
            live.clear(self.plane)

    def _rival(self, scheduler: Process, pods: int) -> ThroughputRun:
        seen, cpu = self._phase(live.is_bound, pods, {"scheduler": scheduler}, scheduler.start)
        return _result(seen, cpu, pods)

    def _kohort(self, parts: Kohort, pods: int) -> ThroughputRun:
        processes = {"scheduler": parts.scheduler, "extender": parts.extender, "controller": parts.controller}
        before: Cpu = {}
        nominating = 0.0
        if self.nominates:
            nominated, before = self._phase(live.is_nominated, pods, processes, lambda: live.resume(self.plane, parts))
            nominating = nominated.seconds
        else:
            live.resume(self.plane, parts)
        counts = _counts(parts)
        seen, cpu = self._phase(live.is_bound, pods, processes, parts.scheduler.start)
        run = _result(seen, {name: cpu[name] + before.get(name, 0.0) for name in cpu}, pods, nominating)
        after = _counts(parts)
        run.counts = {key: (after[key] - counts.get(key, 0)) / pods for key in after}
        return run

    def _phase(
        self, look: live.Look, pods: int, processes: Mapping[str, Process], begin: Callable[[], object]
    ) -> tuple[live.Seen, Cpu]:
        """Call ``begin``, which starts something, and wait until ``look`` is true for every pod.

        Return the time at which ``look`` became true for each pod, and the CPU seconds of each process between the
        first and the last of these times.
        """
        served_by = {"apiserver": self.plane.processes["kube-apiserver"], "etcd": self.plane.processes["etcd"]}
        measured = {**processes, **served_by}
        first: dict[str, float] = {}
        with live.Seen(self.plane, on_first=lambda: first.update(live.cpu_seconds(measured)), look=look) as seen:
            begin()
            # If pods are still missing after the time limit, the report counts them as a figure.
            with suppress(TimeoutError):
                live.wait(lambda: len(seen.at) == pods, f"{pods} pods", LIMIT_SECONDS, 0.01)
            last = live.cpu_seconds(measured)
        return seen, {name: last[name] - first.get(name, 0.0) for name in last}


def _result(seen: live.Seen, cpu: Cpu, pods: int, nominating: float = 0.0) -> ThroughputRun:
    per_thousand = {name: seconds * 1000 / pods for name, seconds in cpu.items()}
    rate = len(seen.at) / (seen.seconds + nominating)
    spread = statistics.median(seen.spreads())
    return ThroughputRun(rate, per_thousand, spread, pods - len(seen.at), nominating=nominating)


def _counts(parts: Kohort) -> dict[str, float]:
    """Return how often Kohort's verbs were called and refused, and how many writes its controller made, since the
    start, by name.
    """
    calls = live.calls(parts.health)
    refusals = live.series(parts.health, "kohort_verb_refusals_total")
    writes = live.series(parts.controller_health, "kohort_controller_writes_total")
    return {f"{what} {labels}": value for what, found in (("calls", calls), ("refusals", refusals), ("writes", writes))
            for labels, value in found.items()}  # fmt: skip


def measure(options: argparse.Namespace) -> BenchmarkReport:
    """Measure every scheduler once in each round and return the report; each ratio compares two schedulers in the same
    round.
    """
    setup = {"nodes": options.nodes, "gangs": options.gangs, "pods a gang": GANG, "rounds": options.rounds,
             "window seconds": options.window, "against": " ".join(options.against),
             "commit": " ".join(options.commit)}  # fmt: skip
    report = BenchmarkReport("gang_throughput", setup)
    names = [*options.against, *(VARIANTS[commit] for commit in options.commit)]
    progress(f"starting a control plane of {options.nodes} nodes")
    with live.bare_plane(options.nodes, pod_groups="native" in names) as plane:
        bench = _bench(plane, options)
        for number in range(options.rounds + 1):
            runs = {name: bench.run(name, options.gangs, number) for name in _turned(names, number)}
            label = f"round {number} of {options.rounds}" if number else "warm-up"
            progress(f"{label}: {', '.join(f'{k} {r.pods_per_second:.0f} pods/s' for k, r in runs.items())}, "
                     f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
            if number:
                _note(report, runs, options.nodes)
    return report


def _bench(plane: ControlPlane, options: argparse.Namespace) -> Bench:
    """Start each kube-scheduler to compare with and Kohort once, stop them again, and return them as a Bench."""
    rivals = {name: live.plain_scheduler(plane, name) for name in options.against}
    kohorts = {}
    for commit in options.commit:
        live.forget_lease(plane)
        kohorts[VARIANTS[commit]] = parts = live.kohort(plane, _settings(options.window, commit), VARIANTS[commit])
        live.pause(parts)
    for rival in rivals.values():
        rival.stop()
    return Bench(plane, kohorts, rivals, options.nodes > NOMINATES_ABOVE)


def _settings(window: int, commit: str) -> live.Json:
    """Return Kohort's settings for a barrier window of so many seconds, and for a value of barrier.commit."""
    made = live.window(window)
    made["barrier"]["commit"] = commit
    return made | {"controller": {"patches_per_second": live.CLIENT["clientConnection"]["qps"]}}


def _turned(names: Sequence[str], number: int) -> Sequence[str]:
    """Return the schedulers' names rotated by the round's number, so that each round begins with another scheduler."""
    first = number % len(names)
    return [*names[first:], *names[:first]]


def _note(report: BenchmarkReport, runs: Mapping[str, ThroughputRun], nodes: int) -> None:
    for name, run in runs.items():
        report.add(f"pods per second, {name}", run.pods_per_second, "pods/s")
        report.add(f"gang spread p50, {name}", 1000 * run.spread, "ms")
        report.add(f"pods not bound in {LIMIT_SECONDS:g} s, {name}", run.unbound, "pods")
        report.add(f"pods with PodScheduled=False after {LATER_SECONDS:g} s, {name}", run.misreported, "pods")
        report.add(f"CPU per 1,000 pods, {name}", run.total_cpu, "s")
        for process, seconds in run.cpu.items():
            report.add(f"CPU per 1,000 pods, {name}: {process}", seconds, "s")
    for ours in VARIANTS.values():
        if ours in runs:
            _compare(report, ours, runs, nodes)


def _compare(report: BenchmarkReport, ours: str, runs: Mapping[str, ThroughputRun], nodes: int) -> None:
    """Add the ratios of the variant ``ours`` of Kohort to every scheduler that is not Kohort, and of first to all.

    The names of figures and ratios of ``kohort-all`` say so; those of ``kohort`` name no variant.
    """
    run, which = runs[ours], "" if ours == "kohort" else f", {ours}"
    if run.nominating:
        report.add(f"time to nominate all, {ours}", run.nominating, "s")
    for what, count in run.counts.items():
        report.add(f"{what} per pod{which}", count, "calls")
    for name, rival in runs.items():
        if name not in VARIANTS.values() or (ours, name) == ("kohort", "kohort-all"):
            # Each ratio is also recorded under a name with the number of nodes, because its bound may depend on the
            # size of the cluster.
            for size in ("", f", {nodes} nodes"):
                report.ratio(f"pods_per_second{which}/{name}{size}", run.pods_per_second, rival.pods_per_second)
                report.ratio(f"cpu_seconds{which}/{name}{size}", run.total_cpu, rival.total_cpu)
            report.ratio(f"gang_spread{which}/{name}", run.spread, rival.spread)


def main() -> None:
    made = command.parser("gang_throughput", __doc__, (500,), 5, several=False)
    made.add_argument("--gangs", type=command.positive, default=200, help="gangs of five pods")
    made.add_argument("--window", type=command.positive, default=8, help="barrier.window_seconds; 8 is as shipped")
    made.add_argument("--against", nargs="+", choices=RIVALS, default=RIVALS, help="what Kohort is compared with")
    made.add_argument("--commit", nargs="+", choices=VARIANTS, default=["first"], help="values of barrier.commit")
    command.run(made, measure)


if __name__ == "__main__":
    main()

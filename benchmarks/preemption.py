"""Measure how soon a pod of the default scheduler is bound that preempts members of jobs on a full cluster.

A job of one-core members fills three nodes of 12 cores. Then a pod with a PriorityClass preempts some of them: 3 cores
or 10 cores, from an elastic job or a rigid one. The time runs from the preemptor's creation to its binding, as a watch
sees it; the times until the first victim is marked and the last one is gone show kube-scheduler's and the kubelet's
share. Each preemption also checks that no node is over-committed, that no pod is preempted twice, and that the job
reports by whom it was preempted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path

from benchmarks import command
from benchmarks.report import BenchmarkReport, progress
from tests.e2e.gangs import own_namespace
from tests.e2e.preempting import KINDS, NODES, in_words, one_preemption, preempted_kohort, preemption_plane


def measure(options: argparse.Namespace) -> BenchmarkReport:
    """Measure each kind of preemption, several times one after another, in each round."""
    setup = {"nodes": NODES, "rounds": options.rounds, "preemptions of each kind": options.preemptions}
    report = BenchmarkReport("preemption", setup)
    with tempfile.TemporaryDirectory() as workdir, preemption_plane(Path(workdir)) as plane, preempted_kohort(plane):
        for number in range(options.rounds):
            for kind, (cpu, elastic) in KINDS.items():
                courses = []
                for turn in range(options.preemptions):
                    with own_namespace(plane, f"bench-{number}-{cpu}-{elastic}-{turn}") as space:
                        courses.append(one_preemption(plane, space, cpu, elastic=elastic))
                seconds = [course.seconds for course in courses]
                report.add(f"creation to binding, {kind}, median", statistics.median(seconds), "s")
                report.add(f"creation to binding, {kind}, slowest", max(seconds), "s")
                report.add(f"first victim marked, {kind}, slowest", max(one.marked for one in courses), "s")
                report.add(f"last victim gone, {kind}, slowest", max(one.emptied for one in courses), "s")
                progress(
                    f"round {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}: {in_words(kind, courses)}"
                )
    return report


def main() -> None:
    made = command.parser("preemption", __doc__, (), 1, several=False)
    made.add_argument("--preemptions", type=command.positive, default=5, help="preemptions of each kind in a round")
    command.run(made, measure)


if __name__ == "__main__":
    main()

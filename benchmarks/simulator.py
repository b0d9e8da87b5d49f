"""Measure the job-level simulator: jobs per CPU second, and what one step costs as the cluster grows.

The trace is generated: nodes have 8 GPUs, 64 cores and 512 GiB. A job has a worker for each GPU with 4 cores and 32
GiB; most jobs have one worker, and half to double of the workers asked for are allowed. Poisson arrivals give a mean
load of 0.9. With ``--philly FILE`` a CSV with the columns timestamp, duration and num_gpus is run instead, on the given
number of nodes; ``--first N`` runs its first N jobs at the whole trace's load.
"""

from __future__ import annotations

import argparse
import csv
import gc
import random
import resource
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from benchmarks import command
from benchmarks.report import BenchmarkReport, progress
from lab.sim.fluid.fluidrun import simulate
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.objects import JobSpec
from lab.sim.simulatedstep import SimulatedStep
from lab.sim.traces import Trace, node, pod_requests
from lab.sim.traces.philly import philly
from lab.sim.traces.reading import numbered
from policy.cluster.events import JobSeen
from policy.cluster.job import WORKER, Role
from policy.systems import make_policy

TICKS = {"kod2": 10.0, "dragon": 15.0}  # Seconds between two ticks, as in these policies' experiments.
LOAD = 0.9
GPUS = 8
SIZES = {1: 0.85, 2: 0.05, 4: 0.05, 8: 0.04, 16: 0.01}
CONTENTION = 0.1
PRINT_SECONDS = 30.0


def measure(options: argparse.Namespace) -> BenchmarkReport:
    """Simulate the trace under every policy on every number of nodes, once per round, and return the report."""
    setup = {"nodes": options.nodes, "jobs": options.jobs, "per node": options.per_node, "rounds": options.rounds}
    report = BenchmarkReport("simulator", setup | {"trace": options.philly.name if options.philly else "generated"})
    for _ in range(options.rounds):
        for nodes in options.nodes:
            trace = _trace(options, nodes)
            for name in options.policies:
                _run(report, name, nodes, trace, "philly, " if options.philly else "")
        for name in options.policies:
            _compare(report, name, options.nodes)
    return report


def _compare(report: BenchmarkReport, name: str, nodes: Sequence[int]) -> None:
    """Record how a step's cost grows with the cluster: for each two neighbouring numbers of nodes, the factor by which
    the cost grows, divided by the factor by which the nodes grow.

    A ratio above 1 means that the cost grows faster than the number of nodes.
    """
    steps = {
        count: figure.rounds[-1] for count in nodes if (figure := report.figures.get(f"step, {name}, {count} nodes"))
    }
    for few, many in pairwise(sorted(steps)):
        report.ratio(f"growth of a step/of the nodes, {name}, {few} to {many}", steps[many] / steps[few], many / few)


def _trace(options: argparse.Namespace, nodes: int) -> Trace:
    if options.philly is None:
        return generated(nodes, options.jobs or options.per_node * nodes)
    with options.philly.open() as file:
        trace = philly(numbered(csv.DictReader(file), options.philly.name), nodes=nodes, load=LOAD)
    return replace(trace, jobs=trace.jobs[: options.first])


def generated(nodes: int, jobs: int, seed: int = 1) -> Trace:
    """Return a trace of random jobs, made from the seed, that loads this number of nodes with the mean load `LOAD`."""
    draw = random.Random(seed)
    sizes = draw.choices(list(SIZES), list(SIZES.values()), k=jobs)
    work = [draw.lognormvariate(7.0, 1.0) * size for size in sizes]
    span = sum(work) / (LOAD * nodes * GPUS)
    arrivals = sorted(draw.uniform(0.0, span) for _ in range(jobs))
    cluster = tuple(node(f"node-{index:05d}", 64, 512, GPUS) for index in range(nodes))
    rows = zip(arrivals, sizes, work, strict=True)
    return Trace(cluster, tuple(_job(f"job-{index:06d}", *row) for index, row in enumerate(rows)))


def _job(name: str, arrival: float, size: int, work: float) -> JobSpec:
    worker = Role(WORKER, size, pod_requests(4, 32, 1))
    return JobSpec(name, (worker,), max(1, size // 2), 2 * size, work, arrival=arrival, contention=CONTENTION)


def _run(report: BenchmarkReport, name: str, nodes: int, trace: Trace, source: str) -> None:
    steps, printed_at, arrived = 0, time.monotonic(), 0

    def count(step: SimulatedStep) -> None:
        nonlocal steps, printed_at, arrived
        steps += 1
        arrived += sum(1 for event in step.events if isinstance(event, JobSeen) and event.job.version == 1)
        if time.monotonic() - printed_at > PRINT_SECONDS:
            printed_at = time.monotonic()
            progress(f"{name}: {arrived} of {len(trace.jobs)} jobs have come, {time.process_time() - began:.0f} CPU s")

    progress(f"{name}: {len(trace.jobs)} jobs on {nodes} nodes")
    gc.collect()
    # The garbage collector ignores the trace from now on. Otherwise its repeated scans of the trace would be measured
    # too.
    gc.freeze()
    began = time.process_time()
    settings = FluidSettings(tick_seconds=TICKS[name])
    result = simulate(trace, make_policy(name), settings, on_step=count)
    seconds = time.process_time() - began
    where = f"{source}{name}, {nodes} nodes"
    report.add(f"jobs per CPU second, {where}", len(trace.jobs) / seconds, "1/s")
    report.add(f"CPU, {where}", seconds, "s")
    report.add(f"step, {where}", 1000 * seconds / steps, "ms")
    report.add(f"steps per job, {where}", steps / len(trace.jobs), "")
    report.add(f"jobs finished, {where}", result.finished / len(trace.jobs), "")
    report.add(f"GPUs held, {where}", result.use["nvidia.com/gpu"].held, "")
    report.add("memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB")


def main() -> None:
    made = command.parser("simulator", __doc__, (100, 1000, 5000), 1)
    made.add_argument("--jobs", type=command.positive, help="jobs of the generated trace (default: by --per-node)")
    made.add_argument("--per-node", type=command.positive, default=20, help="jobs for each node")
    made.add_argument("--policies", nargs="+", choices=sorted(TICKS), default=sorted(TICKS), help="which systems")
    made.add_argument("--philly", type=Path, metavar="FILE", help="run this CSV of the Philly trace instead")
    made.add_argument("--first", type=command.positive, metavar="N", help="with --philly: only its first N jobs")
    command.run(made, measure)


if __name__ == "__main__":
    main()

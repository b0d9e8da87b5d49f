"""The traces and settings of DRAGON's experiments (DRAGON, section 4), which DRS's experiments use too."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from lab.sim.fluid.fluidrun import simulate
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.fluid.link import SharedLinks
from lab.sim.objects import JobSpec
from lab.sim.report import RunResult
from lab.sim.simulatedstep import SimulatedStep
from lab.sim.traces.trace import Trace, node, pod_requests
from policy.cluster.job import PS, WORKER, Role
from policy.cluster.node import Node
from policy.systems.base import Policy

# The columns are model, workers, minimum, steps, and arrival in minutes (the paper prints seconds). All have maximum 4.
TABLE_1 = (
    ("ResNet-50", 4, 2, 2800, 0.0),
    ("InceptionV3", 4, 2, 3600, 0.56),
    ("InceptionV3", 2, 2, 1000, 2.53),
    ("AlexNet", 2, 2, 450, 6.34),
    ("ResNet-50", 3, 2, 2100, 7.58),
    ("AlexNet", 2, 2, 1000, 13.11),
    ("InceptionV3", 2, 2, 2000, 19.01),
    ("ResNet-50", 1, 1, 2400, 27.54),
    ("InceptionV3", 2, 2, 2500, 34.56),
    ("AlexNet", 2, 2, 800, 42.58),
    ("InceptionV3", 1, 1, 1000, 47.58),
    ("AlexNet", 1, 1, 1200, 51.19),
)
MAXIMUM = 4
GPU = "nvidia.com/gpu"
# Seconds for which a job stops when its workers change; DRAGON, section 4.2, says about 40 s to 1 min.
RESTART_SECONDS = 50.0
TICK_SECONDS = 15.0
SPEEDS = SharedLinks()
# The paper's pods ask for GPUs only. kube-scheduler counts 100 millicores and 200 MB for a pod without such requests.
SERVER = Role(PS, 1, pod_requests(0.1, 0.2))
ONE_WORKER = Role(WORKER, 1, pod_requests(0.1, 0.2, 1))
HUNDRED, MEAN_SECONDS = 100, 1600.0
SLICE = 300.0  # DRAGON's Figure 8 shows one value of GPU use for each slice of this many seconds.
SLICES = 48


def settings(restart: float = RESTART_SECONDS, volume: float = 1.0) -> FluidSettings:
    """Return the simulator settings that all runs share.

    ``restart`` is the seconds that a change of workers costs, ``volume`` a factor on the traffic.
    """
    return FluidSettings(
        speeds=replace(SPEEDS, volume=volume), grow_seconds=restart, shrink_seconds=restart,
        tick_seconds=TICK_SECONDS, report_seconds=30.0,
    )  # fmt: skip


SETTINGS = settings()


def job(name: str, model: str, bounds: tuple[int, int, int], steps: int, arrival: float) -> JobSpec:
    """Return a job of that model with one ps.

    ``bounds`` has the minimum, asked and maximum number of workers; ``arrival`` is in seconds.
    """
    least, asked, most = bounds
    return JobSpec(
        name, (SERVER, replace(ONE_WORKER, replicas=asked)), least, most, SPEEDS.work_seconds(model, steps), arrival,
        model=model,
    )  # fmt: skip


def table_1() -> Trace:
    """Return the twelve jobs of DRAGON's Table 1 on two nodes of 4 GPUs, 16 cores and 64 GB."""
    jobs = (
        job(f"job-{number:02d}", model, (least, asked, MAXIMUM), steps, minutes * 60.0)
        for number, (model, asked, least, steps, minutes) in enumerate(TABLE_1, 1)
    )
    return Trace(tuple(node(f"node-{index}", 16, 64, 4) for index in range(2)), tuple(jobs))


def steps_in(model: str, seconds: float, workers: int) -> int:
    """Return the steps of a job that takes ``seconds`` seconds with ``workers`` workers, all beside their ps."""
    return round(seconds * SPEEDS.models[model].throughput(workers) / SPEEDS.batch)


def four_nodes() -> tuple[Node, ...]:
    """Return four nodes of 8 GPUs each."""
    return tuple(node(f"node-{index}", 32, 128, 8) for index in range(4))


def hundred_jobs(seed: int, gap: float) -> Trace:
    """Return a hundred jobs with Poisson arrivals, one every ``gap`` seconds on average (DRAGON, section 4.3).

    They run on 4 nodes of 8 GPUs. Minimum, asked and maximum are three sorted draws from 2 to 8. Each job has 0.5 to
    1.5 times 1600 s of work at the workers that it asks for, all beside their ps. The paper says neither how long the
    jobs are nor how they differ.
    """
    draw, jobs, at = random.Random(seed), list[JobSpec](), 0.0
    for number in range(HUNDRED):
        at += draw.expovariate(1.0 / gap)
        least, asked, most = sorted(draw.randint(2, 8) for _ in range(3))
        model = draw.choice(sorted(SPEEDS.models))
        seconds = draw.uniform(0.5, 1.5) * MEAN_SECONDS
        bounds = (least, asked, most)
        jobs.append(job(f"job-{number:03d}", model, bounds, steps_in(model, seconds, asked), round(at, 3)))
    return Trace(four_nodes(), tuple(jobs))


def rigid_jobs(count: int, workers: int) -> Trace:
    """Return ``count`` equal rigid jobs that arrive at once on 8 GPUs; if pods are placed one by one, they may
    deadlock.
    """
    jobs = tuple(job(f"job-{number}", "ResNet-50", (workers, workers, workers), 500, 0.0) for number in range(count))
    return Trace(tuple(node(f"node-{index}", 16, 64, 4) for index in range(2)), jobs)


class Busy:
    """Measures which share of the GPUs jobs hold, for each slice of time; pass it as ``on_step`` of a run."""

    def __init__(self, trace: Trace) -> None:
        self._gpus = sum(node.allocatable[GPU] for node in trace.nodes)
        self._start = self._since = math.nan
        self._held = 0
        self.sums = [0.0] * SLICES

    def __call__(self, step: SimulatedStep) -> None:
        """Add the time up to this step, and note how many GPUs are held after it."""
        if math.isnan(self._start):
            self._start = self._since = step.at
        self._run_to(step.at)
        self._held = sum(charged[GPU] for charged in step.snapshot.charged.values())

    def _run_to(self, now: float) -> None:
        while self._since < now:
            index = int((self._since - self._start) // SLICE)
            until = min(now, self._start + (index + 1) * SLICE)
            if index < SLICES:
                self.sums[index] += self._held * (until - self._since)
            self._since = until

    def shares(self) -> list[float]:
        """Return the share of the GPUs held in each slice."""
        return [held / (self._gpus * SLICE) for held in self.sums]


def run(trace: Trace, policy: Policy, how: FluidSettings = SETTINGS) -> RunResult:
    """Run the trace in the job-level simulator."""
    return simulate(trace, policy, how)


def row_of(name: str, trace: Trace, policy: Policy, how: FluidSettings = SETTINGS) -> dict[str, float]:
    """Run the policy, and return its measures by the key measure/name, such as elapsed/dragon.

    Times are in minutes. ``run`` and ``elapsed`` also have a key measure/name/job for each job, and use/name/slice is
    the GPU use in each slice of the run (`SLICE`), in percent.
    """
    busy = Busy(trace)
    result = simulate(trace, policy, how, on_step=busy)
    row = {
        f"elapsed/{name}": result.mean_jct_seconds / 60,
        f"run/{name}": result.mean_running_seconds / 60,
        f"wait/{name}": result.mean_waiting_seconds / 60,
        f"scaling/{name}": result.mean_scaling_seconds / 60,
        f"makespan/{name}": result.makespan_seconds / 60,
        f"use/{name}": 100 * result.use[GPU].held,
        f"at once/{name}": float(sum(1 for one in result.jobs if one.waiting_seconds <= TICK_SECONDS)),
        f"finished/{name}": float(result.finished),
    }
    row |= {f"run/{name}/{one.name}": (one.running_seconds or 0.0) / 60 for one in result.jobs}
    row |= {f"elapsed/{name}/{one.name}": one.jct_seconds / 60 for one in result.jobs}
    return row | {f"use/{name}/{index:02d}": 100 * share for index, share in enumerate(busy.shares())}

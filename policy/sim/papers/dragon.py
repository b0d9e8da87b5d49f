"""DRAGON's experiments (section 4): Table 1 on two nodes, a hundred jobs on four, and traces that deadlock."""

from __future__ import annotations

from dataclasses import replace

from policy.cluster.model import PS, WORKER, Role
from policy.sim.fluid.link import SharedLinks
from policy.sim.fluid.settings import FluidSettings
from policy.sim.objects import JobSpec
from policy.sim.traces.base import Trace, node, pod_requests

# model, workers, minimum, steps, arrival in minutes (printed as seconds); the maximum is 4 for all
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
RESTART_SECONDS = 50.0  # section 4.2: about 40 s to 1 min
SPEEDS = SharedLinks()
SETTINGS = FluidSettings(
    speeds=SPEEDS, grow_seconds=RESTART_SECONDS, shrink_seconds=RESTART_SECONDS, tick_seconds=15.0, report_seconds=30.0
)
# Pods that ask for GPUs only: kube-scheduler counts 100 millicores and 200 MB for what a pod does not ask for.
ROLES = (Role(PS, 1, pod_requests(0.1, 0.2)), Role(WORKER, 1, pod_requests(0.1, 0.2, 1)))


def job(name: str, model: str, bounds: tuple[int, int, int], steps: int, arrival: float) -> JobSpec:
    """A job of that model with one ps. ``bounds``: minimum, asked, maximum of workers; ``arrival`` in seconds."""
    least, asked, most = bounds
    server, worker = ROLES
    return JobSpec(
        name, (server, replace(worker, replicas=asked)), least, most, SPEEDS.work_seconds(model, steps), arrival,
        model=model,
    )  # fmt: skip


def table_1() -> Trace:
    """The twelve jobs on two nodes of 4 GPUs, 16 cores and 64 GB."""
    jobs = (
        job(f"job-{number:02d}", model, (least, asked, MAXIMUM), steps, minutes * 60.0)
        for number, (model, asked, least, steps, minutes) in enumerate(TABLE_1, 1)
    )
    return Trace(tuple(node(f"node-{index}", 16, 64, 4) for index in range(2)), tuple(jobs))

"""Draw the papers' experiments as traces from ``random.Random(seed)`` in a fixed order.

The same seed always gives the same trace.
"""

from __future__ import annotations

import random

from lab.sim.objects import JobSpec
from lab.sim.traces.trace import Trace, node, pod_requests
from policy.cluster.job import PS, WORKER, Role


def kod2(seed: int, *, contention: float = 0.1, jobs: int = 10, gap_seconds: float = 30.0) -> Trace:
    """Return KOD2's experiment (KOD2, section 5): ten TFJobs, one every 30 s, on three nodes.

    Each node has 10 cores, 32 GB and a GPU. The paper gives neither requests nor bounds nor steps. This project's
    calibration is: workers of 1-3 cores and 2, 4 or 6 GiB, minimum 1-2, maximum 4-6, 5-20 minutes of one worker's work,
    a ps of 1 core and 2 GiB, and ``contention`` (0.1 or 0.2). Each job asks for its maximum of workers.
    """
    draw = random.Random(seed)
    nodes = tuple(node(f"node-{index}", 10, 32, 1) for index in range(3))
    return Trace(nodes, tuple(_kod2_job(draw, index, index * gap_seconds, contention) for index in range(jobs)))


def _kod2_job(draw: random.Random, index: int, arrival: float, contention: float) -> JobSpec:
    worker = pod_requests(draw.choice((1, 2, 3)), draw.choice((2, 4, 6)))
    least, most = draw.choice((1, 2)), draw.choice((4, 5, 6))
    return JobSpec(
        name=f"job-{index}",
        roles=(Role(PS, 1, pod_requests(1, 2)), Role(WORKER, most, worker)),
        min_workers=least,
        max_workers=most,
        work_seconds=round(draw.uniform(300.0, 1200.0), 1),
        contention=contention,
        arrival=arrival,
    )

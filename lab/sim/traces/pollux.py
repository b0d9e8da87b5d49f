"""Workloads of Pollux and Sia (OSDI 2021, SOSP 2023): name, time (s), application, num_replicas, batch_size.

The rows say neither how long a job takes nor what a replica needs. Our calibration: one GPU's hours are within Pollux's
size classes (small below 1, medium below 10, large below 100, extra large below 1,000) and ``contention`` follows from
the speed-up at 4 GPUs of one node in the authors' published step times; nodes of 4 GPUs, 48 cores and 192 GiB, a
replica with a GPU, 8 cores and 32 GiB, no ps (they train by all-reduce), half to double the replicas asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lab.sim.objects import JobSpec
from lab.sim.traces.base import GPU, Trace, node, pod_requests
from lab.sim.traces.checks import checked
from lab.sim.traces.reading import Line, Table, TraceError, read
from lab.sim.traces.scale import elastic, to_load
from policy.cluster.model import WORKER, Role

NODES = 16


@dataclass(frozen=True, slots=True)
class Application:
    """One GPU's hours for the whole job, and ``a`` of the saturating speed model."""

    hours: float
    contention: float


APPLICATIONS: Mapping[str, Application] = {
    "cifar10": Application(0.95, 0.041),  # 100 epochs of 50,000 images at 1,461 a second
    "ncf": Application(0.3, 0.78),
    "bert": Application(3.8, 0.013),  # 2 epochs of 88,641 examples at 13 a second
    "deepspeech2": Application(6.0, 0.011),
    "yolov3": Application(16.0, 0.11),
    "imagenet": Application(148.0, 0.029),  # 90 epochs of 1.28 million images at 217 a second
}


def pollux(
    table: Table, *, nodes: int = NODES, load: float | None = None, models: Collection[str] | None = None
) -> Trace:
    """The jobs on so many nodes of 4 GPUs; load: as in Philly; models: as in Kohort's own format. Raises TraceError."""
    known = {name: one for name, one in APPLICATIONS.items() if models is None or name in models}
    if not known:
        raise TraceError([f"application: none of {', '.join(APPLICATIONS)} has a speed; allowed: speeds that know one"])
    jobs = read(table, lambda line: (line.where, _job(line, known)))
    cluster = [node(f"node-{index:02d}", 48, 192, 4) for index in range(nodes)]
    return to_load(checked(cluster, jobs), load, GPU)


def _job(line: Line, known: Mapping[str, Application]) -> JobSpec:
    model = line.text("application")
    application = line.choice("application", known)
    batch, workers = line.count("batch_size", least=1), line.count("num_replicas", least=1)
    least, most = elastic(workers)
    return JobSpec(
        name=line.text("name"),
        roles=(Role(WORKER, workers, pod_requests(8, 32, 1)),),
        min_workers=least,
        max_workers=most,
        work_seconds=application.hours * 3600.0,
        contention=application.contention,
        arrival=line.number("time"),
        model=model,
        local_batch=batch / workers,  # the authors' systems tune it; here it stays, whatever the workers
    )

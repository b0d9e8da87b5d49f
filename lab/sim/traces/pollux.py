"""Read workloads of Pollux (OSDI 2021) and Sia (SOSP 2023).

The columns are name, time (s), application, num_replicas and batch_size. They state neither how long a job takes nor
what a replica needs. This project's calibration: the hours on one GPU are within Pollux's size classes (small below 1,
medium below 10, large below 100, extra large below 1,000), and ``contention`` follows from the speed-up at 4 GPUs of
one node in the authors' published step times. Nodes have 4 GPUs, 48 cores and 192 GiB. A replica has a GPU, 8 cores and
32 GiB; there is no ps (they train by all-reduce), and from half to double the replicas asked for are allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lab.sim.objects import JobSpec
from lab.sim.traces.reading import Table, TraceError, TraceRow, read
from lab.sim.traces.scale import elastic, to_load
from lab.sim.traces.trace import GPU, Trace, node, pod_requests
from lab.sim.traces.tracechecks import checked
from policy.cluster.job import WORKER, Role

NODES = 16


@dataclass(frozen=True, slots=True)
class Application:
    """A training application: the hours of the whole job on one GPU, and the contention ``a`` of the saturating speed
    model.
    """

    hours: float
    contention: float


APPLICATIONS: Mapping[str, Application] = {
    "cifar10": Application(0.95, 0.041),  # The hours are derived from 100 epochs of 50,000 images at 1,461 a second.
    "ncf": Application(0.3, 0.78),
    "bert": Application(3.8, 0.013),  # The hours are derived from 2 epochs of 88,641 examples at 13 a second.
    "deepspeech2": Application(6.0, 0.011),
    "yolov3": Application(16.0, 0.11),
    # The hours are derived from 90 epochs of 1.28 million images at 217 a second.
    "imagenet": Application(148.0, 0.029),
}


def pollux(
    table: Table, *, nodes: int = NODES, load: float | None = None, models: Collection[str] | None = None
) -> Trace:
    """Return the jobs on ``nodes`` nodes of 4 GPUs. Raises TraceError, and ValueError for a wrong load.

    ``load`` is the mean load of the GPUs to which the gaps between arrivals are scaled (None: unchanged). ``models``
    are the names of models that the speed model knows; None allows all applications.
    """
    known = {name: one for name, one in APPLICATIONS.items() if models is None or name in models}
    if not known:
        raise TraceError([f"application: the speeds have none of {', '.join(APPLICATIONS)}; use speeds that have one"])
    jobs = read(table, lambda line: (line.where, _job(line, known)))
    cluster = [node(f"node-{index:02d}", 48, 192, 4) for index in range(nodes)]
    return to_load(checked(cluster, jobs), load, GPU)


def _job(line: TraceRow, known: Mapping[str, Application]) -> JobSpec:
    line.columns(("name", "time", "application", "num_replicas", "batch_size"))
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
        # The authors' systems change the batch of a worker during the run; here it is constant for any number of
        # workers.
        local_batch=batch / workers,
    )

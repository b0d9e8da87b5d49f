"""What is submitted when, on which nodes: the papers' experiments as seeded values, and traces as plain rows.

The generators draw from ``random.Random(seed)`` in one fixed order, so a seed is a trace.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from policy.cluster.model import PS, WORKER, Node, Role
from policy.cluster.resources import Resources
from policy.sim.objects import CleanPods, JobSpec

GIB = 1 << 30
PODS_PER_NODE = 110  # the kubelet's default
DEFAULT_SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class Trace:
    """Nodes, and jobs by their arrival (seconds after the start)."""

    nodes: tuple[Node, ...]
    jobs: tuple[JobSpec, ...]


def node(name: str, cores: int, memory_gib: int, gpus: int = 0) -> Node:
    """A node of that shape."""
    amounts = {"cpu": cores * 1000, "memory": memory_gib * GIB, "pods": PODS_PER_NODE}
    return Node(name, Resources(amounts | ({"nvidia.com/gpu": gpus} if gpus else {})))


def pod_requests(cores: float, memory_gib: float, gpus: int = 0) -> Resources:
    """The request of one pod."""
    amounts = {"cpu": round(cores * 1000), "memory": round(memory_gib * GIB), "pods": 1}
    return Resources(amounts | ({"nvidia.com/gpu": gpus} if gpus else {}))


def kod2(seed: int, *, contention: float = 0.1, jobs: int = 10, gap_seconds: float = 30.0) -> Trace:
    """KOD2's experiment (section 5): ten TFJobs, one every 30 s, on three nodes of 10 cores, 32 GB and a GPU.

    The paper gives neither requests nor bounds nor steps: worker of 1-3 cores and 2, 4 or 6 GiB, minimum 1-2, maximum
    4-6, 5-20 minutes of one worker's work and a ps of 1 core and 2 GiB are this project's calibration, as is
    ``contention`` (0.1 or 0.2). Each job asks for its maximum of workers.
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


def rigid(trace: Trace, scheduler: str = DEFAULT_SCHEDULER) -> Trace:
    """The same jobs as plain Kubernetes runs them: every replica that is asked for, or nothing is computed."""
    jobs = (replace(job, min_workers=job.workers, max_workers=job.workers, scheduler=scheduler) for job in trace.jobs)
    return replace(trace, jobs=tuple(jobs))


class TraceError(ValueError):
    """A row of a trace cannot be used: which one, and why."""


def rows(jobs: Iterable[JobSpec]) -> list[dict[str, object]]:
    """Jobs of one ps role and one worker role as plain rows (JSON, CSV)."""
    return [_row(job) for job in jobs]


def _row(job: JobSpec) -> dict[str, object]:
    worker, server = job.role(WORKER), job.role(PS)
    if worker is None:
        raise TraceError(f"{job.name}: has no worker role")
    return {
        "name": job.name,
        "arrival_seconds": job.arrival,
        "workers": worker.replicas,
        "min_workers": job.min_workers,
        "max_workers": job.max_workers,
        "worker_millicores": worker.requests["cpu"],
        "worker_memory_bytes": worker.requests["memory"],
        "worker_gpus": worker.requests["nvidia.com/gpu"],
        "ps": server.replicas if server else 0,
        "ps_millicores": server.requests["cpu"] if server else 0,
        "ps_memory_bytes": server.requests["memory"] if server else 0,
        "work_seconds": job.work_seconds,
        "contention": job.contention,
        "clean_pods": job.clean_pods.value,
    }


def jobs_of(table: Iterable[Mapping[str, object]]) -> tuple[JobSpec, ...]:
    """The jobs of such rows, by arrival. Raises TraceError with the row's number and what is wrong."""
    jobs = []
    for number, row in enumerate(table, 1):
        try:
            jobs.append(_job(row))
        except (KeyError, ValueError, TypeError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise TraceError(f"row {number}: {what}") from None
    return tuple(sorted(jobs, key=lambda job: (job.arrival, job.name)))


def _job(row: Mapping[str, object]) -> JobSpec:
    least, workers, most = (_count(row, name) for name in ("min_workers", "workers", "max_workers"))
    if not 1 <= least <= workers <= most:
        raise ValueError(f"workers: 1 <= {least} (min) <= {workers} (asked) <= {most} (max) does not hold")
    work = float(str(row["work_seconds"]))
    if not 0 < work < float("inf"):
        raise ValueError(f"work_seconds: {work} is not above 0")
    worker = Role(WORKER, workers, _requests(row, "worker", _count(row, "worker_gpus")))
    server = Role(PS, _count(row, "ps"), _requests(row, "ps", 0))
    return JobSpec(
        name=str(row["name"]),
        roles=(server, worker) if server.replicas else (worker,),
        min_workers=least,
        max_workers=most,
        work_seconds=work,
        contention=float(str(row["contention"])),
        arrival=float(str(row["arrival_seconds"])),
        clean_pods=CleanPods(row["clean_pods"]),
    )


def _count(row: Mapping[str, object], name: str) -> int:
    number = int(str(row[name]))
    if number < 0:
        raise ValueError(f"{name}: {number} is below 0")
    return number


def _requests(row: Mapping[str, object], role: str, gpus: int) -> Resources:
    amounts = {"cpu": _count(row, f"{role}_millicores"), "memory": _count(row, f"{role}_memory_bytes"), "pods": 1}
    return Resources(amounts | ({"nvidia.com/gpu": gpus} if gpus else {}))

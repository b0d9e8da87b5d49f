"""The trace type, and the helpers that all makers of traces share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lab.sim.objects import JobSpec
from policy.cluster.node import Node
from policy.cluster.resources import Resources

GIB = 1 << 30
GPU = "nvidia.com/gpu"
PODS_PER_NODE = 110  # By the kubelet's default, a node takes at most this many pods.
DEFAULT_SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class Trace:
    """Nodes, and jobs by their arrival in seconds after the start.

    ``slot_seconds`` is the length of the time slots in which its utility curves count a delay; None: not stated.
    """

    nodes: tuple[Node, ...]
    jobs: tuple[JobSpec, ...]
    slot_seconds: float | None = None


def node(name: str, cores: int, memory_gib: int, gpus: int = 0) -> Node:
    """Return a node with this capacity."""
    amounts = {"cpu": cores * 1000, "memory": memory_gib * GIB, "pods": PODS_PER_NODE}
    return Node(name, Resources(amounts | ({GPU: gpus} if gpus else {})))


def pod_requests(cores: float, memory_gib: float, gpus: int = 0) -> Resources:
    """Return the requests of one pod."""
    amounts = {"cpu": round(cores * 1000), "memory": round(memory_gib * GIB), "pods": 1}
    return Resources(amounts | ({GPU: gpus} if gpus else {}))


def rigid(trace: Trace, scheduler: str = DEFAULT_SCHEDULER) -> Trace:
    """Return the trace with rigid jobs, as plain Kubernetes runs them: all replicas are needed to compute."""
    jobs = (replace(job, min_workers=job.workers, max_workers=job.workers, scheduler=scheduler) for job in trace.jobs)
    return replace(trace, jobs=tuple(jobs))

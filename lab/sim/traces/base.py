"""What a trace is, and what its makers share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lab.sim.objects import JobSpec
from policy.cluster.model import Node
from policy.cluster.resources import Resources

GIB = 1 << 30
GPU = "nvidia.com/gpu"
PODS_PER_NODE = 110  # the kubelet's default
DEFAULT_SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class Trace:
    """Nodes, and jobs by their arrival (seconds after the start).

    slot_seconds: the slot in which its utility curves count a delay; None: it does not say.
    """

    nodes: tuple[Node, ...]
    jobs: tuple[JobSpec, ...]
    slot_seconds: float | None = None


def node(name: str, cores: int, memory_gib: int, gpus: int = 0) -> Node:
    """A node of that shape."""
    amounts = {"cpu": cores * 1000, "memory": memory_gib * GIB, "pods": PODS_PER_NODE}
    return Node(name, Resources(amounts | ({GPU: gpus} if gpus else {})))


def pod_requests(cores: float, memory_gib: float, gpus: int = 0) -> Resources:
    """The request of one pod."""
    amounts = {"cpu": round(cores * 1000), "memory": round(memory_gib * GIB), "pods": 1}
    return Resources(amounts | ({GPU: gpus} if gpus else {}))


def rigid(trace: Trace, scheduler: str = DEFAULT_SCHEDULER) -> Trace:
    """The same jobs as plain Kubernetes runs them: every replica that is asked for, or nothing is computed."""
    jobs = (replace(job, min_workers=job.workers, max_workers=job.workers, scheduler=scheduler) for job in trace.jobs)
    return replace(trace, jobs=tuple(jobs))

"""The faults that can be injected into a simulated cluster; nodes and jobs are named as in the trace."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from policy.cluster.job import Slot


@dataclass(frozen=True, slots=True)
class NodeLost:
    """The node is deleted, and with it its pods, whose successors wait for a node."""

    node: str


@dataclass(frozen=True, slots=True)
class NodeBack:
    """The node is created, or created again, without the pods that it lost, and accepts pods. If it is cordoned, the
    cordon ends.
    """

    node: str


@dataclass(frozen=True, slots=True)
class NodeCordoned:
    """The node accepts no new pods; those on it go on."""

    node: str


@dataclass(frozen=True, slots=True)
class PodEvicted:
    """The pod in that slot is deleted, and its successor waits for a node. If the slot has no pod, nothing happens."""

    job: str
    slot: Slot


@dataclass(frozen=True, slots=True)
class JobDeleted:
    """The user deletes the job, which ends unfinished; nothing happens before its arrival or after its end."""

    job: str


Fault = NodeLost | NodeBack | NodeCordoned | PodEvicted | JobDeleted


def check(fault: Fault, nodes: Container[str], jobs: Container[str]) -> None:
    """Raise ValueError if the fault names a node or job that the trace does not have."""
    match fault:
        case NodeLost(node) | NodeBack(node) | NodeCordoned(node):
            if node not in nodes:
                raise ValueError(f"fault: node is {node!r}, must be a node of the trace")
        case PodEvicted(job=job) | JobDeleted(job=job):
            if job not in jobs:
                raise ValueError(f"fault: job is {job!r}, must be a job of the trace")

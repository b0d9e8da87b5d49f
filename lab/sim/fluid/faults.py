"""What may befall a simulated cluster. Nodes by name, jobs by the name in their trace."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from policy.cluster.model import Slot


@dataclass(frozen=True, slots=True)
class NodeLost:
    """The node is deleted, and with it the pods on it; their successors wait for a node."""

    node: str


@dataclass(frozen=True, slots=True)
class NodeBack:
    """The node is there (again), empty of what it lost, and takes pods: this also ends a cordon."""

    node: str


@dataclass(frozen=True, slots=True)
class NodeCordoned:
    """The node takes no new pods; those on it go on."""

    node: str


@dataclass(frozen=True, slots=True)
class PodEvicted:
    """The pod in that slot is deleted; its successor waits for a node. Nothing happens where there is no such pod."""

    job: str
    slot: Slot


@dataclass(frozen=True, slots=True)
class JobDeleted:
    """The user deletes the job: it ends unserved. Nothing happens where it has ended or not arrived."""

    job: str


Fault = NodeLost | NodeBack | NodeCordoned | PodEvicted | JobDeleted


def check(fault: Fault, nodes: Container[str], jobs: Container[str]) -> None:
    """Raises ValueError where the fault names what the trace does not have."""
    match fault:
        case NodeLost(node) | NodeBack(node) | NodeCordoned(node):
            if node not in nodes:
                raise ValueError(f"fault: node is {node!r}, must be one of the trace's")
        case PodEvicted(job=job) | JobDeleted(job=job):
            if job not in jobs:
                raise ValueError(f"fault: job is {job!r}, must be one of the trace's")

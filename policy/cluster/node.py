"""A node as the API server shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from policy.cluster.constraints import Taint
from policy.cluster.resources import Resources

TAINTS_OF_CLOSED_NODES: Final = frozenset(
    f"node.kubernetes.io/{name}" for name in ("unschedulable", "not-ready", "unreachable")
)
"""The taints that the node lifecycle controller (kubernetes/pkg/controller/nodelifecycle) sets on cordoned and unready
nodes, and removes again.
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A node: its allocatable resources, and the labels and taints that decide which pods it takes.

    ``version`` is the API object's resourceVersion.
    """

    name: str
    allocatable: Resources
    uid: str = ""
    ready: bool = True
    unschedulable: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    version: int = 0

    @property
    def usable(self) -> bool:
        """Whether the node is ready and not cordoned, so that pods can be bound to it."""
        return self.ready and not self.unschedulable

    @property
    def closed(self) -> str:
        """Why no pods can be bound to the node ("cordoned" or "not ready"); empty if the node is usable."""
        return "" if self.usable else "cordoned" if self.ready else "not ready"

    @property
    def reopened(self) -> Node:
        """The node as it would be if it were ready and uncordoned.

        The taints that Kubernetes sets on cordoned and unready nodes are left out, too.
        """
        kept = tuple(taint for taint in self.taints if taint.key not in TAINTS_OF_CLOSED_NODES)
        if self.usable and kept == self.taints:
            return self
        return replace(self, ready=True, unschedulable=False, taints=kept)

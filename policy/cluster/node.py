"""A node as the API server shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from policy.cluster.constraints import Taint
from policy.cluster.resources import Resources
from policy.cluster.words import in_time

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
    failures: the text of the annotation in which Kohort keeps which jobs' members have failed on the node. forgiven:
    whether the annotation is there by which an administrator forgives them.
    shunned: until when Kohort avoids the node because of such failures, in seconds since the epoch; 0 if it does not.
    barred: whether nothing is placed on it until then; if false, an avoided node is only used last. Both follow from
    the failures of all nodes, and not from the API object (``policy/transitions/failing.py``).
    """

    name: str
    allocatable: Resources
    uid: str = ""
    ready: bool = True
    unschedulable: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    version: int = 0
    failures: str = ""
    forgiven: bool = False
    shunned: float = 0.0
    barred: bool = False

    @property
    def usable(self) -> bool:
        """Whether the node is ready, not cordoned and not barred, so that pods can be bound to it."""
        return self.ready and not (self.unschedulable or self.barred)

    @property
    def wary(self) -> bool:
        """Whether the node is usable but is used last, because members have failed there."""
        return self.usable and self.shunned > 0.0

    @property
    def closed(self) -> str:
        """Why no pods can be bound to the node ("cordoned", "not ready", or avoided); empty if the node is usable."""
        if self.usable:
            return ""
        return "not ready" if not self.ready else "cordoned" if self.unschedulable else self.avoided

    @property
    def avoided(self) -> str:
        """In words, that the node is avoided and until when; empty if it is not."""
        if not self.shunned:
            return ""
        until = in_time(self.shunned)
        how = "avoided" if self.barred else "avoided where others have room,"
        return f"{how} until {until} because members of different jobs have failed there"

    @property
    def reopened(self) -> Node:
        """The node as it would be if it were ready, uncordoned and not avoided.

        The taints that Kubernetes sets on cordoned and unready nodes are left out, too.
        """
        kept = tuple(taint for taint in self.taints if taint.key not in TAINTS_OF_CLOSED_NODES)
        if self.usable and kept == self.taints:
            return self
        return replace(self, ready=True, unschedulable=False, taints=kept, shunned=0.0, barred=False)

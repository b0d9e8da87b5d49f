"""Imitates the scheduler plugins on which Kohort depends: which nodes they accept for a pod, how they score nodes, and
which changes may help a pod that they refused.

Filters are NodeUnschedulable, TaintToleration, NodeAffinity and NodeResourcesFit; scores are those of NodeResourcesFit
(least allocated) and NodeResourcesBalancedAllocation. VolumeBinding is in `volumes.py`, DefaultPreemption in
`defaultpreemption.py`. The other plugins of kube-scheduler are not imitated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from lab.embedded.cache import PodInfo, SchedulerCache
from policy.cluster.node import Node
from policy.cluster.resources import Resources
from policy.placement.fit import accepts

UNSCHEDULABLE: Final = "NodeUnschedulable"
TAINTS: Final = "TaintToleration"
AFFINITY: Final = "NodeAffinity"
RESOURCES: Final = "NodeResourcesFit"
VOLUMES: Final = "VolumeBinding"
EXTENDER: Final = "Extender"
# In a cluster with fewer nodes than this, the search looks at all nodes (minFeasibleNodesToFind in kube-scheduler).
SAMPLE_FROM: Final = 100
# A pod without requests counts in scores as if it requested these amounts.
DEFAULT_REQUEST: Final = {"cpu": 100, "memory": 200 * 1024 * 1024}


class ClusterEvent(Enum):
    """An event that may make a refused pod schedulable (kube-scheduler's ClusterEvent)."""

    ASSIGNED_ADD = "AssignedPodAdd"
    ASSIGNED_UPDATE = "AssignedPodUpdate"
    ASSIGNED_DELETE = "AssignedPodDelete"
    NODE_ADD = "NodeAdd"
    NODE_DELETE = "NodeDelete"
    NODE_ALLOCATABLE = "NodeAllocatable"
    NODE_LABEL = "NodeLabel"
    NODE_TAINT = "NodeTaint"  # this event is a change of the node's taints or of spec.unschedulable
    NODE_OTHER = "NodeOther"  # this event is a change of the node's annotations or conditions
    VOLUME = "PersistentVolumeClaimUpdate"
    TARGET_POD = "TargetPodUpdate"


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """A cluster event that has happened, with the node if the event is about a node."""

    what: ClusterEvent
    node: Node | None = None


HELPS: Final = {
    UNSCHEDULABLE: {ClusterEvent.NODE_ADD, ClusterEvent.NODE_TAINT},
    TAINTS: {ClusterEvent.NODE_ADD, ClusterEvent.NODE_TAINT},
    AFFINITY: {ClusterEvent.NODE_ADD, ClusterEvent.NODE_LABEL},
    RESOURCES: {ClusterEvent.NODE_ADD, ClusterEvent.NODE_ALLOCATABLE, ClusterEvent.ASSIGNED_DELETE},
    VOLUMES: {ClusterEvent.NODE_ADD, ClusterEvent.VOLUME},
    EXTENDER: set(ClusterEvent),
}


def wakes(pod: PodInfo, rejectors: Iterable[str], change: ClusterChange) -> bool:
    """Tell whether the change may help a pod that these plugins refused, as kube-scheduler's queueing hints do."""
    return any(change.what in HELPS[name] and _hint(pod, name, change) for name in rejectors)


def _hint(pod: PodInfo, rejector: str, change: ClusterChange) -> bool:
    if rejector in (EXTENDER, VOLUMES) or change.node is None:
        return True
    return pod.requests.fits(change.node.allocatable) if rejector == RESOURCES else _refusal(pod, change.node) == ""


def refuses(cache: SchedulerCache, pod: PodInfo, node: Node) -> tuple[str, str]:
    """Return (plugin, reason) of the first plugin that refuses the node for the pod, or two empty texts."""
    if reason := _refusal(pod, node):
        return reason, TEXTS[reason]
    free = cache.free(node, pod)
    if missing := pod.requests.shortfall(free):
        return RESOURCES, f"Insufficient {next(iter(missing))}"
    return "", ""


TEXTS: Final = {
    UNSCHEDULABLE: "node(s) were unschedulable",
    AFFINITY: "node(s) didn't match Pod's node affinity/selector",
    TAINTS: "node(s) had untolerated taint(s)",
}


def _refusal(pod: PodInfo, node: Node) -> str:
    if node.unschedulable:
        return UNSCHEDULABLE
    if accepts(node, pod.constraints):
        return ""
    return TAINTS if accepts(replace(node, taints=()), pod.constraints) else AFFINITY


def how_many_to_find(nodes: int, percentage: int) -> int:
    """Return the number of feasible nodes after which the search stops (numFeasibleNodesToFind in kube-scheduler).

    nodes: the number of all nodes. percentage: percentageOfNodesToScore; 0: it depends on the number of nodes.
    """
    if nodes < SAMPLE_FROM:
        return nodes
    share = percentage or max(5, 50 - nodes // 125)
    return max(SAMPLE_FROM, nodes * share // 100) if share < 100 else nodes


def score(cache: SchedulerCache, pod: PodInfo, node: Node) -> int:
    """Return the node's score for the pod, from 0 to 200.

    The score is the sum of the plugins' scores for least and for balanced allocation, each from 0 to 100, over CPU and
    memory with weight 1.
    """
    taken = cache.used(node.name) + pod.requests
    shares = [_share(taken, pod, node, name) for name in DEFAULT_REQUEST if node.allocatable[name]]
    if not shares:
        return 0
    least = sum(int((1 - share) * 100) for share in shares) // len(shares)
    spread = abs(shares[0] - shares[-1]) / 2
    return least + int((1 - spread) * 100)


def _share(taken: Resources, pod: PodInfo, node: Node, name: str) -> float:
    asked = taken[name] + (0 if pod.requests[name] else DEFAULT_REQUEST[name])
    return min(1.0, asked / node.allocatable[name])

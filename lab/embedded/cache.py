"""The scheduler's own view of nodes and pods: what its watches have shown, and the pods that it has assumed.

A pod is assumed to be on a node from the choice of the node until its binding is seen. The view may lag behind the API
server, and no other process sees which pods are assumed. An extender may therefore know other facts than the scheduler
that calls it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final

from extender.kube.api import NODES, Json
from extender.kube.podspec import ObjectError, constraints_of, requests_of
from extender.kube.translate import Translator
from policy.cluster.constraints import ANYWHERE, Constraints
from policy.cluster.events import NodeSeen
from policy.cluster.node import Node
from policy.cluster.resources import NOTHING, Resources, total

ENDED: Final = ("Succeeded", "Failed")
_NODES: Final = Translator("")


@dataclass(frozen=True, slots=True)
class PodInfo:
    """The fields of a pod that the scheduler uses, parsed once for each version of the pod."""

    item: Json
    uid: str
    namespace: str
    name: str
    requests: Resources
    constraints: Constraints
    scheduler: str
    priority: int
    node: str
    nominated: str
    gated: bool
    deleting: bool
    ended: bool
    volumes: tuple[str, ...] = ()


def pod_info(item: Json) -> PodInfo:
    """Parse a pod. Invalid requests or constraints are treated as if the pod had none."""
    meta, spec, status = item["metadata"], item.get("spec", {}), item.get("status", {})
    try:
        requests, constraints = requests_of(spec, "spec"), constraints_of(spec, "spec")
    except ObjectError:
        requests, constraints = NOTHING, ANYWHERE
    return PodInfo(
        item=item,
        uid=str(meta["uid"]),
        namespace=str(meta.get("namespace") or ""),
        name=str(meta["name"]),
        requests=requests,
        constraints=constraints,
        scheduler=str(spec.get("schedulerName") or "default-scheduler"),
        priority=int(spec.get("priority") or 0),
        node=str(spec.get("nodeName") or ""),
        nominated=str(status.get("nominatedNodeName") or ""),
        gated=bool(spec.get("schedulingGates")),
        deleting=bool(meta.get("deletionTimestamp")),
        ended=status.get("phase") in ENDED,
        volumes=tuple(map(_claim, spec.get("volumes") or ())),
    )


def _claim(volume: Json) -> str:
    return str((volume.get("persistentVolumeClaim") or {}).get("claimName") or "")


class SchedulerCache:
    """The nodes and pods that the watch has shown, and the pods that this scheduler has assumed.

    A pod is assumed from the choice of its node until the watch shows it bound or the bind fails. ``schedulers`` has
    the schedulerNames of pods whose nominations count (None: all): kube-scheduler's nominator knows only the pods in
    its own queue, so two schedulers ignore each other's nominations.
    """

    def __init__(self, schedulers: Container[str] | None = None) -> None:
        self._schedulers = schedulers
        self.nodes: dict[str, Node] = {}
        self.node_items: dict[str, Json] = {}
        self.pods: dict[str, PodInfo] = {}
        self._assumed: dict[str, tuple[PodInfo, str]] = {}
        self._used: dict[str, Resources] = {}

    def set_node(self, item: Json) -> Node:
        """Add or replace a node, and return it."""
        for event in _NODES.events(NODES, {"type": "MODIFIED", "object": item}):
            if isinstance(event, NodeSeen):
                self.nodes[event.node.name] = event.node
                self.node_items[event.node.name] = item
        return self.nodes[item["metadata"]["name"]]

    def drop_node(self, name: str) -> None:
        """Remove a node; pods on it stay in the cache."""
        self.nodes.pop(name, None)
        self.node_items.pop(name, None)

    def set_pod(self, pod: PodInfo) -> None:
        """Add or replace a pod that the watch shows; a pod that is shown as bound is no longer assumed."""
        self.drop_pod(pod.uid, keep_assumed=not pod.node)
        self.pods[pod.uid] = pod
        if pod.node and not pod.ended:
            self._charge(pod.node, pod.requests)

    def drop_pod(self, uid: str, *, keep_assumed: bool = False) -> None:
        """Remove a pod. The pod is no longer assumed either, unless ``keep_assumed`` is set."""
        if not keep_assumed:
            self.forget(uid)
        before = self.pods.pop(uid, None)
        if before is not None and before.node and not before.ended:
            self._charge(before.node, NOTHING - before.requests)

    def assume(self, pod: PodInfo, node: str) -> None:
        """Assume that the pod is on the node, and charge it there, before the API server shows the binding."""
        self._assumed[pod.uid] = (pod, node)
        self._charge(node, pod.requests)

    def forget(self, uid: str) -> bool:
        """Stop assuming the pod; return whether it was assumed."""
        held = self._assumed.pop(uid, None)
        if held is not None:
            self._charge(held[1], NOTHING - held[0].requests)
        return held is not None

    def assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def used(self, node: str) -> Resources:
        """Return the requests of bound and assumed pods on the node."""
        return self._used.get(node, NOTHING)

    def on(self, node: str) -> Iterator[PodInfo]:
        """Yield the pods that the watch has shown on the node and that have not ended."""
        return (pod for pod in self.pods.values() if pod.node == node and not pod.ended)

    def free(self, node: Node, besides: PodInfo) -> Resources:
        """Return what is free on the node for the pod ``besides``: what the node has, less the requests of pods on it
        and of other pods that are nominated for it.
        """
        return node.allocatable - self.used(node.name) - self.nominated(node.name, besides)

    def nominated(self, node: str, besides: PodInfo) -> Resources:
        """Return the requests of the pods that are nominated for the node, other than ``besides``.

        Only pods of the same or a higher priority than ``besides`` count.
        """
        return total(pod.requests for pod in self._nominated(node, besides))

    def _nominated(self, node: str, besides: PodInfo) -> Iterator[PodInfo]:
        for pod in self.pods.values():
            holds = pod.nominated == node and not pod.node and not pod.ended and pod.uid not in self._assumed
            holds = holds and (self._schedulers is None or pod.scheduler in self._schedulers)
            if holds and pod.uid != besides.uid and pod.priority >= besides.priority:
                yield pod

    def _charge(self, node: str, requests: Resources) -> None:
        self._used[node] = self._used.get(node, NOTHING) + requests

"""The kubelets, as KWOK simulates them: bound pods start and deleted pods stop, except on an unreachable node."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lab.sim.objects import PodObject
from lab.sim.pods.worldcore import GONE, STARTED, WorldCore
from policy.cluster.node import Node
from policy.cluster.pod import Phase


class Kubelets:
    """All nodes' kubelets, the taint manager, and the garbage collector of pods whose node is gone."""

    def __init__(self, core: WorldCore) -> None:
        self._core = core
        self._asked: set[tuple[str, str]] = set()
        core.pod_listeners.append(self._pod_changed)
        core.node_listeners.append(self._node_changed)

    def _pod_changed(self, pod: PodObject) -> None:
        settings = self._core.settings
        if not pod.node or pod.uid not in self._core.store.pods:
            return
        if pod.node not in self._core.store.nodes:
            # A pod may be bound to a node that does not exist, because the API server accepts the binding. Only the
            # garbage collector deletes the pod.
            self._once("collect", pod, settings.collect_seconds)
        elif pod.deleted is not None:
            self._once("stop", pod, settings.terminate_seconds)
        elif pod.phase is Phase.PENDING:
            self._once("start", pod, settings.start_seconds)

    def _once(self, what: str, pod: PodObject, seconds: float) -> None:
        if (what, pod.uid) in self._asked:
            return
        self._asked.add((what, pod.uid))
        does = {"start": self._start, "stop": self._stop, "collect": self._collect, "evict": self._evict}[what]
        rank = STARTED if what == "start" else GONE
        self._core.later(seconds, partial(self._do, what, pod.uid, does), rank)

    def _do(self, what: str, uid: str, does: object) -> None:
        self._asked.discard((what, uid))
        pod = self._core.store.pods.get(uid)
        if pod is not None and callable(does):
            does(pod)

    def _start(self, pod: PodObject) -> None:
        if self._reachable(pod) and pod.phase is Phase.PENDING and pod.deleted is None:
            self._core.write_pod(replace(pod, phase=Phase.RUNNING, started=self._core.now))

    def _stop(self, pod: PodObject) -> None:
        if self._reachable(pod):
            self._core.remove_pod(pod.uid)

    def _evict(self, pod: PodObject) -> None:
        if not self._reachable(pod):
            self._core.delete_pod(pod)

    def _collect(self, pod: PodObject) -> None:
        if pod.node not in self._core.store.nodes:
            self._core.remove_pod(pod.uid)

    def _reachable(self, pod: PodObject) -> bool:
        node = self._core.store.nodes.get(pod.node)
        return node is not None and node.ready

    def _node_changed(self, node: Node) -> None:
        lost = node.name in self._core.store.nodes and not node.ready
        for pod in [pod for pod in self._core.store.pods.values() if pod.node == node.name]:
            if lost:
                self._once("evict", pod, self._core.settings.eviction_seconds)
            else:
                self._pod_changed(pod)

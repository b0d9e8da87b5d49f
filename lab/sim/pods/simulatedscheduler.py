"""A simplified kube-scheduler: one pod at a time, assumed pods, back-off, and what wakes a waiting pod.

It is not meant to equal the real one. A ``Chooser`` picks the node: the extender, or plain scoring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from lab.sim.engine import Engine
from lab.sim.objects import ObjectKind, PodObject, Verb, WorldChange
from lab.sim.pods.world import SimulatedWorld
from policy.cluster.model import Node
from policy.cluster.resources import NOTHING, Resources
from policy.placement.fit import accepts

NO_NODE = "0/n nodes are available"


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """The answer for one pod: a node, or the reason why there is none."""

    node: str = ""
    message: str = ""


class Chooser(Protocol):
    """The component that picks a node and makes the binding."""

    def choose(self, pod: PodObject, feasible: list[str]) -> NodeChoice:
        """Pick one of the nodes on which the pod fits; ``feasible`` is never empty."""
        ...

    def bind(self, pod: PodObject, node: str) -> None:
        """Start a binding; the outcome is reported to ``KubeScheduler.bound`` or ``refused``."""
        ...


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Times in seconds.

    The back-off is kube-scheduler's podInitialBackoffSeconds and podMaxBackoffSeconds; 0 means none.
    """

    cycle_seconds: float = 0.01
    backoff_initial_seconds: float = 1.0
    backoff_max_seconds: float = 2.0


@dataclass(slots=True)
class _Waiting:
    """A pod without a node: its attempts, the time of the last one, and whether a plugin refused it."""

    attempts: int = 0
    last: float = 0.0
    by_plugin: bool = False
    annotations: object = None
    queued: bool = False


class KubeScheduler:
    """One profile's scheduling queue and loop in virtual time.

    ``name``: the schedulerName of its pods. ``order``: returns the order in which freed room wakes waiting pods.
    """

    def __init__(
        self,
        world: SimulatedWorld,
        engine: Engine[Callable[[], object]],
        chooser: Chooser,
        name: str,
        settings: SchedulerSettings,
        order: Callable[[list[PodObject]], list[PodObject]],
    ) -> None:
        self._world, self._engine, self._chooser, self._name = world, engine, chooser, name
        self._settings, self._order = settings, order
        self._waiting: dict[str, _Waiting] = {}
        self._assumed: dict[str, tuple[str, Resources]] = {}
        self._active: dict[str, None] = {}
        self._busy = False

    def watch(self, changes: Iterable[WorldChange]) -> None:
        """Follow the API: new and woken pods become active; freed room wakes pods that fitted on no node."""
        freed = False
        for change in changes:
            if isinstance(change.object, PodObject):
                self._pod_changed(change.object, gone=change.verb is Verb.DELETED)
                freed = freed or _frees(change)
            freed = freed or change.kind is ObjectKind.NODE
        if freed:
            stuck = [uid for uid, waiting in self._waiting.items() if waiting.by_plugin and not waiting.queued]
            pods = [pod for uid in stuck if (pod := self._world.store.pods.get(uid)) is not None]
            for pod in self._order(sorted(pods, key=lambda pod: (pod.created, pod.uid))):
                self._activate(pod.uid)

    def bound(self, uid: str) -> None:
        """Record that the binding was made; the watch will show it."""
        self._assumed.pop(uid, None)
        self._waiting.pop(uid, None)

    def refused(self, uid: str, message: str) -> None:
        """Record that the binding failed: drop the assumption, and retry after the back-off."""
        self._assumed.pop(uid, None)
        waiting = self._waiting.get(uid)
        pod = self._world.store.pods.get(uid)
        if waiting is None or pod is None:
            return
        self._condition(pod, "SchedulerError", message)
        self._activate(uid)

    def _pod_changed(self, pod: PodObject, *, gone: bool) -> None:
        if pod.scheduler != self._name or pod.gates:
            return
        if gone or pod.node or pod.deleted is not None:
            self._waiting.pop(pod.uid, None)
            self._assumed.pop(pod.uid, None)
            return
        waiting = self._waiting.get(pod.uid)
        if waiting is None:
            self._waiting[pod.uid] = _Waiting(annotations=pod.annotations)
            self._activate(pod.uid)
        elif pod.annotations != waiting.annotations:
            waiting.annotations = pod.annotations
            if not waiting.by_plugin and pod.uid not in self._assumed:
                self._activate(pod.uid)

    def _activate(self, uid: str) -> None:
        """Queue the pod for an attempt once its back-off since the last one is over."""
        waiting = self._waiting[uid]
        if waiting.queued:
            return
        waiting.queued = True
        at = max(self._world.now, waiting.last + self._backoff(waiting.attempts))
        self._engine.schedule(at, lambda: self._enter(uid))

    def _backoff(self, attempts: int) -> float:
        if not attempts:
            return 0.0
        return min(self._settings.backoff_max_seconds, self._settings.backoff_initial_seconds * 2.0 ** (attempts - 1))

    def _enter(self, uid: str) -> None:
        self._active[uid] = None
        if not self._busy:
            self._busy = True
            self._engine.schedule(self._world.now + self._settings.cycle_seconds, self._cycle)

    def _cycle(self) -> None:
        """Run one scheduling cycle, for the first active pod."""
        uid = next(iter(self._active))
        del self._active[uid]
        waiting, pod = self._waiting.get(uid), self._world.store.pods.get(uid)
        if waiting is not None:
            waiting.queued = False
        if waiting is not None and pod is not None and not (pod.node or pod.deleted is not None):
            self._attempt(pod, waiting)
        self._busy = bool(self._active)
        if self._busy:
            self._engine.schedule(self._world.now + self._settings.cycle_seconds, self._cycle)

    def _attempt(self, pod: PodObject, waiting: _Waiting) -> None:
        waiting.attempts, waiting.last = waiting.attempts + 1, self._world.now
        feasible = self._feasible(pod)
        chosen = self._chooser.choose(pod, feasible) if feasible else NodeChoice(message=NO_NODE)
        waiting.by_plugin = not feasible
        if chosen.node:
            self._assumed[pod.uid] = (chosen.node, pod.requests)
            self._chooser.bind(pod, chosen.node)
        else:
            self._condition(pod, "Unschedulable", chosen.message)

    def _feasible(self, pod: PodObject) -> list[str]:
        nodes = [node for _, node in sorted(self._world.store.nodes.items()) if node.ready and not node.unschedulable]
        free = self.free(nodes)
        return [n.name for n in nodes if pod.requests.fits(free[n.name]) and accepts(n, pod.constraints)]

    def free(self, nodes: Iterable[Node]) -> dict[str, Resources]:
        """Return the room on the nodes that bound and assumed pods leave free."""
        used: dict[str, Resources] = {}
        held = [(pod.node, pod.requests) for pod in self._world.store.pods.values() if pod.holds_room]
        for name, requests in [*held, *self._assumed.values()]:
            used[name] = used.get(name, NOTHING) + requests
        return {node.name: node.allocatable - used.get(node.name, NOTHING) for node in nodes}

    def _condition(self, pod: PodObject, reason: str, message: str) -> None:
        self._world.patch_scheduled_condition(pod.namespace, pod.name, False, reason, message, uid=pod.uid)


def _frees(change: WorldChange) -> bool:
    pod = change.object
    return isinstance(pod, PodObject) and bool(pod.node) and (change.verb is Verb.DELETED or not pod.holds_room)

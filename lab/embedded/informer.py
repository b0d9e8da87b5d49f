"""Updates the scheduler's cache and queue from watches of nodes and pods, with the delay that its configuration states.

Like kube-scheduler's eventhandlers.go, this module also decides which waiting pods a change of an object may help.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

from extender.clock import Clock
from extender.kube.api import NODES, PODS, Api, Json
from extender.kube.reflector import Reflector
from extender.kube.watchbatch import WatchBatch
from lab.embedded.cache import PodInfo, SchedulerCache, pod_info
from lab.embedded.config import SchedulerConfig
from lab.embedded.plugins import ClusterChange, ClusterEvent
from lab.embedded.schedulingqueue import SchedulingQueue
from policy.cluster.node import Node


class Informer:
    """Watches nodes and pods, and passes their changes on to the scheduler's cache and queue."""

    def __init__(
        self,
        cache: SchedulerCache,
        queue: SchedulingQueue,
        config: SchedulerConfig,
        api: Api,
        clock: Clock,
        chance: random.Random,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._config = config
        self._clock = clock
        self._late: asyncio.Queue[tuple[float, WatchBatch]] = asyncio.Queue()
        self._listed: set[str] = set()
        self._ready = asyncio.Event()
        self._reflectors = [Reflector(api, resource, clock, chance) for resource in (NODES, PODS)]

    async def run(self) -> None:
        """Follow the watches until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(reflector.run(self._deliver))
            tasks.create_task(self._hand_on())

    @property
    def ready(self) -> bool:
        """Tell whether the first lists of nodes and of pods have arrived."""
        return self._ready.is_set()

    async def synced(self) -> None:
        """Wait until the first lists of nodes and of pods have arrived."""
        await self._ready.wait()

    def _deliver(self, batch: WatchBatch) -> None:
        if self._config.lag:
            self._late.put_nowait((self._clock.monotonic() + self._config.lag, batch))
        else:
            self._take(batch)

    async def _hand_on(self) -> None:
        """Pass the delayed batches of changes to the cache and the queue in their order, each after its delay."""
        while True:
            due, batch = await self._late.get()
            await self._clock.sleep(due - self._clock.monotonic())
            self._take(batch)

    def _take(self, batch: WatchBatch) -> None:
        for event in batch.events:
            if batch.resource == NODES:
                self._node(event["object"], gone=event["type"] == "DELETED")
            else:
                self._pod(event["object"], gone=event["type"] == "DELETED")
        if batch.kind == "end":
            self._listed.add(str(batch.resource))
            if len(self._listed) == len(self._reflectors):
                self._ready.set()

    # -- The methods below handle changes of nodes. --------------------------------------------------

    def _node(self, item: Json, *, gone: bool) -> None:
        name = item["metadata"]["name"]
        before, before_item = self._cache.nodes.get(name), self._cache.node_items.get(name)
        if gone:
            self._cache.drop_node(name)
            self._queue.move_all([ClusterChange(ClusterEvent.NODE_DELETE)])
            return
        node = self._cache.set_node(item)
        self._queue.move_all(node_changes(before, node, before_item, item))

    # -- The methods below handle changes of pods. ---------------------------------------------------

    def _pod(self, item: Json, *, gone: bool) -> None:
        uid = str(item["metadata"]["uid"])
        before = self._cache.pods.get(uid)
        pod = None if gone else pod_info(item)
        if pod is None or pod.ended:
            self._pod_gone(uid, before)
        elif pod.node:
            self._pod_bound(pod, before)
        else:
            self._pod_waits(pod, before)

    def _pod_gone(self, uid: str, before: PodInfo | None) -> None:
        held = (before is not None and bool(before.node)) or self._cache.assumed(uid)
        self._cache.drop_pod(uid)
        self._queue.delete(uid)
        if held:
            self._queue.move_all([ClusterChange(ClusterEvent.ASSIGNED_DELETE)])
        elif before is not None and before.scheduler in self._config.profiles:
            self._nomination_ends(before)

    def _nomination_ends(self, before: PodInfo) -> None:
        """Wake the waiting pods that may use the room for which this pod was nominated: those of the same or a lower
        priority.
        """
        if before.nominated:
            self._queue.move_all([ClusterChange(ClusterEvent.ASSIGNED_DELETE)], before.priority)

    def _pod_bound(self, pod: PodInfo, before: PodInfo | None) -> None:
        first = before is None or not before.node
        self._cache.set_pod(pod)
        self._queue.delete(pod.uid)
        self._queue.move_all([ClusterChange(ClusterEvent.ASSIGNED_ADD if first else ClusterEvent.ASSIGNED_UPDATE)])

    def _pod_waits(self, pod: PodInfo, before: PodInfo | None) -> None:
        """Record an unbound pod, and queue it if one of the profiles schedules it and it is not assumed to be on a
        node.
        """
        self._cache.set_pod(pod)
        if pod.scheduler not in self._config.profiles or self._cache.assumed(pod.uid):
            return
        self._queue.update(pod)
        if before is not None and before.nominated != pod.nominated:
            self._nomination_ends(before)


def node_changes(before: Node | None, node: Node, old: Json | None, new: Json) -> Iterator[ClusterChange]:
    """Yield the changes of a node that may help waiting pods; a heartbeat, which changes only timestamps, yields none.

    before, node: the parsed node before and after the change. old, new: the node's JSON before and after the change.
    """
    if before is None or old is None:
        yield ClusterChange(ClusterEvent.NODE_ADD, node)
        return
    if before.allocatable != node.allocatable:
        yield ClusterChange(ClusterEvent.NODE_ALLOCATABLE, node)
    if before.labels != node.labels:
        yield ClusterChange(ClusterEvent.NODE_LABEL, node)
    if (before.taints, before.unschedulable) != (node.taints, node.unschedulable):
        yield ClusterChange(ClusterEvent.NODE_TAINT, node)
    if _conditions(old) != _conditions(new) or _notes(old) != _notes(new):
        yield ClusterChange(ClusterEvent.NODE_OTHER, node)


def _conditions(item: Json) -> list[tuple[str, str]]:
    found = item.get("status", {}).get("conditions") or ()
    return [(str(condition.get("type")), str(condition.get("status"))) for condition in found]


def _notes(item: Json) -> object:
    return item["metadata"].get("annotations") or {}

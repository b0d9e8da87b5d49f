"""Imitates the scheduling loop of kube-scheduler as an extender sees it: nodes are chosen for one pod at a time, and
binds run beside the loop.

The verbs filter, prioritize and bind go to the configured extenders; without extenders, this is the default scheduler,
which places pod by pod. The loop has watches, a queue and a cache of its own, so its view lags behind the API server's.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from extender.clock import Clock
from extender.kube.api import PODS, Api, Json, Ref, Refused, Unknown
from lab.embedded import defaultpreemption, informer, plugins
from lab.embedded.apirules import condition, with_condition
from lab.embedded.cache import PodInfo, SchedulerCache
from lab.embedded.config import ProfileConfig, SchedulerConfig
from lab.embedded.diagnosis import Diagnosis
from lab.embedded.extenderclient import ExtenderClient, ExtenderError, Send, over_http
from lab.embedded.plugins import ClusterChange, ClusterEvent
from lab.embedded.schedulingqueue import QueuedPod, SchedulingQueue
from lab.embedded.volumes import Volumes
from policy.cluster.node import Node

_log = logging.getLogger(__name__)


class BindError(Exception):
    """The pod was not bound, or it is not known whether it was bound."""


class EmbeddedScheduler:
    """An imitation of one kube-scheduler process. Run `run` as a task, and cancel the task to stop it."""

    def __init__(
        self, config: SchedulerConfig, api: Api, clock: Clock, chance: random.Random, volumes: Volumes | None = None
    ) -> None:
        self.config = config
        self.cache = SchedulerCache(config.profiles)
        self.queue = SchedulingQueue(clock, config.initial_backoff, config.max_backoff)
        self.attempts = 0
        self._api = api
        self._clock = clock
        self._chance = chance
        self._extenders: list[ExtenderClient] = []
        self._binds: set[asyncio.Task[None]] = set()
        self._volumes = volumes or Volumes()
        self._volumes.add_listener(lambda: self.queue.move_all([ClusterChange(ClusterEvent.VOLUME)]))
        self._start = 0  # the next search for feasible nodes begins at this index of the list of nodes
        self._informer = informer.Informer(self.cache, self.queue, config, api, clock, chance)

    @property
    def ready(self) -> bool:
        """Tell whether the watches have delivered their first lists."""
        return self._informer.ready

    async def run(self) -> None:
        """Schedule until cancelled, with the extenders called over HTTP."""
        async with over_http() as send:
            await self.run_with(send)

    async def run_with(self, send: Send) -> None:
        """Schedule until cancelled, with ``send`` as the function that sends the calls to the extenders."""
        self.connect(send)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run())
            tasks.create_task(self.queue.flush())
            tasks.create_task(self._loop())

    def connect(self, send: Send) -> None:
        """Use ``send`` from now on to send the calls to the extenders."""
        self._extenders = [ExtenderClient(config, send, self._clock) for config in self.config.extenders]

    async def _loop(self) -> None:
        await self._informer.synced()
        while True:
            entry = await self.queue.pop()
            pod = entry.pod
            if pod.deleting or self.cache.assumed(pod.uid):
                self.queue.done(pod.uid)
                continue
            self.attempts += 1
            await self._schedule(entry)

    async def _schedule(self, entry: QueuedPod) -> None:
        pod, diagnosis = entry.pod, Diagnosis(len(self.cache.nodes))
        try:
            node = await self._choose(pod, diagnosis)
        except ExtenderError as error:
            await self._fail(entry, str(error), ())
            return
        if not node:
            nominated = self._preempt(pod)
            await self._fail(entry, diagnosis.text(), diagnosis.rejectors, nominated)
            return
        self.cache.assume(pod, node)
        self._aside(self._bind(entry, node))

    def _aside(self, part: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(part)
        self._binds.add(task)
        task.add_done_callback(self._binds.discard)

    def _preempt(self, pod: PodInfo) -> str | None:
        """Start to preempt pods of lower priority for the pod, if this helps.

        Return the node for which the pod is to be nominated, "" for none, or None if its nomination stays unchanged.
        """
        if not self._profile(pod).preemption or not defaultpreemption.may_preempt(self.cache, pod):
            return None
        node, victims = defaultpreemption.best_victims(self.cache, pod)
        if victims:
            self._aside(defaultpreemption.evict(self._api, self._clock, victims, pod.scheduler))
        return node

    # -- The methods below choose a node for one pod. ------------------------------------------------

    async def _choose(self, pod: PodInfo, diagnosis: Diagnosis) -> str:
        feasible = await self._try_nominated(pod, diagnosis)
        if not feasible:
            feasible = await self._feasible(pod, diagnosis)
        if len(feasible) <= 1:  # kube-scheduler, too, does not score a single node or call prioritize for it
            return next(iter(feasible), "")
        # Nodes may have been deleted during the calls of the extenders.
        staying = [node for name in feasible if (node := self.cache.nodes.get(name))]
        return await self._best(pod, staying) if staying else ""

    async def _try_nominated(self, pod: PodInfo, diagnosis: Diagnosis) -> Sequence[str]:
        """Return the pod's nominated node if plugins and extenders accept it, else an empty result.

        The nominated node is tried alone, before all other nodes. An extender's error is only logged.
        """
        node = self.cache.nodes.get(pod.nominated)
        if node is None or self._volumes.bars(pod) or plugins.refuses(self.cache, pod, node)[0]:
            return ()
        try:
            return await self._ask_extenders(pod, [node.name], diagnosis)
        except ExtenderError as error:
            _log.info("nominated node %s of %s: %s", node.name, pod.name, error)
            return ()

    async def _feasible(self, pod: PodInfo, diagnosis: Diagnosis) -> Sequence[str]:
        nodes = sorted(self.cache.nodes)
        if self._volumes.bars(pod):
            for name in nodes:
                diagnosis.refuse(name, plugins.VOLUMES, "pod has unbound immediate PersistentVolumeClaims")
            return ()
        wanted = plugins.how_many_to_find(len(nodes), self._profile(pod).percentage)
        found: list[str] = []
        looked = 0
        for name in nodes[self._start :] + nodes[: self._start]:
            if len(found) == wanted:
                break
            looked += 1
            plugin, reason = plugins.refuses(self.cache, pod, self.cache.nodes[name])
            if plugin:
                diagnosis.refuse(name, plugin, reason)
            else:
                found.append(name)
        self._start = (self._start + looked) % len(nodes) if nodes else 0
        return await self._ask_extenders(pod, found, diagnosis)

    async def _ask_extenders(self, pod: PodInfo, names: Sequence[str], diagnosis: Diagnosis) -> Sequence[str]:
        for extender in self._extenders:
            if not names or not extender.config.filter_verb:
                continue
            answer = await extender.filter(pod, self._items(names))
            for refused in (answer.failed, answer.unresolvable):
                for name, reason in refused.items():
                    diagnosis.refuse(name, plugins.EXTENDER, reason)
            if len(answer.names) < len(names):
                diagnosis.rejectors.add(plugins.EXTENDER)
            names = answer.names
        return names

    async def _best(self, pod: PodInfo, nodes: Sequence[Node]) -> str:
        totals = {node.name: plugins.score(self.cache, pod, node) for node in nodes}
        for extender in self._extenders:
            if extender.config.prioritize_verb:
                scores = await extender.prioritize(pod, self._items(list(totals)))
                for name in totals:
                    totals[name] += scores.get(name, 0) * extender.config.weight * 10
        highest = max(totals.values())
        return self._chance.choice([name for name, total in totals.items() if total == highest])

    def _items(self, names: Sequence[str]) -> Mapping[str, Json]:
        return {name: self.cache.node_items[name] for name in names if name in self.cache.node_items}

    def _profile(self, pod: PodInfo) -> ProfileConfig:
        return self.config.profiles[pod.scheduler]

    # -- The methods below carry out and report the outcome of an attempt. ---------------------------

    async def _bind(self, entry: QueuedPod, node: str) -> None:
        pod = entry.pod
        self.queue.done(pod.uid)
        try:
            await self._pre_bind(pod)
            await self._bind_by_extender_or_self(pod, node)
        except (ExtenderError, BindError) as error:
            if not self.cache.forget(pod.uid):
                _log.info("pod %s is not assumed, so cannot be forgotten: %s", pod.name, error)
            self.queue.move_all([ClusterChange(ClusterEvent.ASSIGNED_DELETE)])
            await self._fail(entry, str(error), ())

    async def _pre_bind(self, pod: PodInfo) -> None:
        if not await self._volumes.bound(pod, self._clock, self._profile(pod).bind_timeout):
            raise BindError('running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded')

    async def _bind_by_extender_or_self(self, pod: PodInfo, node: str) -> None:
        extender = next((e for e in self._extenders if e.config.bind_verb), None)
        if extender is not None:
            await extender.bind(pod, node)
            return
        outcome = await self._api.bind(pod.namespace, pod.name, pod.uid, node, {})
        if isinstance(outcome, Refused):
            raise BindError(outcome.message)
        if isinstance(outcome, Unknown):
            raise BindError(outcome.why)

    async def _fail(
        self, entry: QueuedPod, message: str, rejectors: Sequence[str] | set[str], nominated: str | None = ""
    ) -> None:
        """Put the pod back into the queue, unless the pod is gone or bound meanwhile, and write its condition.

        rejectors: the plugins that refused the pod; empty after an error. nominated: the node for which the pod is
        nominated from now on ("": none; None: unchanged).
        """
        latest = self.cache.pods.get(entry.pod.uid)
        if latest is None:
            self.queue.done(entry.pod.uid)
            return  # kube-scheduler also gives the pod up here and logs "Pod doesn't exist in informer cache"
        if latest.node:
            self.queue.done(latest.uid)
        else:
            self.queue.fail(entry, latest, rejectors)
        await self._patch(latest, "Unschedulable" if rejectors else "SchedulerError", message, nominated)

    async def _patch(self, pod: PodInfo, reason: str, message: str, nominated: str | None) -> None:
        status = pod.item.get("status", {})
        conditions: Sequence[Json] = status.get("conditions") or ()
        new = condition("PodScheduled", "False", reason, message, self._clock.now())
        unchanged = any(
            all(c.get(k) == new.get(k) for k in ("type", "status", "reason", "message")) for c in conditions
        )
        change: Json = {} if unchanged else {"conditions": with_condition(conditions, new)}
        if nominated is not None and (status.get("nominatedNodeName") or "") != nominated:
            change["nominatedNodeName"] = nominated or None
        if change:
            ref = Ref(PODS, pod.namespace, pod.name)
            outcome = await self._api.patch(ref, {"status": change}, subresource="status", uid=pod.uid)
            if isinstance(outcome, Refused | Unknown):
                _log.info("status of %s: %s", pod.name, outcome)

"""Connect an API server to the simulated world: changes of the world become API objects, and writes change the world.

Nodes, jobs, pods and quotas live in the world, which simulates the operator, the kubelets and the training. ConfigMaps,
Leases and Events exist only in the API server's store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from extender.clock import Clock
from extender.kube.api import CONFIGMAPS, NODES, PODS, QUOTAS, Json, Resource
from extender.kube.jobkinds import KINDS, MEMORY, RELEASED, REPORTS, TFJOB
from lab.embedded.apirules import StatusError
from lab.embedded.apiserver import ApiServer, GatePolicy
from lab.embedded.render import KEY_OF_ROLE, QUOTA, RESOURCE_OF, job_json, node_json, pod_json, quota_json
from lab.sim.objects import JobObject, ObjectKind, Verb, WorldChange, WorldRefusal
from lab.sim.pods.world import SimulatedWorld
from policy.cluster.job import PS, WORKER
from policy.cluster.node import Node

JOBS: Final = tuple(RESOURCE_OF.values())
LONGEST_REST: Final = 3600.0
NOTES: Final = (REPORTS, MEMORY)  # Kohort writes these annotations to a job while the job runs


Observe = Callable[[float, list[WorldChange]], None]
"""A function that is called with a time in seconds and the changes of the world at that time."""


class Bridge:
    """Runs a simulated world by the clock. Changes of the world are copied to the API server's store, and writes to the
    API server are applied to the world.
    """

    def __init__(self, world: SimulatedWorld, server: ApiServer, clock: Clock, gate: GatePolicy | None = None) -> None:
        self.world = world
        self.observe: Observe | None = None
        self._server = server
        self._clock = clock
        self._seen = 0
        self._stir = asyncio.Event()
        self._gate = gate
        # _quotas maps a namespace to its quota's limit of pods and its used pods, as last stored
        self._quotas: dict[str, tuple[int, int]] = {}
        server.commit = self.commit
        if gate is not None:
            item = {"metadata": {"name": gate.name}, "data": {"gate": "off"}}
            server.create(CONFIGMAPS, gate.namespace, item)
        self.drain()

    async def run(self) -> None:
        """Advance the world with the clock until cancelled."""
        while True:
            self.advance()
            self._stir.clear()
            following = self.world.next_time()
            rest = LONGEST_REST if following is None else following - self._clock.now()
            try:
                async with self._clock.timeout(max(0.0, rest)):
                    await self._stir.wait()
            except TimeoutError:
                pass

    def advance(self) -> None:
        """Advance the world to the clock's time, event by event, and copy the changes of each event to the store."""
        now = max(self.world.now, self._clock.now())
        while (at := self.world.next_time()) is not None and at <= now:
            self.world.advance(at)
            self.drain()
        self.world.advance(now)

    def do(self, write: Callable[[SimulatedWorld], WorldRefusal | None]) -> None:
        """Advance the world to the present and apply ``write`` to it. Raises StatusError if the world refuses."""
        self.advance()
        refusal = write(self.world)
        self.drain()
        self._stir.set()
        if refusal is not None:
            raise StatusError(refusal.status, refusal.reason, refusal.message)

    def drain(self) -> None:
        """Copy the objects that the world has changed to the store. An object that changed several times is copied
        once, in its last state.
        """
        changes = self.world.changes(self._seen) or []
        if changes and self.observe is not None:
            self.observe(self.world.now, changes)
        last = {_uid(change): change for change in changes}
        self._seen = self.world.revision
        self.world.compact(self._seen)
        for change in last.values():
            self._show(change)
        self._show_quotas()

    def _show_quotas(self) -> None:
        """Write how much of each quota is used, as the API server does when it admits a pod."""
        now, store = self.world.quotas(), self._server.store
        for namespace in self._quotas.keys() - now.keys():
            store.remove(QUOTAS, namespace, QUOTA)
        for namespace, (most, used) in now.items():
            if self._quotas.get(namespace) != (most, used):
                store.put(QUOTAS, quota_json(namespace, most, used))
        self._quotas = now

    def _show(self, change: WorldChange) -> None:
        resource, found, store = resource_of(change), change.object, self._server.store
        if isinstance(found, Node):
            namespace, name = "", found.name
        else:
            namespace, _, name = found.key.partition("/")
        old = store.get(resource, namespace, name)
        if change.verb is Verb.DELETED:
            if old is not None and old["metadata"]["uid"] == found.uid:
                store.remove(resource, namespace, name)
            return
        if old is not None and old["metadata"]["uid"] != found.uid:
            store.remove(resource, namespace, name)
            old = None
        if isinstance(found, Node):
            item = node_json(found, old)
        else:
            item = job_json(found, old) if isinstance(found, JobObject) else pod_json(found, old)
        if item != old:
            store.put(resource, item)

    # -- The methods below carry out writes of clients. ----------------------------------------------

    def commit(self, resource: Resource, before: Json | None, after: Json | None) -> bool:
        """Apply a write that was admitted to the world; return False for an object that only the store has."""
        if resource == CONFIGMAPS and after is not None:
            self._switch_gate(after)
        if resource not in (NODES, PODS, *JOBS):
            return False
        if before is None:
            raise StatusError(405, "MethodNotAllowed", f"{resource} are created by the world only")
        namespace, name = before["metadata"].get("namespace", ""), before["metadata"]["name"]
        if after is None:
            self.do(lambda world: _delete(world, resource, namespace, name))
        elif resource == PODS:
            self._change_pod(before, after, namespace, name)
        elif resource in JOBS:
            self.do(lambda world: _change_job(world, before, after, namespace, name))
        elif any(before[key] != after[key] for key in ("spec", "status")):
            raise StatusError(405, "MethodNotAllowed", f"{resource} are changed by the world only")
        else:
            return False  # The world knows no annotations of nodes.
        return True

    def _switch_gate(self, item: Json) -> None:
        meta, gate = item["metadata"], self._gate
        if gate is not None and (meta.get("namespace"), meta["name"]) == (gate.namespace, gate.name):
            self.world.set_gating((item.get("data") or {}).get("gate") == "on")

    def _change_pod(self, before: Json, after: Json, namespace: str, name: str) -> None:
        def write(world: SimulatedWorld) -> WorldRefusal | None:
            for step in _pod_steps(before, after):
                if (refusal := step(world, namespace, name)) is not None:
                    return refusal
            return None

        self.do(write)


def resource_of(change: WorldChange) -> Resource:
    """Return the API resource (nodes, pods or a kind of job) of the changed object."""
    if isinstance(change.object, JobObject):
        return RESOURCE_OF[change.object.spec.kind]
    return NODES if change.kind is ObjectKind.NODE else PODS


Step = Callable[[SimulatedWorld, str, str], WorldRefusal | None]


def _pod_steps(before: Json, after: Json) -> list[Step]:
    """Return the calls of the world that turn the pod's state ``before`` into ``after``."""
    old, new = before["spec"], after["spec"]
    if after["metadata"].get("deletionTimestamp") and not before["metadata"].get("deletionTimestamp"):
        return [lambda w, ns, n: w.delete_pod(ns, n)]
    notes = _changed(_notes(before), _notes(after))
    if new.get("nodeName") and not old.get("nodeName"):
        return [lambda w, ns, n: w.bind(ns, n, new["nodeName"], annotations=notes)]
    steps: list[Step] = []
    kept = [gate["name"] for gate in new.get("schedulingGates") or ()]
    for gate in old.get("schedulingGates") or ():
        if gate["name"] not in kept:
            steps.append(lambda w, ns, n, gone=gate["name"]: w.ungate(ns, n, gate=gone))  # type: ignore[misc]
    if notes:
        steps.append(lambda w, ns, n: w.annotate(ns, n, notes))
    nominated = [part.get("status", {}).get("nominatedNodeName") or "" for part in (before, after)]
    if nominated[0] != nominated[1]:
        steps.append(lambda w, ns, n: w.nominate(ns, n, nominated[1]))
    if _is_preempted(after) and not _is_preempted(before):
        steps.append(lambda w, ns, n: w.preempt(ns, n))
    old_condition, new_condition = _scheduled(before), _scheduled(after)
    if new_condition is not None and new_condition != old_condition:
        steps.append(lambda w, ns, n: w.patch_scheduled_condition(ns, n, *new_condition))
    return steps


def _scheduled(pod: Json) -> tuple[bool, str, str] | None:
    for found in pod.get("status", {}).get("conditions") or ():
        if found.get("type") == "PodScheduled":
            return found.get("status") == "True", found.get("reason", ""), found.get("message", "")
    return None


def _is_preempted(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(found.get("type") == "DisruptionTarget" and found.get("status") == "True" for found in conditions)


def _changed(before: Json, after: Json) -> dict[str, Any]:
    gone = dict.fromkeys(before.keys() - after.keys())
    return {key: value for key, value in after.items() if before.get(key) != value} | gone


def _change_job(world: SimulatedWorld, before: Json, after: Json, namespace: str, name: str) -> WorldRefusal | None:
    """Apply a write of a job object to the world: a change of its workers, its annotations, its suspension or its
    release.

    Changes of other fields are ignored. A release may change the number of ps in the same write.
    """
    if (workers := replicas_of(after, WORKER)) != replicas_of(before, WORKER):
        return world.patch_workers(namespace, name, workers)
    if notes := {key: _notes(after)[key] for key in NOTES if _notes(after).get(key) != _notes(before).get(key)}:
        job = world.store.job_named(namespace, name)
        return world.put_spec(replace(job.spec, annotations={**job.spec.annotations, **notes})) if job else None
    if not KINDS[after["kind"]].suspends:
        return None
    suspended = _suspended(after)
    if RELEASED in _changed(_notes(before), _notes(after)):
        servers = replicas_of(after, PS) if replicas_of(after, PS) != replicas_of(before, PS) else None
        return world.release(namespace, name, RELEASED in _notes(after), suspended=suspended, servers=servers)
    return world.suspend(namespace, name, suspended)


def _suspended(job: Json) -> bool:
    found = job["spec"]
    for name in KINDS[job["kind"]].suspend_at:
        found = (found or {}).get(name)
    return found is True


def _notes(item: Json) -> Json:
    return item["metadata"].get("annotations") or {}


def replicas_of(job: Json, role: str) -> int:
    """Return the number of replicas of that role that the job object states."""
    if counts := KINDS[job["kind"]].counts:
        return int(job["spec"][counts[0]]) if role == WORKER else 0
    return int(((job["spec"].get(TFJOB.replicas_at) or {}).get(KEY_OF_ROLE[role]) or {}).get("replicas", 0))


def _delete(world: SimulatedWorld, resource: Resource, namespace: str, name: str) -> WorldRefusal | None:
    if resource == PODS:
        return world.delete_pod(namespace, name)
    return world.delete_job(namespace, name) if resource in JOBS else world.remove_node(name)


def _uid(change: WorldChange) -> str:
    """Return a key that identifies the changed object within a batch: a node's name, or the UID of a job or pod."""
    return change.object.name if isinstance(change.object, Node) else change.object.uid

"""The write verbs of an API server over an `ObjectStore`: create, update, patch, bind, delete.

Each verb returns an object or raises `StatusError`. The MutatingAdmissionPolicy that adds the scheduling gate is
imitated; it reads the same ConfigMap as the real one, whose ``data.gate`` is ``on`` or ``off``.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from extender.clock import Clock
from extender.kube.api import CONFIGMAPS, PODS, Json, Ref, Resource
from extender.kube.jobkinds import GATE
from lab.embedded import apirules
from lab.embedded.apirules import StatusError
from lab.embedded.objectstore import ObjectStore, key_of


@dataclass(frozen=True, slots=True)
class GatePolicy:
    """The admission policy that gives new pods the scheduling gate.

    scheduler_name: pods with this schedulerName get the gate. namespace, name: the ConfigMap that turns the gate on.
    """

    scheduler_name: str = "kohort"
    namespace: str = "kohort-system"
    name: str = "kohort-gate"


Commit = Callable[[Resource, Json | None, Json | None], bool]
"""A function that is called with each write: the resource, and the object before and after it (None if there is none).

It returns True if it has stored the object itself.
"""


Admission = Callable[[Resource, Json, Json], str]
"""A function that is called with each change: the resource, and the object before and after it.

It returns why the admission policy denies the change, or an empty string if it allows it.
"""


class ApiServer:
    """The write verbs of an API server. Each may raise StatusError; readers use ``store`` directly."""

    def __init__(self, store: ObjectStore, clock: Clock, chance: random.Random, gate: GatePolicy | None = None) -> None:
        self.store = store
        self.clock = clock
        self.admission: Admission = lambda resource, before, after: ""
        self.commit: Commit = lambda resource, before, after: False
        self._chance = chance
        self._gate = gate

    def create(self, resource: Resource, namespace: str, item: Json) -> Json:
        """Create the object. An object without a name gets a name that begins with its ``generateName``."""
        meta = dict(item.get("metadata") or {})
        if not meta.get("name"):
            meta["name"] = f"{meta.get('generateName', '')}{self._chance.getrandbits(32):08x}"
        if self.store.get(resource, namespace if resource.namespaced else "", meta["name"]) is not None:
            raise StatusError(409, "AlreadyExists", f'{resource} "{meta["name"]}" already exists')
        uid = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
        gate = GATE if resource == PODS and self._gates(item) else ""
        made = apirules.created(resource, namespace, {**item, "metadata": meta}, uid, self.clock.now(), gate=gate)
        return self._store(resource, None, made)

    def update(self, ref: Ref, item: Json) -> Json:
        """Replace the whole object. If ``item`` has a resourceVersion, it must equal the object's current one."""
        before = self._have(ref)
        return self._store(ref.resource, before, apirules.updated(ref.resource, before, item))

    def patch(self, ref: Ref, patch: Any, content_type: str, subresource: str = "") -> Json:
        """Patch the object, its status or its scale; a patch that changes nothing makes no new resourceVersion."""
        item = self._have(ref)
        after = apirules.patched(ref.resource, item, patch, content_type, subresource)
        self._admit(ref.resource, item, after)
        stored = item if after == item else self._store(ref.resource, item, after)
        return apirules.scale_of(ref.resource, stored) if subresource == "scale" else stored

    def bind(self, namespace: str, name: str, binding: Json) -> Json:
        """Create a Binding of the pod. Like the real API server, do not check that the node exists or has room."""
        pod = self._have(Ref(PODS, namespace, name))
        after = apirules.bound(pod, binding, self.clock.now())
        self._admit(PODS, pod, after)
        self._store(PODS, pod, after)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

    def delete(self, ref: Ref, options: Json | None = None) -> Json:
        """Delete the object. A bound pod is only marked with a deletionTimestamp; its kubelet removes it later."""
        item = self._have(ref)
        wanted = ((options or {}).get("preconditions") or {}).get("uid")
        if wanted not in (None, item["metadata"]["uid"]):
            why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {item['metadata']['uid']}"
            raise apirules.conflict(ref.resource, ref.name, why)
        if ref.resource == PODS and item["spec"].get("nodeName") and (options or {}).get("gracePeriodSeconds") != 0:
            return self._mark_deleted(item)
        if self.commit(ref.resource, item, None):
            return item
        return self.store.remove(ref.resource, ref.namespace, ref.name) or item

    def _mark_deleted(self, pod: Json) -> Json:
        if pod["metadata"].get("deletionTimestamp"):
            return pod
        meta = {**pod["metadata"], "deletionTimestamp": apirules.timestamp(self.clock.now())}
        return self._store(PODS, pod, {**pod, "metadata": meta})

    def _admit(self, resource: Resource, before: Json, after: Json) -> None:
        """Raise StatusError if the admission policy denies the change (status 422, the default of a
        ValidatingAdmissionPolicy).
        """
        if message := self.admission(resource, before, after):
            name = before["metadata"]["name"]
            raise StatusError(422, "Invalid", f'{resource} "{name}" is forbidden: {message}')

    def _have(self, ref: Ref) -> Json:
        item = self.store.get(ref.resource, ref.namespace if ref.resource.namespaced else "", ref.name)
        if item is None:
            raise apirules.not_found(ref.resource, ref.name)
        return item

    def _store(self, resource: Resource, before: Json | None, after: Json) -> Json:
        if not self.commit(resource, before, after):
            return self.store.put(resource, after)
        namespace, name = key_of(after)
        return self.store.get(resource, namespace, name) or after

    def _gates(self, pod: Json) -> bool:
        policy = self._gate
        if policy is None or (pod.get("spec") or {}).get("schedulerName") != policy.scheduler_name:
            return False
        parameters = self.store.get(CONFIGMAPS, policy.namespace, policy.name) or {}
        return bool((parameters.get("data") or {}).get("gate") == "on")

"""The rules by which an API server answers a write of one object: preconditions, admission, and immutable fields.

The functions are pure: they take the current object and the request, and return the object to store or raise
`StatusError`. This module has the rules only for the few kinds that Kohort reads and writes, and knows no storage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from extender.kube.api import (
    BATCHJOBS,
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    QUOTAS,
    STATEFULSETS,
    TFJOBS,
    Json,
    Resource,
)
from extender.kube.podgroupkinds import COSCHEDULING, GROUP
from lab.embedded.patches import PatchError, json_patch, merge_patch

KIND_OF: Final[Mapping[Resource, str]] = {
    PODS: "Pod",
    NODES: "Node",
    CONFIGMAPS: "ConfigMap",
    NAMESPACES: "Namespace",
    EVENTS: "Event",
    QUOTAS: "ResourceQuota",
    LEASES: "Lease",
    TFJOBS: "TFJob",
    BATCHJOBS: "Job",
    STATEFULSETS: "StatefulSet",
    DEPLOYMENTS: "Deployment",
    COSCHEDULING.resource: GROUP,
}
HAS_STATUS: Final = frozenset({PODS, NODES, TFJOBS, BATCHJOBS, STATEFULSETS, DEPLOYMENTS})
HAS_SCALE: Final = frozenset({STATEFULSETS, DEPLOYMENTS})
KEPT_METADATA: Final = ("name", "namespace", "uid", "creationTimestamp", "resourceVersion", "deletionTimestamp")


class StatusError(Exception):
    """The API server refuses a request, with this HTTP status, reason and message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message

    def body(self) -> Json:
        """Return the Status object that is the body of the response."""
        return {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "code": self.status, "reason": self.reason, "message": self.message,
        }  # fmt: skip


def timestamp(seconds: float) -> str:
    """Format a time as in Kubernetes metadata: RFC 3339, whole seconds."""
    return _timestamp(math.floor(seconds))


@lru_cache(maxsize=4096)
def _timestamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def not_found(resource: Resource, name: str) -> StatusError:
    """Return the error for an object that does not exist."""
    return StatusError(404, "NotFound", f'{resource} "{name}" not found')


def conflict(resource: Resource, name: str, why: str) -> StatusError:
    """Return the error for a precondition that does not hold."""
    return StatusError(409, "Conflict", f'Operation cannot be fulfilled on {resource} "{name}": {why}')


def invalid(resource: Resource, name: str, why: str) -> StatusError:
    """Return the error for a write after which the object would be invalid."""
    return StatusError(422, "Invalid", f'{KIND_OF[resource]}.{resource.group} "{name}" is invalid: {why}')


def typed(resource: Resource, item: Json) -> Json:
    """Return the object with the fields kind and apiVersion of its resource added."""
    return {"apiVersion": resource.api_version, "kind": KIND_OF[resource], **item}


def created(resource: Resource, namespace: str, item: Json, uid: str, now: float, *, gate: str) -> Json:
    """Return a new object in the form in which it is stored.

    gate: the name of the scheduling gate that the admission policy adds to a new pod; empty: none.
    """
    meta: Json = {**item.get("metadata", {}), "uid": uid, "creationTimestamp": timestamp(now), "generation": 1}
    if resource.namespaced:
        meta["namespace"] = namespace
    made = typed(resource, {**item, "metadata": meta})
    return _new_pod(made, gate, now) if resource == PODS else made


def _new_pod(pod: Json, gate: str, now: float) -> Json:
    spec: Json = {"schedulerName": "default-scheduler", "priority": 0, **pod.get("spec", {})}
    gates = list(spec.get("schedulingGates") or ())
    if gate and not spec.get("nodeName") and {"name": gate} not in gates:
        gates.append({"name": gate})
    status: Json = {"phase": "Pending", **pod.get("status", {})}
    if gates:
        spec["schedulingGates"] = gates
        text = "Scheduling is blocked due to non-empty scheduling gates"
        status["conditions"] = [condition("PodScheduled", "False", "SchedulingGated", text, now)]
    return {**pod, "spec": spec, "status": status}


def condition(kind: str, status: str, reason: str, message: str, now: float) -> Json:
    """Return a condition of type ``kind``; empty texts are left out, because Kubernetes does not encode them either."""
    texts = {key: value for key, value in (("reason", reason), ("message", message)) if value}
    return {"type": kind, "status": status, "lastTransitionTime": timestamp(now), **texts}


def with_condition(conditions: Sequence[Json], new: Json) -> list[Json]:
    """Return the conditions with ``new`` in place of the condition of the same type, if there is one."""
    kept = [old for old in conditions if old.get("type") != new["type"]]
    return [*kept, new]


def patched(resource: Resource, item: Json, patch: Any, content_type: str, subresource: str) -> Json:
    """Return the object after a patch of the object, or of its subresource ``status`` or ``scale``.

    Raises StatusError if the patch breaks a rule.
    """
    name = item["metadata"]["name"]
    shown = scale_of(resource, item) if subresource == "scale" else item
    if content_type == "application/json-patch+json":
        try:
            changed: Json = json_patch(shown, patch)
        except PatchError as error:
            raise invalid(resource, name, str(error)) from None
    elif content_type == "application/merge-patch+json":
        _check_preconditions(resource, item, patch)
        changed = merge_patch(shown, patch)
    else:
        raise StatusError(415, "UnsupportedMediaType", f"{content_type} is not served here")
    if subresource == "scale":
        changed = _scaled(resource, item, changed)
    return updated(resource, item, changed, subresource)


def scale_of(resource: Resource, item: Json) -> Json:
    """Return the object's Scale, which has neither annotations nor labels.

    The function imitates ScaleREST in pkg/registry/apps/deployment/storage.
    """
    if resource not in HAS_SCALE:
        raise StatusError(404, "NotFound", "the server could not find the requested resource")
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    meta = {key: item["metadata"][key] for key in kept if key in item["metadata"]}
    spec = {"replicas": item["spec"].get("replicas", 1)}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta, "spec": spec}


def _scaled(resource: Resource, item: Json, scale: Json) -> Json:
    """Return the object with the replicas that a changed Scale states; other fields of the Scale are ignored."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        why = f"spec.replicas: Invalid value: {replicas}: must be greater than or equal to 0"
        raise invalid(resource, item["metadata"]["name"], why)
    version = (scale.get("metadata") or {}).get("resourceVersion", item["metadata"]["resourceVersion"])
    meta = {**item["metadata"], "resourceVersion": version}
    return {**item, "metadata": meta, "spec": {**item["spec"], "replicas": replicas}}


def _check_preconditions(resource: Resource, item: Json, patch: Any) -> None:
    wanted, have = (patch.get("metadata") or {}), item["metadata"]
    if wanted.get("uid") not in (None, have["uid"]):
        why = f'metadata.uid: Invalid value: "{wanted["uid"]}": field is immutable'
        raise invalid(resource, have["name"], why)
    if wanted.get("resourceVersion") not in (None, have["resourceVersion"]):
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise conflict(resource, have["name"], why)


def updated(resource: Resource, item: Json, changed: Json, subresource: str = "") -> Json:
    """Return the object to store when a request turns ``item`` into ``changed``.

    Only a request for the subresource ``status`` changes the status, and immutable metadata stays. Raises StatusError
    if the change breaks a rule.
    """
    before, meta = item["metadata"], dict(changed.get("metadata", {}))
    if meta.get("resourceVersion") not in (None, "", before["resourceVersion"]):
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise conflict(resource, before["name"], why)
    meta |= {key: before[key] for key in KEPT_METADATA if key in before}
    result = {**changed, "metadata": meta}
    if resource in HAS_STATUS:
        part, other = ("status", "spec") if subresource == "status" else ("spec", "status")
        result = {**result, other: item.get(other, {})}
        if part == "spec" and resource == PODS:
            _check_pod_spec(item, result)
        if part == "spec" and resource == BATCHJOBS:
            _check_completions(item, result)
        if part == "spec" and result.get("spec") != item.get("spec"):
            meta["generation"] = before.get("generation", 1) + 1
    return result


def _check_pod_spec(before: Json, after: Json) -> None:
    """Raise StatusError if anything in a pod's spec changes, except that scheduling gates are removed."""
    name, old, new = before["metadata"]["name"], before["spec"], after.get("spec", {})
    gates = [gate for gate in new.get("schedulingGates") or () if gate not in (old.get("schedulingGates") or ())]
    if gates:
        why = f"spec.schedulingGates: Forbidden: only deletion is allowed, but found new scheduling gate {gates[0]}"
        raise invalid(PODS, name, why)
    rest = {key: value for key, value in old.items() if key != "schedulingGates"}
    if {key: value for key, value in new.items() if key != "schedulingGates"} != rest:
        raise invalid(PODS, name, "spec: Forbidden: pod updates may not change fields other than the gates")


def _check_completions(before: Json, after: Json) -> None:
    """Raise StatusError if an Indexed Job's completions change without its parallelism.

    The function imitates validateCompletions in pkg/apis/batch/validation.
    """
    old, new = before["spec"], after["spec"]
    if new.get("completions") != old.get("completions") and new.get("completions") != new.get("parallelism"):
        why = f"spec.completions: Invalid value: {new.get('completions')}: field is immutable"
        raise invalid(BATCHJOBS, before["metadata"]["name"], why)


def bound(pod: Json, binding: Json, now: float) -> Json:
    """Return the pod as it is after its Binding was created. Raises StatusError if the API server would refuse the
    Binding.

    The function imitates assignPod in pkg/registry/core/pod/storage.
    """
    resource, meta, spec = Resource("", "v1", "pods/binding"), pod["metadata"], pod["spec"]
    wanted, name = binding.get("metadata") or {}, meta["name"]
    if wanted.get("uid") not in (None, "", meta["uid"]):
        why = f"Precondition failed: UID in precondition: {wanted['uid']}, UID in object meta: {meta['uid']}"
        raise conflict(resource, name, why)
    if meta.get("deletionTimestamp"):
        raise conflict(resource, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise conflict(resource, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise conflict(resource, name, f"pod {name} has non-empty .spec.schedulingGates")
    status = {key: value for key, value in pod.get("status", {}).items() if key != "nominatedNodeName"}
    scheduled = condition("PodScheduled", "True", "", "", now)
    status["conditions"] = with_condition(status.get("conditions") or (), scheduled)
    notes = {**(meta.get("annotations") or {}), **(wanted.get("annotations") or {})}
    return {
        **pod,
        "metadata": {**meta, "annotations": notes} if notes else meta,
        "spec": {**spec, "nodeName": binding["target"]["name"]},
        "status": status,
    }

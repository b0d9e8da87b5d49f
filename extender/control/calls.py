"""Turns the extender's orders into calls of the Kubernetes API, and makes one call.

An order states one thing that the extender wants to be true, such as a job's number of workers; a call is the write
that makes it true. A call on a pod or a job
carries the object's uid, and a call on a job also its resourceVersion, as a precondition, so that a repeated call is
harmless.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, assert_never

from extender.control.callkinds import (
    AskToSave,
    Call,
    Evict,
    MarkNode,
    MarkScheduled,
    Nominate,
    Note,
    Release,
    Renumber,
    SetGate,
    SetReplicas,
    Suspend,
    Ungate,
    Wake,
)
from extender.kube.api import NODES, PODS, Api, ClusterError, Done, Json, Outcome, Ref, Refused, Unknown
from extender.kube.fields import listed, part, text
from extender.kube.jobkinds import (
    CHECKPOINT,
    FAILURES,
    FORGIVE,
    GATE,
    KINDS,
    LEADER,
    MAX_WORKERS,
    MEMORY,
    MIN_WORKERS,
    RELEASED,
    REPORTS,
    SLOT,
    WAKE,
    JobKind,
    deletion_cost,
)
from extender.present.views.orders import DesiredView
from policy.cluster.orders import NodeOrder, NoteOrder, PodOrder, ReplicaOrder, SuspendOrder

SCHEDULED: Final = "PodScheduled"
GATES: Final = "/spec/schedulingGates"
ON: Final = "on"
OFF: Final = "off"


Key = tuple[str, str]
"""Kind of the call and UID of the object: at most one call of a key is under way."""


def key(call: Call) -> Key:
    """Return the kind of the call and the UID of the object that it writes to."""
    return type(call).__name__, "" if isinstance(call, SetGate) else call.order.uid


def calls(desired: DesiredView) -> Iterator[Call]:
    """Yield the calls in the order in which they should be made.

    Calls that free room come first, since other jobs wait for it; then decisions that must be recorded on the job
    before it starts; then the admission gate, since pods are being created meanwhile. Nominations come before the
    removal of the pods' gates, so that kube-scheduler's first attempt of a pod finds its nomination. Gates are removed
    in the extender's order: gang by gang, rigid members first.
    """
    yield from map(Release, desired.release)
    yield from map(Evict, desired.evict)
    yield from map(AskToSave, desired.checkpoint)
    yield from map(Suspend, sorted(desired.suspend, key=lambda order: not order.suspend))
    yield from map(Renumber, desired.renumber)
    yield from map(SetReplicas, sorted(desired.replicas, key=lambda order: order.workers > order.replicas))
    yield from map(Note, desired.note)
    if desired.gate is not None:
        yield SetGate(desired.gate)
    yield from map(Nominate, desired.nominate)
    yield from map(Ungate, desired.ungate)
    yield from map(Wake, desired.wake)
    yield from map(MarkScheduled, desired.scheduled)
    yield from map(MarkNode, desired.mark)


def takes_unsigned(call: Call) -> bool:
    """Tell whether the call removes pods by a write that has no place for the annotation with the leader's name.

    These are deletions, evictions and writes to a scale subresource. Without the annotation the API server cannot check
    whether the replica that sends the write leads.
    """
    if isinstance(call, SetReplicas):
        kind = KINDS.get(call.order.kind)
        return kind is not None and kind.scale
    return isinstance(call, Release | Evict)


async def perform(api: Api, call: Call, gate: Ref, leader: str = "") -> Outcome:
    """Make one call and return its outcome.

    ``gate``: the ConfigMap that switches the admission gate on and off. ``leader``: the leader's name, which is written
    as an annotation on each job that is changed.
    """
    match call:
        case SetGate(on):
            return await _set_gate(api, gate, ON if on else OFF)
        case Release(order):
            return await api.delete_pod(order.namespace, order.name, order.uid)
        case Evict(order):
            return await api.evict_pod(order.namespace, order.name, order.uid)
        case AskToSave(order):
            return await _annotate(api, order, {CHECKPOINT: order.value})
        case Wake(order):
            return await _annotate(api, order, {WAKE: order.value})
        case Renumber(order):
            index = int(order.value.rpartition("-")[2])
            return await _annotate(api, order, {SLOT: order.value, **deletion_cost(index)})
        case Nominate(order):
            status = {"status": {"nominatedNodeName": order.value or None}}
            return await api.patch(_pod(order), status, subresource="status", uid=order.uid)
        case Ungate(order):
            return await _ungate(api, order)
        case MarkScheduled(order):
            return await _mark_scheduled(api, order)
        case Note(noted):
            return await _note(api, noted, leader)
        case MarkNode(marked):
            return await _mark_node(api, marked)
        case Suspend(suspension):
            return await _suspend(api, suspension, leader)
        case SetReplicas(resize):
            return await _set_replicas(api, resize, leader)
        case _:
            assert_never(call)


def _pod(order: PodOrder) -> Ref:
    return Ref(PODS, order.namespace, order.name)


async def _annotate(api: Api, order: PodOrder, notes: Mapping[str, str]) -> Outcome:
    return await api.patch(_pod(order), {"metadata": {"annotations": dict(notes)}}, uid=order.uid)


async def _set_gate(api: Api, gate: Ref, value: str) -> Outcome:
    """Switch the admission gate in its ConfigMap, unless it has that value already.

    A needless write is avoided because the admission of every new pod reads the ConfigMap.
    """
    try:
        found = await api.get(gate)
    except ClusterError as error:
        return Refused(error.status, error.reason, error.message)
    if found is None:
        # The admission policy reads this ConfigMap; without it, every pod passes, as if the gate were off.
        words = "does not exist, so pods are created without the gate; apply manifests/base"
        missing = Refused(404, "NotFound", f"ConfigMap {gate.namespace}/{gate.name} {words}")
        return missing if value == ON else Done({})
    if (found.get("data") or {}).get("gate") == value:
        return Done(found)
    return await api.patch(gate, {"data": {"gate": value}})


def _unknown(reason: str, why: str) -> Refused:
    """Return the refusal of an order that no extender of this version gives."""
    return Refused(0, reason, f"{why}; run the extender and the controller in the same version")


async def _note(api: Api, order: NoteOrder, leader: str) -> Outcome:
    kind = KINDS.get(order.kind)
    if kind is None or kind.scale:
        return _unknown("NoObject", f"Kohort keeps no annotations on jobs of kind {order.kind}")
    written = {name: value for name, value in ((REPORTS, order.reports), (MEMORY, order.memory)) if value is not None}
    return await _patch_job(api, order, kind, {"metadata": {"annotations": {**written, **_by(leader)}}})


async def _mark_node(api: Api, order: NodeOrder) -> Outcome:
    """Write the annotation with the failures, on the condition that the node still has the order's version."""
    notes: dict[str, str | None] = {FAILURES: order.failures or None, **({FORGIVE: None} if order.forgiven else {})}
    patch = {"metadata": {"annotations": notes}}
    return await api.patch(Ref(NODES, "", order.name), patch, uid=order.uid, resource_version=str(order.version))


async def _suspend(api: Api, order: SuspendOrder, leader: str) -> Outcome:
    """Suspend or resume a job, and set or remove Kohort's annotation of the suspension in the same patch.

    With one write no reader sees the suspension without the annotation.
    """
    kind = KINDS.get(order.kind)
    if kind is None or not kind.suspends:
        return _unknown("NotSuspendable", f"jobs of kind {order.kind} cannot be suspended")
    mark = {"metadata": {"annotations": {RELEASED: "true" if order.suspend else None, **_by(leader)}}}
    patch = {**mark, **kind.suspend_patch(order.suspend, order.ps if kind.ps_restarts else None)}
    return await _patch_job(api, order, kind, patch)


async def _set_replicas(api: Api, order: ReplicaOrder, leader: str) -> Outcome:
    kind = KINDS.get(order.kind)
    if kind is None or not kind.resizes:
        return _unknown("NotElastic", f"the workers of jobs of kind {order.kind} cannot be changed")
    patch = kind.workers_patch(order.workers)
    bounds = {MIN_WORKERS: order.min_workers, MAX_WORKERS: order.max_workers}
    notes = {name: str(bound) for name, bound in bounds.items() if bound is not None}
    if not kind.scale:
        patch["metadata"] = {"annotations": {**notes, **_by(leader)}}
    return await _patch_job(api, order, kind, patch, "scale" if kind.scale else "")


async def _patch_job(
    api: Api, order: NoteOrder | SuspendOrder | ReplicaOrder, kind: JobKind, patch: Json, subresource: str = ""
) -> Outcome:
    """Patch the job that the order names, on the condition that it still has the order's uid and resourceVersion."""
    ref, version = Ref(kind.resource, order.namespace, order.name), str(order.version)
    return await api.patch(ref, patch, subresource=subresource, uid=order.uid, resource_version=version)


def _by(leader: str) -> dict[str, str | None]:
    """Return the annotation (name to value) that names the leader, for a merge patch.

    Where no leader is elected, ``leader`` is empty and the value None, which removes the annotation of an earlier term:
    the API server would refuse a write by a replica that is not the one named.
    """
    return {LEADER: leader or None}


async def _ungate(api: Api, order: PodOrder) -> Outcome:
    """Remove Kohort's scheduling gate from the pod.

    The first patch assumes that Kohort's gate is the pod's first gate, and saves a read. If the patch fails, the pod is
    read to find the gate.
    """
    ref = _pod(order)
    outcome = await api.patch(ref, _remove_gate(0), kind="json", uid=order.uid)
    if not (isinstance(outcome, Refused) and outcome.status == 422):
        return outcome
    try:
        pod = await api.get(ref)
    except ClusterError as error:
        return Unknown(str(error))
    if pod is None or pod.get("metadata", {}).get("uid") != order.uid:
        return Refused(404, "NotFound", "the pod no longer exists")
    index = _index(pod)
    if index is None:
        return Done(pod)
    return await api.patch(ref, _remove_gate(index), kind="json", uid=order.uid)


def _remove_gate(index: int) -> Sequence[Json]:
    """Return the JSON patch that removes the pod's scheduling gate at ``index``, if that is Kohort's gate."""
    place = f"{GATES}/{index}"
    return [{"op": "test", "path": f"{place}/name", "value": GATE}, {"op": "remove", "path": place}]


async def _mark_scheduled(api: Api, order: PodOrder) -> Outcome:
    """Read the pod, and replace its condition PodScheduled=False by True; other conditions stay.

    The API server had set the condition to True when it bound the pod. The condition keeps its lastTransitionTime.
    """
    ref = _pod(order)
    try:
        pod = await api.get(ref)
    except ClusterError as error:
        return Unknown(str(error))
    if pod is None or text(part(pod, "metadata"), "uid") != order.uid:
        return Refused(404, "NotFound", "the pod no longer exists")
    for index, found in enumerate(listed(part(pod, "status"), "conditions")):
        if text(found, "type") == SCHEDULED and text(found, "status") == "False":
            kept = {key: value for key, value in found.items() if key not in ("reason", "message")}
            place = f"/status/conditions/{index}"
            tests = [{"op": "test", "path": f"{place}/{key}", "value": found[key]} for key in ("type", "status")]
            true = {"op": "replace", "path": place, "value": {**kept, "status": "True"}}
            return await api.patch(ref, [*tests, true], kind="json", subresource="status", uid=order.uid)
    return Done(pod)


def _index(pod: Json) -> int | None:
    gates = pod.get("spec", {}).get("schedulingGates") or []
    return next((index for index, gate in enumerate(gates) if gate.get("name") == GATE), None)

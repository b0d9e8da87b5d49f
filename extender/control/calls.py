"""Turns the extender's orders into calls of the Kubernetes API, and makes them one by one.

An order says what the extender wants to be true; a call is one write that makes it true. A call on a pod or a job
carries the object's uid, and a call on a job also its resourceVersion, as a precondition, so that a repeated call is
harmless.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never, get_args

from extender.kube.api import PODS, Api, ClusterError, Done, Json, Outcome, Ref, Refused, Unknown
from extender.kube.fields import listed, part, text
from extender.kube.jobkinds import (
    CHECKPOINT,
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
from policy.cluster.orders import NoteOrder, PodOrder, ReplicaOrder, SuspendOrder

SCHEDULED: Final = "PodScheduled"
GATES: Final = "/spec/schedulingGates"
ON: Final = "on"
OFF: Final = "off"


@dataclass(frozen=True, slots=True)
class SetGate:
    """Switch the admission gate for new pods on or off."""

    on: bool


@dataclass(frozen=True, slots=True)
class PodCall:
    """A write to the pod that the order names, on the condition that the pod still has the order's uid."""

    order: PodOrder


class Release(PodCall):
    """Delete a bound member of a gang whose plan is given up."""


class Evict(PodCall):
    """Evict a member from its old node while its gang migrates; a PodDisruptionBudget may refuse it."""


class AskToSave(PodCall):
    """Annotate a member of a gang that is about to migrate, so that its training saves its state."""


class Renumber(PodCall):
    """Annotate a bound pod with the slot that it has now, and with the deletion cost that follows from the slot."""


class MarkScheduled(PodCall):
    """Set the condition PodScheduled of a bound pod to True, which kube-scheduler has set to False."""


class Nominate(PodCall):
    """Write the planned node into the pod's status; an empty node clears it."""


class Ungate(PodCall):
    """Remove Kohort's scheduling gate from the pod; other gates stay."""


class Wake(PodCall):
    """Annotate a refused pod, which makes kube-scheduler try it again."""


@dataclass(frozen=True, slots=True)
class Note:
    """Write a job's newest reports and the policy's memory of it into its annotations; None leaves an annotation
    unchanged.
    """

    order: NoteOrder


@dataclass(frozen=True, slots=True)
class Suspend:
    """Suspend a job, or resume it. The operator of a suspended job deletes its pods.

    Jobs are suspended when their gang is given up, paused or migrated. An annotation marks a suspension as Kohort's.
    """

    order: SuspendOrder


@dataclass(frozen=True, slots=True)
class SetReplicas:
    """Patch a job's worker replicas, on the condition that the job still has the order's resourceVersion.

    The same patch writes the order's bounds (fewest and most workers) as annotations; a bound is None in the order
    where the job states it itself.
    """

    order: ReplicaOrder


Call = (
    SetGate | Release | Evict | AskToSave | Suspend | Renumber | MarkScheduled | SetReplicas | Nominate | Ungate | Wake
    | Note
)  # fmt: skip
Key = tuple[str, str]
"""Kind of the call and UID of the object: at most one call of a key is under way."""
KINDS_OF_CALLS: Final = tuple(kind.__name__ for kind in get_args(Call))


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


def takes_unsigned(call: Call) -> bool:
    """Tell whether the call removes pods by a write that cannot carry the annotation with the leader's name.

    For such a write the API server cannot check whether the replica that sends it leads.
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


async def _note(api: Api, order: NoteOrder, leader: str) -> Outcome:
    kind = KINDS.get(order.kind)
    if kind is None or kind.scale:
        return Refused(0, "NoObject", f"Kohort keeps no annotations on jobs of kind {order.kind}")
    written = {name: value for name, value in ((REPORTS, order.reports), (MEMORY, order.memory)) if value is not None}
    return await _patch_job(api, order, kind, {"metadata": {"annotations": {**written, **_by(leader)}}})


async def _suspend(api: Api, order: SuspendOrder, leader: str) -> Outcome:
    """Patch Kohort's annotation and the suspension in one write, so that no reader sees one without the other."""
    kind = KINDS.get(order.kind)
    if kind is None or not kind.suspends:
        return Refused(0, "NotSuspendable", f"jobs of kind {order.kind} cannot be suspended")
    mark = {"metadata": {"annotations": {RELEASED: "true" if order.suspend else None, **_by(leader)}}}
    patch = {**mark, **kind.suspend_patch(order.suspend, order.ps if kind.ps_restarts else None)}
    return await _patch_job(api, order, kind, patch)


async def _set_replicas(api: Api, order: ReplicaOrder, leader: str) -> Outcome:
    kind = KINDS.get(order.kind)
    if kind is None or not kind.resizes:
        return Refused(0, "NotElastic", f"the workers of jobs of kind {order.kind} cannot be changed")
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
    """Return the annotation that names the leader.

    Where no leader is elected (empty name), the patch removes the annotation of an earlier term, because the API server
    would refuse the write of a replica with another name.
    """
    return {LEADER: leader or None}


async def _ungate(api: Api, order: PodOrder) -> Outcome:
    """Remove the pod's first gate if it is Kohort's, which takes one call; otherwise read the pod to find Kohort's."""
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
    """Return the JSON patch that removes the pod's gate at that index, and that fails if it is not Kohort's gate."""
    place = f"{GATES}/{index}"
    return [{"op": "test", "path": f"{place}/name", "value": GATE}, {"op": "remove", "path": place}]


async def _mark_scheduled(api: Api, order: PodOrder) -> Outcome:
    """Read the pod, and replace its condition PodScheduled=False by True; other conditions stay.

    The API server itself sets the condition to True when it binds a pod. The time of the transition stays that of the
    condition which is replaced.
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

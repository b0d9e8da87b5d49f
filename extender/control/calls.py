"""Turns orders into calls of the Kubernetes API, and makes one call; each carries a precondition.

An order is what the extender wants to be true; a call is one write that makes it so. Making a call twice is harmless.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, assert_never, get_args

from extender.kube.api import PODS, Api, ClusterError, Done, Json, Outcome, Ref, Refused, Unknown
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
    WAKE,
)
from extender.present.views import DesiredView

GATES: Final = "/spec/schedulingGates"
ON: Final = "on"
OFF: Final = "off"


@dataclass(frozen=True, slots=True)
class SetGate:
    """Switch the admission gate for new pods."""

    on: bool


@dataclass(frozen=True, slots=True)
class Release:
    """Delete a bound member of a gang that is given up."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a member that sits where it was, of a gang that is moved; PodDisruptionBudgets count."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class AskToSave:
    """Annotate a member of a gang that is to be moved: its training should save its state."""

    uid: str
    namespace: str
    name: str
    plan: str


@dataclass(frozen=True, slots=True)
class Note:
    """Write a job's newest reports and what the policy remembers of it into its annotations; None leaves one."""

    uid: str
    namespace: str
    name: str
    kind: str
    version: int
    reports: str | None = None
    memory: str | None = None


@dataclass(frozen=True, slots=True)
class Suspend:
    """Suspend a job under our mark, so that its operator deletes the pods of a gang that is given up; or undo it."""

    uid: str
    namespace: str
    name: str
    kind: str
    suspend: bool
    version: int


@dataclass(frozen=True, slots=True)
class SetReplicas:
    """Patch a job's worker replicas, if it still has that resourceVersion.

    ``min_workers``, ``max_workers``: a bound that the job does not state; it goes into an annotation with the patch.
    """

    uid: str
    namespace: str
    name: str
    kind: str
    workers: int
    version: int
    min_workers: int | None = None
    max_workers: int | None = None


@dataclass(frozen=True, slots=True)
class Nominate:
    """Write the planned node into the pod's status; an empty one clears it."""

    uid: str
    namespace: str
    name: str
    node: str


@dataclass(frozen=True, slots=True)
class Ungate:
    """Remove our scheduling gate from the pod; others' stay."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Wake:
    """Annotate a refused pod, which makes kube-scheduler try it again."""

    uid: str
    namespace: str
    name: str
    plan: str


Call = SetGate | Release | Evict | AskToSave | Suspend | SetReplicas | Nominate | Ungate | Wake | Note
Key = tuple[str, str]
"""Kind and UID of what is written: at most one call of a key is on its way."""
KINDS_OF_CALLS: Final = tuple(kind.__name__ for kind in get_args(Call))


def key(call: Call) -> Key:
    """What the call writes to."""
    return type(call).__name__, "" if isinstance(call, SetGate) else call.uid


def calls(desired: DesiredView) -> Iterator[Call]:
    """The calls in the order in which they should be made.

    What frees room comes first, since others wait for it; then decisions that must stand on the job before it starts;
    the gate next, since pods are being created meanwhile. A nomination precedes the first attempt. Gates go in the
    extender's order: gang by gang, rigid members first.
    """
    for order in desired.release:
        yield Release(order.uid, order.namespace, order.name)
    for order in desired.evict:
        yield Evict(order.uid, order.namespace, order.name)
    for order in desired.checkpoint:
        yield AskToSave(order.uid, order.namespace, order.name, order.value)
    for one in sorted(desired.suspend, key=lambda order: not order.suspend):
        yield Suspend(one.uid, one.namespace, one.name, one.kind, one.suspend, one.version)
    for wanted in sorted(desired.replicas, key=lambda order: order.workers > order.replicas):
        yield SetReplicas(
            wanted.uid, wanted.namespace, wanted.name, wanted.kind, wanted.workers, wanted.version,
            wanted.min_workers, wanted.max_workers,
        )  # fmt: skip
    for note in desired.note:
        yield Note(note.uid, note.namespace, note.name, note.kind, note.version, note.reports, note.memory)
    if desired.gate is not None:
        yield SetGate(desired.gate)
    for order in desired.nominate:
        yield Nominate(order.uid, order.namespace, order.name, order.value)
    for order in desired.ungate:
        yield Ungate(order.uid, order.namespace, order.name)
    for order in desired.wake:
        yield Wake(order.uid, order.namespace, order.name, order.value)


async def perform(api: Api, call: Call, gate: Ref, leader: str = "") -> Outcome:
    """Make one call. ``gate``: the ConfigMap that switches the gate. ``leader``: by whom a job is changed."""
    match call:
        case SetGate(on):
            return await _set_gate(api, gate, ON if on else OFF)
        case Release(uid, namespace, name):
            return await api.delete_pod(namespace, name, uid)
        case Evict(uid, namespace, name):
            return await api.evict_pod(namespace, name, uid)
        case AskToSave(uid, namespace, name, plan):
            asked = {"metadata": {"annotations": {CHECKPOINT: plan}}}
            return await api.patch(Ref(PODS, namespace, name), asked, uid=uid)
        case Note():
            return await _note(api, call, leader)
        case Suspend():
            return await _suspend(api, call, leader)
        case SetReplicas():
            return await _set_replicas(api, call, leader)
        case Nominate(uid, namespace, name, node):
            status = {"status": {"nominatedNodeName": node or None}}
            return await api.patch(Ref(PODS, namespace, name), status, subresource="status", uid=uid)
        case Ungate():
            return await _ungate(api, call)
        case Wake(uid, namespace, name, plan):
            notes = {"metadata": {"annotations": {WAKE: plan}}}
            return await api.patch(Ref(PODS, namespace, name), notes, uid=uid)
        case _:
            assert_never(call)


async def _set_gate(api: Api, gate: Ref, value: str) -> Outcome:
    """Write only where it differs: a switch for every pod that is created is no place for idle writes."""
    try:
        found = await api.get(gate)
    except ClusterError as error:
        return Refused(error.status, error.reason, error.message)
    if found is None:
        # Without its parameters the policy lets every pod pass, as if it were off.
        missing = Refused(404, "NotFound", f"ConfigMap {gate.namespace}/{gate.name}: pods are created ungated")
        return missing if value == ON else Done({})
    if (found.get("data") or {}).get("gate") == value:
        return Done(found)
    return await api.patch(gate, {"data": {"gate": value}})


async def _note(api: Api, call: Note, leader: str) -> Outcome:
    kind = KINDS.get(call.kind)
    if kind is None or kind.scale:
        return Refused(0, "NoObject", f"jobs of kind {call.kind} hold no notes")
    written = {name: value for name, value in ((REPORTS, call.reports), (MEMORY, call.memory)) if value is not None}
    notes = {"metadata": {"annotations": written | _by(leader)}}
    ref = Ref(kind.resource, call.namespace, call.name)
    return await api.patch(ref, notes, uid=call.uid, resource_version=str(call.version))


async def _suspend(api: Api, call: Suspend, leader: str) -> Outcome:
    """The mark and the suspension come and go in one write: neither is ever seen without the other."""
    kind = KINDS.get(call.kind)
    if kind is None or not kind.suspends:
        return Refused(0, "NotSuspendable", f"jobs of kind {call.kind} are not suspended")
    mark = {"metadata": {"annotations": {RELEASED: "true" if call.suspend else None, **_by(leader)}}}
    patch = {**mark, **kind.suspend_patch(call.suspend)}
    ref = Ref(kind.resource, call.namespace, call.name)
    return await api.patch(ref, patch, uid=call.uid, resource_version=str(call.version))


async def _set_replicas(api: Api, call: SetReplicas, leader: str) -> Outcome:
    kind = KINDS.get(call.kind)
    if kind is None or not (kind.counts or kind.roles):
        return Refused(0, "NotElastic", f"jobs of kind {call.kind} are not resized")
    patch = kind.workers_patch(call.workers)
    bounds = {MIN_WORKERS: call.min_workers, MAX_WORKERS: call.max_workers}
    notes = {name: str(bound) for name, bound in bounds.items() if bound is not None}
    if notes := {} if kind.scale else notes | _by(leader):
        patch["metadata"] = {"annotations": notes}
    ref = Ref(kind.resource, call.namespace, call.name)
    subresource = "scale" if kind.scale else ""
    return await api.patch(
        ref, patch, subresource=subresource, uid=call.uid, resource_version=str(call.version)
    )  # fmt: skip


def _by(leader: str) -> dict[str, str]:
    return {LEADER: leader} if leader else {}


async def _ungate(api: Api, call: Ungate) -> Outcome:
    """Guess that ours is the first gate, which costs one call; where it is not, look which one it is."""
    ref = Ref(PODS, call.namespace, call.name)
    outcome = await api.patch(ref, _remove_gate(0), kind="json", uid=call.uid)
    if not (isinstance(outcome, Refused) and outcome.status == 422):
        return outcome
    try:
        pod = await api.get(ref)
    except ClusterError as error:
        return Unknown(str(error))
    if pod is None or pod.get("metadata", {}).get("uid") != call.uid:
        return Refused(404, "NotFound", "the pod is gone")
    index = _index(pod)
    if index is None:
        return Done(pod)
    return await api.patch(ref, _remove_gate(index), kind="json", uid=call.uid)


def _remove_gate(index: int) -> Sequence[Json]:
    """Remove the gate at that index, if it is ours."""
    place = f"{GATES}/{index}"
    return [{"op": "test", "path": f"{place}/name", "value": GATE}, {"op": "remove", "path": place}]


def _index(pod: Json) -> int | None:
    gates = pod.get("spec", {}).get("schedulingGates") or []
    return next((index for index, gate in enumerate(gates) if gate.get("name") == GATE), None)

"""Finds the owner of a pod (a job or a pod group) and the pod's slot.

The owner is the pod's controller, that controller's own controller, or the pod group that the pod names.

A label alone proves nothing, because any pod can have it: it counts only where the pod's name is the one that the
controller would give the pod. Membership of a pod group cannot be proved, because only the pod states it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from extender.kube.fields import Json, listed, part, text
from extender.kube.jobkinds import DEPLOYMENT, INDEX_LABEL, INDEXED_JOB, JOBSET, KINDS, ROLE_LABEL, JobKind
from extender.kube.podgroupkinds import group_named
from policy.cluster.job import WORKER, Slot

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
TEMPLATE_HASH: Final = "pod-template-hash"
JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
LONGEST_GENERATED: Final = 58  # a generated pod name has at most so many characters before its five random ones


class OwnerName(NamedTuple):
    """The job or pod group that a pod belongs to, identified by resource, namespace and name, not by uid."""

    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Membership:
    """The owner (a job or a pod group) and the slot that a pod states.

    ``owner_uid``, ``owner``: uid and name of the job, where the job itself is the pod's controller. ``claim``: the name
    of the owner, where the pod states no more than that name. ``slot``: None where the pod does not state its slot. A
    pod without ``owner`` and ``claim`` is a gang of one pod if ``lone`` is true, and otherwise no member of any gang.
    """

    owner_uid: str = ""
    owner: str = ""
    claim: OwnerName | None = None
    slot: Slot | None = None
    lone: bool = False


NOBODY: Final = Membership()


def membership(item: Mapping[str, Any]) -> Membership:
    """Return the owner and slot that a pod object states by its owner reference, labels, annotations and name."""
    meta = part(item, "metadata")
    owner = controller(meta)
    kind = kind_of(owner)
    if (kind is None or kind.groups_first) and (group := group_named(item)) is not None:
        return Membership(claim=OwnerName(str(group[0].resource), text(meta, "namespace"), group[1]))
    if not owner:
        return Membership(lone=True, slot=Slot(WORKER, 0))
    if child := _jobset_member(meta, owner, kind):
        return child
    if kind is not None and kind.slots != "allotted":
        return Membership(owner_uid=text(owner, "uid"), owner=text(owner, "name"), slot=_slot(meta, owner, kind))
    return _deployment_member(meta, owner)


def controller(meta: Json) -> Json:
    """Return the object's owner reference with ``controller: true``; an empty mapping where there is none."""
    owners = (ref for ref in listed(meta, "ownerReferences") if isinstance(ref, dict) and ref.get("controller") is True)
    return next(owners, {})


def kind_of(owner: Json) -> JobKind | None:
    """Return the kind of job that an owner reference names; None where that kind is not supported."""
    kind = KINDS.get(text(owner, "kind"))
    known = kind is not None and text(owner, "apiVersion").startswith(f"{kind.resource.group}/")
    return kind if known else None


def _slot(meta: Json, owner: Json, kind: JobKind) -> Slot | None:
    name, job, labels = text(meta, "name"), text(owner, "name"), part(meta, "labels")
    match kind.slots:
        case "operator":
            return _operator_slot(name, job, labels, kind)
        case "indexed":
            index = _index(labels, COMPLETION_INDEX)
            return Slot(WORKER, index) if index is not None and _is_generated(name, job, index) else None
        case "ordinal":
            index = _index(labels, POD_INDEX)
            return Slot(WORKER, index) if index is not None and name == f"{job}-{index}" else None
        case _:
            return None


def _operator_slot(name: str, job: str, labels: Json, kind: JobKind) -> Slot | None:
    role = text(labels, ROLE_LABEL).lower()
    if role in {key.lower() for key in kind.unnumbered}:
        return Slot(role, 0) if name == f"{job}-{role}" else None
    index = _index(labels, INDEX_LABEL)
    return Slot(role, index) if index is not None and role and name == f"{job}-{role}-{index}" else None


def _index(labels: Json, label: str) -> int | None:
    """Return the index that a label holds; None where the label is absent or no index.

    An index with a leading zero is refused, because two pods (``1`` and ``01``) could then state the same slot.
    """
    index = text(labels, label)
    if not (index.isascii() and index.isdigit() and len(index) < 8) or index != str(int(index)):
        return None
    return int(index)


def _is_generated(name: str, job: str, index: int) -> bool:
    """Tell whether an Indexed Job would give this name to its pod of that index.

    Such a name is the Job's name (cut if it is long), the index and a random end.
    """
    tail = f"-{index}-"
    return name.startswith(job[: LONGEST_GENERATED - len(tail)] + tail)


def _jobset_member(meta: Json, owner: Json, kind: JobKind | None) -> Membership | None:
    """Return the membership of a pod whose Job was made by a JobSet; None for any other pod.

    Each Job that a JobSet makes is a role of the JobSet's gang.
    """
    labels = part(meta, "labels")
    jobset, role, job = text(labels, JOBSET_NAME), text(labels, REPLICATED_JOB), _index(labels, JOB_INDEX)
    if kind is not INDEXED_JOB or not (jobset and role) or job is None:
        return None
    claim = OwnerName(str(JOBSET.resource), text(meta, "namespace"), jobset)
    index, child = _index(labels, COMPLETION_INDEX), f"{jobset}-{role}-{job}"
    fits = text(owner, "name") == child and index is not None and _is_generated(text(meta, "name"), child, index)
    return Membership(claim=claim, slot=Slot(f"{role}-{job}", index) if fits and index is not None else None)


def _deployment_member(meta: Json, owner: Json) -> Membership:
    """Return the membership of a pod of a Deployment; `NOBODY`, which names no owner, for any other pod.

    The pod's controller is a ReplicaSet, whose name is the Deployment's name and the hash of the pod template.
    """
    tail = f"-{text(part(meta, 'labels'), TEMPLATE_HASH)}"
    name = text(owner, "name")
    if text(owner, "kind") != "ReplicaSet" or tail == "-" or not name.endswith(tail) or name == tail:
        return NOBODY
    return Membership(claim=OwnerName(str(DEPLOYMENT.resource), text(meta, "namespace"), name.removesuffix(tail)))

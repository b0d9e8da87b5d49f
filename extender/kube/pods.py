"""A pod object becomes a Pod of ``policy``, and one that opted in without an owner becomes a job of its own as well."""

from __future__ import annotations

from typing import Any

from extender.kube.fields import Json, ObjectError, condition, listed, part, seconds, text, whole
from extender.kube.jobkinds import GATE, INDEX_LABEL, KINDS, LONE_POD, PLAN, ROLE_LABEL, WAKE, JobKind
from extender.kube.jobs import identity
from extender.kube.podspec import constraints_of, requests_of, unsupported_in
from policy.cluster.model import WORKER, Job, Phase, Pod, Role, Slot
from policy.cluster.resources import Resources

LONGEST_REFUSAL = 1024  # characters


def read_pod(item: dict[str, Any], scheduler_name: str) -> Pod:
    """The pod; what is malformed in it counts as absent."""
    meta, spec, status = part(item, "metadata"), part(item, "spec"), part(item, "status")
    annotations = part(meta, "annotations")
    opted_in = text(spec, "schedulerName") == scheduler_name
    job_uid, slot, owner = _membership(meta) if opted_in else ("", None, "")
    scheduled = condition(status, "PodScheduled")
    return Pod(
        uid=text(meta, "uid"),
        namespace=text(meta, "namespace"),
        name=text(meta, "name"),
        requests=_requests(spec, status),
        node=text(spec, "nodeName"),
        phase=_phase(text(status, "phase")),
        job_uid=job_uid,
        slot=slot,
        owner=owner,
        opted_in=opted_in,
        terminating=bool(meta.get("deletionTimestamp")),
        gated=any(text(gate, "name") == GATE for gate in listed(spec, "schedulingGates")),
        refused=scheduled.get("status") == "False" and scheduled.get("reason") != "SchedulingGated",
        refusal=text(scheduled, "message")[:LONGEST_REFUSAL],
        woken=text(annotations, WAKE),
        plan=text(annotations, PLAN),
        nominated=text(status, "nominatedNodeName"),
        priority=whole(spec, "priority"),
        since=seconds(meta, "creationTimestamp"),
        version=whole(meta, "resourceVersion"),
    )


def is_lone(pod: Pod) -> bool:
    """Whether the pod opted in and has no owner: a gang of one."""
    return pod.opted_in and pod.job_uid == identity(pod.namespace, pod.uid)


def lone_job(item: dict[str, Any], pod: Pod) -> Job:
    """The job that a pod without an owner is: one worker."""
    spec, role, invalid = part(item, "spec"), Role(WORKER, 1, pod.requests), ""
    try:
        unsupported = tuple(name for name in unsupported_in(spec, "spec") if name != "nodeName")
        role = Role(WORKER, 1, requests_of(spec, "spec"), constraints_of(spec, "spec"), unsupported)
    except ObjectError as error:
        invalid = str(error)
    return Job(
        uid=pod.job_uid, namespace=pod.namespace, name=pod.name, kind=LONE_POD, arrival=pod.since, roles=(role,),
        min_workers=1, max_workers=1, finished=pod.ended, deleting=pod.terminating, keeps_pods=True, invalid=invalid,
        version=pod.version,
    )  # fmt: skip


def _membership(meta: Json) -> tuple[str, Slot | None, str]:
    """The job, the slot and the job's name of a pod that opted in, by its controller; one without is its own job."""
    namespace = text(meta, "namespace")
    owners = (ref for ref in listed(meta, "ownerReferences") if isinstance(ref, dict) and ref.get("controller") is True)
    owner = next(owners, None)
    if owner is None:
        return identity(namespace, text(meta, "uid")), Slot(WORKER, 0), ""
    kind = KINDS.get(text(owner, "kind"))
    if kind is None or not text(owner, "apiVersion").startswith(f"{kind.resource.group}/"):
        return "", None, ""
    name = text(owner, "name")
    return identity(namespace, text(owner, "uid")), _slot(meta, name, kind), name


def _slot(meta: Json, owner: str, kind: JobKind) -> Slot | None:
    """By the operator's labels, and only under the name that it gives: a label alone is a claim, not a fact.

    The index is in its shortest form (no leading zero), or two pods could claim one slot.
    """
    labels = part(meta, "labels")
    role, index = text(labels, ROLE_LABEL).lower(), text(labels, INDEX_LABEL)
    if role in {key.lower() for key in kind.unnumbered}:
        return Slot(role, 0) if text(meta, "name") == f"{owner}-{role}" else None
    if not (index.isascii() and index.isdigit() and len(index) < 8) or index != str(int(index)):
        return None
    return Slot(role, int(index)) if role and text(meta, "name") == f"{owner}-{role}-{index}" else None


def _requests(spec: dict[str, Any], status: dict[str, Any]) -> Resources:
    """A pod has passed the API server's validation; what still cannot be read counts as a pod and nothing else."""
    try:
        return requests_of(spec, "spec", status)
    except ObjectError:
        return Resources({"pods": 1})


def _phase(phase: str) -> Phase:
    try:
        return Phase(phase or "Pending")
    except ValueError:
        return Phase.RUNNING  # Unknown: the node is not heard of, the room is not free

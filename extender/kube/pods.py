"""Translates a pod object into a Pod of ``policy``. A pod that opted in and has no owner is also translated into a Job,
a gang of one pod.
"""

from __future__ import annotations

from typing import Any

from extender.kube.fields import ObjectError, condition, listed, part, seconds, text, whole
from extender.kube.jobkinds import CHECKPOINT, GATE, LONE_POD, PLAN, SLOT, WAKE
from extender.kube.jobobjects import identity
from extender.kube.membership import NOBODY, Membership, controller
from extender.kube.ownedpods import OwnedPod
from extender.kube.podgroupkinds import GroupKind, role_in
from extender.kube.podspec import limits_of, places_of, requests_of, unsupported_in
from extender.kube.unchecked import repels_in, unchecked_in
from policy.cluster.constraints import Constraints
from policy.cluster.job import WORKER, Job, Role, Slot
from policy.cluster.pod import Phase, Pod
from policy.cluster.resources import NOTHING, Resources

LONGEST_REFUSAL = 1024  # kube-scheduler's message on an unschedulable pod is cut to LONGEST_REFUSAL characters.
UNREADABLE = Resources({"pods": 1})  # These requests are assumed for a pod whose own cannot be read.


def read_pod(item: dict[str, Any], scheduler_name: str, of: Membership = NOBODY) -> Pod:
    """Return the pod that an API object describes; a malformed field counts as absent.

    ``of``: the pod's owner and slot.
    """
    meta, spec, status = part(item, "metadata"), part(item, "spec"), part(item, "status")
    annotations = part(meta, "annotations")
    namespace = text(meta, "namespace")
    job = of.owner_uid or (text(meta, "uid") if of.lone else "")
    scheduled = condition(status, "PodScheduled")
    opted_in = text(spec, "schedulerName") == scheduler_name
    requests = _requests(spec, status)
    gates = {text(gate, "name") for gate in listed(spec, "schedulingGates")}
    return Pod(
        uid=text(meta, "uid"),
        namespace=namespace,
        name=text(meta, "name"),
        requests=requests or UNREADABLE,
        node=text(spec, "nodeName"),
        phase=_phase(text(status, "phase")),
        job_uid=identity(namespace, job) if job else "",
        slot=of.slot if job else None,
        owner=of.owner,
        opted_in=opted_in,
        terminating=bool(meta.get("deletionTimestamp")),
        finalizers=_finalizers(meta),
        gated=GATE in gates,
        places=_places(spec) if opted_in else None,
        refused=scheduled.get("status") == "False" and scheduled.get("reason") != "SchedulingGated",
        refusal=text(scheduled, "message")[:LONGEST_REFUSAL],
        failed_attempt=(scheduled.get("status"), scheduled.get("reason")) == ("False", "SchedulerError"),
        volumes=_volumes(spec, text(meta, "name")) if opted_in else (),
        woken=text(annotations, WAKE),
        saves=text(annotations, CHECKPOINT),
        plan=text(annotations, PLAN),
        nominated=text(status, "nominatedNodeName"),
        preempted=_preempted(status),
        unchecked=unchecked_in(spec, requests) if opted_in and not text(spec, "nodeName") else (),
        repels=repels_in(spec, namespace),
        priority=whole(spec, "priority"),
        since=seconds(meta, "creationTimestamp"),
        version=whole(meta, "resourceVersion"),
        limits=_limits(spec) if opted_in else NOTHING,
        gates=tuple(sorted(gates - {GATE, ""})) if opted_in else (),
    )


def _volumes(spec: dict[str, Any], name: str) -> tuple[str, ...]:
    """Return the names of the pod's PersistentVolumeClaims, those of ephemeral volumes (POD-VOLUME) included.

    ``name``: the pod's name.
    """
    volumes = [volume for volume in listed(spec, "volumes") if isinstance(volume, dict)]
    claims = {text(part(volume, "persistentVolumeClaim"), "claimName") for volume in volumes}
    claims |= {f"{name}-{text(volume, 'name')}" for volume in volumes if part(volume, "ephemeral")}
    return tuple(sorted(claims - {""}))


def _finalizers(meta: dict[str, Any]) -> tuple[str, ...]:
    """Return the finalizers of a terminating pod, which delay its deletion; empty for any other pod."""
    found = listed(meta, "finalizers") if meta.get("deletionTimestamp") else []
    return tuple(name for name in found if isinstance(name, str))


def _preempted(status: dict[str, Any]) -> bool:
    """Tell whether a kube-scheduler has marked the pod as a victim of its preemption, which it does just before
    deleting it.
    """
    target = condition(status, "DisruptionTarget")
    return (target.get("status"), target.get("reason")) == ("True", "PreemptionByScheduler")


def is_lone(pod: Pod) -> bool:
    """Tell whether the pod opted in and has no owner, which makes it a gang of one pod."""
    return pod.opted_in and pod.job_uid == identity(pod.namespace, pod.uid)


def lone_job(item: dict[str, Any], pod: Pod) -> Job:
    """Return the gang of one worker that a pod forms by itself."""
    role, invalid = _role(item, pod, WORKER)
    return Job(
        uid=identity(pod.namespace, pod.uid), namespace=pod.namespace, name=pod.name, kind=LONE_POD, arrival=pod.since,
        roles=(role,), min_workers=1, max_workers=1, finished=pod.ended, deleting=pod.terminating, keeps_pods=True,
        utility_stated=False, replaced=False, invalid=invalid, version=pod.version,
    )  # fmt: skip


def read_owned_pod(item: dict[str, Any], pod: Pod, of: Membership, group: GroupKind | None) -> OwnedPod:
    """Return a pod together with what it states about its membership in a job or pod group.

    For a job this is the pod's slot, for a pod group its role. ``of``: the pod's owner and slot. ``group``: the kind of
    the pod group that the pod names; None for a pod that names a job.
    """
    bound_slot = _slot_in(text(part(part(item, "metadata"), "annotations"), SLOT))
    if group is None:
        return OwnedPod(pod, of.slot, bound_slot=bound_slot)
    role, invalid = _role(item, pod, role_in(item, group) or WORKER)
    replaced = bool(controller(part(item, "metadata")))
    return OwnedPod(
        pod, None, role, bound_slot, lone_job(item, pod), f"pod {pod.name}: {invalid}" if invalid else "", replaced
    )


# A plan takes these two fields of an existing pod into account, though not of a template: the pod's node, and its pod
# group.
ACCEPTED = ("nodeName", "schedulingGroup")


def _role(item: dict[str, Any], pod: Pod, name: str) -> tuple[Role, str]:
    """Return a role of that name with the pod's requests, and the reason why it cannot be planned (empty if it can)."""
    spec = part(item, "spec")
    try:
        unsupported = tuple(name for name in unsupported_in(spec, "spec") if name not in ACCEPTED)
        role = Role(
            name, 1, requests_of(spec, "spec"), places_of(spec), unsupported, pod.limits,
            text(spec, "priorityClassName"), spec.get("activeDeadlineSeconds") is not None,
        )  # fmt: skip
        return role, ""
    except ObjectError as error:
        return Role(name, 1, pod.requests), str(error)


def _slot_in(written: str) -> Slot | None:
    """Return the slot that the text ROLE-INDEX of a pod's slot annotation names; None where the text is no slot."""
    role, _, index = written.rpartition("-")
    return Slot(role, int(index)) if role and index.isascii() and index.isdigit() and len(index) < 8 else None


def _requests(spec: dict[str, Any], status: dict[str, Any]) -> Resources | None:
    """Return the pod's requests; None if they cannot be read, although the API server has checked them."""
    try:
        return requests_of(spec, "spec", status)
    except ObjectError:
        return None


def _limits(spec: dict[str, Any]) -> Resources:
    try:
        return limits_of(spec, "spec")
    except ObjectError:
        return NOTHING


def _places(spec: dict[str, Any]) -> Constraints | None:
    try:
        return places_of(spec)
    except ObjectError:
        return None


def _phase(phase: str) -> Phase:
    try:
        return Phase(phase or "Pending")
    except ValueError:
        # The phase is Unknown where the node does not answer; the pod may still run there, so its room is not free.
        return Phase.RUNNING

"""Translates API objects (plain dicts) into events of ``policy``. It never raises, whatever an object holds.

A malformed object affects only itself: a job becomes an invalid job, an unreadable quantity of a node counts as none,
and an object without uid or name, which identify it, is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

from extender.kube.api import MALFORMED, NODES, PODS, QUOTAS, Json, Resource
from extender.kube.fields import ObjectError, amount, condition, listed, part, text, whole
from extender.kube.jobkinds import FAILURES, FORGIVE, KINDS, JobKind
from extender.kube.jobobjects import identity, read_group, read_job, reports_in
from extender.kube.membership import NOBODY, OwnerName, membership
from extender.kube.ownerindex import OwnerIndex
from extender.kube.podgroupkinds import GROUPS, GroupKind
from extender.kube.pods import is_lone, lone_job, read_owned_pod, read_pod
from extender.kube.quotas import quota_events
from policy.cluster.constraints import Taint
from policy.cluster.events import Event, JobGone, JobSeen, NodeGone, NodeSeen, PodGone, PodSeen, Reported
from policy.cluster.node import Node
from policy.cluster.resources import BANDWIDTH, Resources

__all__ = ["Translator", "identity"]

CHANGES = ("ADDED", "MODIFIED", "DELETED")
KIND_OF: Mapping[Resource, JobKind] = {kind.resource: kind for kind in KINDS.values()}
GROUP_OF: Mapping[Resource, GroupKind] = {kind.resource: kind for kind in GROUPS}
GROUP_NAMED: Mapping[str, GroupKind] = {str(kind.resource): kind for kind in GROUPS}
# For these values of `JobKind.slots` a pod states only the name of its job, and not the job's uid.
NAMED = ("allotted", "child")


class Translator:
    """Translates API objects into events of ``policy``.

    Kohort schedules only pods and jobs whose ``schedulerName`` is ``scheduler_name``.
    """

    def __init__(self, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._owners = OwnerIndex()
        self._lone: set[str] = set()  # _lone has the uids of pods that are gangs of one pod, and so jobs.
        # _jobs has the identifiers of the jobs for which JobSeen was returned and JobGone was not.
        self._jobs: set[str] = set()

    def events(self, resource: Resource, change: Json) -> list[Event]:
        """Return the events of ``policy`` that follow from one watch event ``{"type", "object"}``."""
        item = change.get("object")
        if not isinstance(item, dict) or change.get("type") not in CHANGES:
            return []
        gone = change.get("type") == "DELETED"
        if resource == NODES:
            return _node_events(item, gone)
        if resource == PODS:
            return self.pod_events(item, gone=gone)
        if resource == QUOTAS:
            return quota_events(item, gone=gone)
        if group := GROUP_OF.get(resource):
            return self._group_events(item, group, gone)
        kind = KIND_OF.get(resource)
        return self._job_events(item, kind, gone) if kind else []

    def pod_events(self, item: Json, *, gone: bool = False) -> list[Event]:
        """Return the events that follow from a pod as it was read, or from its deletion (``gone``).

        A pod that opted in and has no owner is a gang of one pod, and so a job as well.
        """
        meta = part(item, "metadata")
        uid, namespace = text(meta, "uid"), text(meta, "namespace")
        if not (uid and namespace and text(meta, "name")):
            return []
        if not gone and MALFORMED in item:
            # With no event the ledger keeps the pod's last known state, because the pod may still hold its room.
            return []
        opted_in = text(part(item, "spec"), "schedulerName") == self._scheduler_name
        of = membership(item) if opted_in else NOBODY
        pod = read_pod(item, self._scheduler_name, of)
        if gone:
            return self.pod_gone(uid, namespace)
        was_lone = [JobGone(identity(namespace, uid))] if uid in self._lone else []
        left = self._owners.leave(uid, of.claim)
        if is_lone(pod):
            self._lone.add(uid)
            return [*left, JobSeen(lone_job(item, pod)), PodSeen(pod)]
        self._lone.discard(uid)
        if of.claim is None:
            return [*was_lone, *left, PodSeen(pod)]
        group = GROUP_NAMED.get(of.claim.resource)
        return [*was_lone, *left, *self._owners.add_pod(of.claim, read_owned_pod(item, pod, of, group))]

    def pod_gone(self, uid: str, namespace: str) -> list[Event]:
        """Return the events for a pod that no longer exists, and for pods of its owner whose slots change with it."""
        was_lone = [JobGone(identity(namespace, uid))] if uid in self._lone else []
        self._lone.discard(uid)
        return [PodGone(uid), *was_lone, *self._owners.remove_pod(uid)]

    def _job_events(self, item: Json, kind: JobKind, gone: bool) -> list[Event]:
        meta = part(item, "metadata")
        namespace, uid = text(meta, "namespace"), text(meta, "uid")
        if not (namespace and uid and text(meta, "name")):
            return []
        job = None if gone else read_job(item, kind, self._scheduler_name)
        claim = OwnerName(str(kind.resource), namespace, text(meta, "name"))
        # A job of another scheduler is ignored, and forgotten if it named our scheduler before.
        if job is None:
            return self._job_gone(identity(namespace, uid), claim if kind.slots in NAMED else None)
        self._jobs.add(job.uid)
        members = (
            self._owners.add_owner(claim, job, assigns_slots=kind.slots == "allotted") if kind.slots in NAMED else []
        )
        # All reports are sent each time, because the ledger ignores reports that are not newer than its newest one.
        return [JobSeen(job), *(Reported(job.uid, report) for report in reports_in(item)), *members]

    def _job_gone(self, uid: str, claim: OwnerName | None) -> list[Event]:
        if uid not in self._jobs:
            return []
        self._jobs.discard(uid)
        return [JobGone(uid), *(self._owners.remove_owner(claim) if claim else [])]

    def _group_events(self, item: Json, kind: GroupKind, gone: bool) -> list[Event]:
        meta = part(item, "metadata")
        namespace, name = text(meta, "namespace"), text(meta, "name")
        if not (namespace and name and text(meta, "uid")):
            return []
        claim = OwnerName(str(kind.resource), namespace, name)
        if gone:
            return self._owners.remove_owner(claim)
        group, least = read_group(item, kind)
        return self._owners.add_owner(claim, group, least=least)


def _node_events(item: Json, gone: bool) -> list[Event]:
    meta, spec, status = part(item, "metadata"), part(item, "spec"), part(item, "status")
    name = text(meta, "name")
    if not name:
        return []
    if gone:
        return [NodeGone(name)]
    ready = condition(status, "Ready").get("status", "True") == "True"
    node = Node(
        name=name,
        allocatable=Resources(_allocatable(status) | _bandwidth(part(meta, "annotations"))),
        uid=text(meta, "uid"),
        ready=ready and not meta.get("deletionTimestamp"),
        unschedulable=spec.get("unschedulable") is True,
        labels={str(key): value for key, value in part(meta, "labels").items() if isinstance(value, str)},
        taints=tuple(Taint(text(t, "key"), text(t, "value"), text(t, "effect")) for t in listed(spec, "taints")),
        version=whole(meta, "resourceVersion"),
        failures=text(part(meta, "annotations"), FAILURES),
        forgiven=text(part(meta, "annotations"), FORGIVE) == "true",
    )
    return [NodeSeen(node)]


def _bandwidth(notes: Json) -> dict[str, int]:
    """Return the bandwidth of the node's network card from the node's annotations, as a resource in Mbit/s.

    The annotation is in bits per second (``25G``). Return an empty mapping where there is no annotation, and a
    bandwidth of 0 where the annotation cannot be read.
    """
    if BANDWIDTH not in notes:
        return {}
    try:
        return {BANDWIDTH: max(0, amount(BANDWIDTH, notes[BANDWIDTH], "metadata.annotations")) // 10**6}
    except ObjectError:
        return {BANDWIDTH: 0}


def _allocatable(status: Json) -> dict[str, int]:
    """Return the node's allocatable resources: amount by name.

    A quantity that cannot be read counts as 0, so that no pod that needs it is placed on the node by mistake.
    """
    amounts: dict[str, int] = {}
    for name, value in part(status, "allocatable").items():
        try:
            amounts[str(name)] = amount(str(name), value, "status.allocatable")
        except ObjectError:
            amounts[str(name)] = 0
    return amounts

"""API objects (plain dicts) become events of ``policy``. Total: it never raises, whatever the object holds.

A job is known by ``namespace/uid``, so that no object of one namespace can name a job of another. A malformed job
becomes a job with ``invalid`` set: it hurts only itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from extender.kube.api import MALFORMED, NODES, PODS, Json, Resource
from extender.kube.jobkinds import (
    GATE,
    INDEX_LABEL,
    KINDS,
    LONE_POD,
    MAX_WORKERS,
    MIN_WORKERS,
    PLAN,
    ROLE_LABEL,
    UTILITY,
    WAKE,
    JobKind,
)
from extender.kube.podspec import ObjectError, amount, constraints_of, mapping, requests_of, unsupported_in
from policy.cluster.events import Event, JobGone, JobSeen, NodeGone, NodeSeen, PodGone, PodSeen
from policy.cluster.model import WORKER, Job, Node, Phase, Pod, Role, Slot, Taint
from policy.cluster.resources import NOTHING, Resources

MOST_REPLICAS = 10_000
KIND_OF: Mapping[Resource, JobKind] = {kind.resource: kind for kind in KINDS.values()}


class Translator:
    """Turns objects into events for one scheduler name."""

    def __init__(self, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name

    def events(self, resource: Resource, change: Json) -> list[Event]:
        """The facts in one watch event ``{"type", "object"}``."""
        item = change.get("object")
        if not isinstance(item, dict):
            return []
        gone = change.get("type") == "DELETED"
        if resource == NODES:
            return [_node_event(item, gone)]
        if resource == PODS:
            return self.pod_events(item, gone=gone)
        kind = KIND_OF.get(resource)
        return self._job_events(item, kind, gone) if kind else []

    def pod_events(self, item: Json, *, gone: bool = False) -> list[Event]:
        """The facts in one pod; one that opted in without an owner is a gang of one, and so a job as well."""
        meta = _part(item, "metadata")
        uid = str(meta.get("uid") or "")
        pod = self._pod(item, meta)
        lone = pod.opted_in and pod.job_uid == identity(pod.namespace, uid)
        if gone:
            return [PodGone(uid), *([JobGone(pod.job_uid)] if lone else [])]
        return [*([JobSeen(_lone_job(item, pod))] if lone else []), PodSeen(pod)]

    def _pod(self, item: Json, meta: Json) -> Pod:
        spec, status = _part(item, "spec"), _part(item, "status")
        annotations, namespace = _part(meta, "annotations"), str(meta.get("namespace") or "")
        opted_in = spec.get("schedulerName") == self._scheduler_name
        job_uid, slot = _membership(meta) if opted_in else ("", None)
        condition = _condition(status, "PodScheduled")
        return Pod(
            uid=str(meta.get("uid") or ""),
            namespace=namespace,
            name=str(meta.get("name") or ""),
            requests=_safe_requests(spec),
            node=str(spec.get("nodeName") or ""),
            phase=_phase(status),
            job_uid=job_uid,
            slot=slot,
            opted_in=opted_in,
            terminating=bool(meta.get("deletionTimestamp")),
            gated=any(_named(gate, GATE) for gate in _list(spec, "schedulingGates")),
            refused=condition.get("status") == "False" and condition.get("reason") != "SchedulingGated",
            refusal=str(condition.get("message") or "")[:1024],
            woken=str(annotations.get(WAKE) or ""),
            plan=str(annotations.get(PLAN) or ""),
            nominated=str(status.get("nominatedNodeName") or ""),
            priority=_whole(spec.get("priority")),
            since=_seconds(meta.get("creationTimestamp")),
            version=_whole(meta.get("resourceVersion")),
        )

    def _job_events(self, item: Json, kind: JobKind, gone: bool) -> list[Event]:
        meta = _part(item, "metadata")
        uid = identity(str(meta.get("namespace") or ""), str(meta.get("uid") or ""))
        if gone:
            return [JobGone(uid)]
        job = self._job(item, meta, uid, kind)
        # A job of another scheduler is nothing to us, also when it was ours a moment ago.
        return [JobSeen(job)] if job is not None else [JobGone(uid)]

    def _job(self, item: Json, meta: Json, uid: str, kind: JobKind) -> Job | None:
        names = {_template(spec).get("schedulerName") for spec in _part(_part(item, "spec"), kind.replicas_at).values()}
        if self._scheduler_name not in names:
            return None
        bare = _bare_job(item, meta, uid, kind)
        try:
            if MALFORMED in item:
                raise ObjectError("the object", item[MALFORMED], "what the API's schema allows")
            return self._whole_job(item, meta, bare, kind)
        except ObjectError as error:
            return replace(bare, invalid=str(error))

    def _whole_job(self, item: Json, meta: Json, bare: Job, kind: JobKind) -> Job:
        spec = mapping(item.get("spec"), "spec")
        field = f"spec.{kind.replicas_at}"
        roles = tuple(self._roles(mapping(spec.get(kind.replicas_at), field), field, kind))
        if not roles or not sum(role.replicas for role in roles):
            raise ObjectError(field, spec.get(kind.replicas_at), "at least one replica")
        workers = next((role.replicas for role in roles if role.name == WORKER), 0)
        least, most = _bounds(meta, spec, field, roles, workers)
        return replace(
            bare,
            roles=roles,
            min_workers=least,
            max_workers=most,
            utility=_positive(_annotation(meta, spec, kind, UTILITY), UTILITY, 1.0),
            elastic=kind.elastic and (least, most) != (workers, workers),
        )

    def _roles(self, replicas: Mapping[str, Any], field: str, kind: JobKind) -> Iterator[Role]:
        for key in sorted(replicas):
            where = f"{field}.{key}"
            if key not in kind.roles:
                raise ObjectError(where, key, ", ".join(kind.roles))
            role = mapping(replicas[key], where)
            pod = mapping(mapping(role.get("template"), f"{where}.template").get("spec"), f"{where}.template.spec")
            if pod.get("schedulerName") != self._scheduler_name:
                raise ObjectError(
                    f"{where}.template.spec.schedulerName", pod.get("schedulerName"),
                    f"{self._scheduler_name}, as in the job's other roles: a gang has one scheduler",
                )  # fmt: skip
            inside = f"{where}.template.spec"
            yield Role(
                name=kind.roles[key],
                replicas=_count(role.get("replicas", 1), f"{where}.replicas"),
                requests=requests_of(pod, inside),
                constraints=constraints_of(pod, inside),
                unsupported=unsupported_in(pod, inside),
            )


def identity(namespace: str, uid: str) -> str:
    """How a job is known in the ledger."""
    return f"{namespace}/{uid}"


# -- jobs ----------------------------------------------------------------------------------------


def _bare_job(item: Json, meta: Json, uid: str, kind: JobKind) -> Job:
    """What can be said of a job even if its spec is malformed."""
    status, run = _part(item, "status"), _part(_part(item, "spec"), "runPolicy")
    return Job(
        uid=uid,
        namespace=str(meta.get("namespace") or ""),
        name=str(meta.get("name") or ""),
        kind=kind.kind,
        arrival=_seconds(meta.get("creationTimestamp")),
        roles=(),
        finished=any(_condition(status, name).get("status") == "True" for name in ("Succeeded", "Failed")),
        suspended=run.get("suspend") is True,
        deleting=bool(meta.get("deletionTimestamp")),
        keeps_pods=run.get("cleanPodPolicy", "None") in (None, "", "None"),
        version=_whole(meta.get("resourceVersion")),
    )


def _bounds(meta: Json, spec: Mapping[str, Any], field: str, roles: tuple[Role, ...], workers: int) -> tuple[int, int]:
    """Minimum and maximum of workers: annotations, else schedulingPolicy.minAvailable, else what the job asks for."""
    notes = _bound_notes(meta, spec, field)
    least = _count(notes[MIN_WORKERS], MIN_WORKERS) if MIN_WORKERS in notes else _min_available(spec, roles, workers)
    most = _count(notes[MAX_WORKERS], MAX_WORKERS) if MAX_WORKERS in notes else max(workers, least)
    if least > most:
        raise ObjectError(MIN_WORKERS, least, f"at most {MAX_WORKERS}, which is {most}")
    if workers == 0 and not any(role.name == WORKER for role in roles) and (least or most):
        raise ObjectError(MIN_WORKERS, least, "0: the job has no Worker role")
    if any(role.name == WORKER for role in roles) and least < 1:
        raise ObjectError(MIN_WORKERS, least, "1 or more")
    return least, most


def _bound_notes(meta: Json, spec: Mapping[str, Any], field: str) -> dict[str, Any]:
    worker = mapping(mapping(spec.get(field.removeprefix("spec.")), field).get("Worker"), f"{field}.Worker")
    template = mapping(mapping(worker.get("template"), f"{field}.Worker.template").get("metadata"), field)
    inner = mapping(template.get("annotations"), f"{field}.Worker.template.metadata.annotations")
    return {**inner, **_part(meta, "annotations")}


def _annotation(meta: Json, spec: Mapping[str, Any], kind: JobKind, name: str) -> object:
    return _bound_notes(meta, spec, f"spec.{kind.replicas_at}").get(name)


def _min_available(spec: Mapping[str, Any], roles: tuple[Role, ...], workers: int) -> int:
    where = "spec.runPolicy.schedulingPolicy.minAvailable"
    run = mapping(spec.get("runPolicy"), "spec.runPolicy")
    asked = mapping(run.get("schedulingPolicy"), "spec.runPolicy.schedulingPolicy").get("minAvailable")
    if asked is None:
        return workers
    rigid = sum(role.replicas for role in roles if role.name != WORKER)
    least = _count(asked, where) - rigid
    if not min(1, workers) <= least <= workers:
        allowed = f"{rigid + min(1, workers)} to {rigid + workers}: all but the workers, and 1 to all of the workers"
        raise ObjectError(where, asked, allowed)
    return least


def _count(value: object, field: str) -> int:
    allowed = f"a whole number from 0 to {MOST_REPLICAS}"
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(MOST_REPLICAS)):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_REPLICAS:
        raise ObjectError(field, value, allowed)
    return value


def _positive(value: object, field: str, default: float) -> float:
    if value is None:
        return default
    try:
        number = float(str(value))
    except ValueError:
        number = -1.0
    if not 0 < number <= 1e6:
        raise ObjectError(field, value, "a number above 0 and at most 1000000")
    return number


def _lone_job(item: Json, pod: Pod) -> Job:
    """A pod without an owner is a gang of one worker."""
    spec, invalid = _part(item, "spec"), ""
    role = Role(WORKER, 1, pod.requests)
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


# -- pods ----------------------------------------------------------------------------------------


def _membership(meta: Json) -> tuple[str, Slot | None]:
    """The job and the slot of a pod that opted in, by its controller; a pod without one is its own job."""
    namespace = str(meta.get("namespace") or "")
    owner = next(
        (ref for ref in _list(meta, "ownerReferences") if isinstance(ref, dict) and ref.get("controller")), None
    )
    if owner is None:
        return identity(namespace, str(meta.get("uid") or "")), Slot(WORKER, 0)
    kind = KINDS.get(str(owner.get("kind")))
    if kind is None or not str(owner.get("apiVersion") or "").startswith(f"{kind.resource.group}/"):
        return "", None
    return identity(namespace, str(owner.get("uid") or "")), _slot(meta, str(owner.get("name") or ""))


def _slot(meta: Json, owner: str) -> Slot | None:
    """By the operator's labels, and only under the name that it gives: a label alone is a claim, not a fact."""
    labels = _part(meta, "labels")
    role, index = str(labels.get(ROLE_LABEL) or "").lower(), str(labels.get(INDEX_LABEL) or "")
    if not (index.isascii() and index.isdigit() and len(index) < 8) or meta.get("name") != f"{owner}-{role}-{index}":
        return None
    return Slot(role, int(index))


def _safe_requests(spec: Json) -> Resources:
    """A pod has passed the API server's validation; what still cannot be read counts as nothing."""
    try:
        return requests_of(spec, "spec")
    except ObjectError:
        return NOTHING


def _phase(status: Json) -> Phase:
    try:
        return Phase(str(status.get("phase") or "Pending"))
    except ValueError:
        return Phase.RUNNING  # Unknown: the node is not heard of, the room is not free


# -- nodes ---------------------------------------------------------------------------------------


def _node_event(item: Json, gone: bool) -> Event:
    meta, spec, status = _part(item, "metadata"), _part(item, "spec"), _part(item, "status")
    name = str(meta.get("name") or "")
    if gone:
        return NodeGone(name)
    ready = _condition(status, "Ready").get("status", "True") == "True"
    return NodeSeen(
        Node(
            name=name,
            allocatable=_allocatable(status),
            uid=str(meta.get("uid") or ""),
            ready=ready and not meta.get("deletionTimestamp"),
            unschedulable=spec.get("unschedulable") is True,
            labels={str(key): str(value) for key, value in _part(meta, "labels").items()},
            taints=tuple(_taint(taint) for taint in _list(spec, "taints") if isinstance(taint, dict)),
            version=_whole(meta.get("resourceVersion")),
        )
    )


def _taint(taint: Json) -> Taint:
    return Taint(*(str(taint.get(name) or "") for name in ("key", "value", "effect")))


def _allocatable(status: Json) -> Resources:
    """A quantity that cannot be read counts as none of that resource: nothing is placed on a guess."""
    amounts: dict[str, int] = {}
    for name, text in _part(status, "allocatable").items():
        try:
            amounts[str(name)] = amount(name, text, "status.allocatable")
        except ObjectError:
            amounts[str(name)] = 0
    return Resources(amounts)


# -- odd input -----------------------------------------------------------------------------------


def _part(item: object, key: str) -> Json:
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, dict) else {}


def _list(item: Json, key: str) -> list[Any]:
    value = item.get(key)
    return value if isinstance(value, list) else []


def _named(value: object, name: str) -> bool:
    return isinstance(value, dict) and value.get("name") == name


def _template(replica: object) -> Json:
    return _part(_part(replica, "template"), "spec")


def _condition(status: Json, kind: str) -> Json:
    found = (c for c in _list(status, "conditions") if isinstance(c, dict) and c.get("type") == kind)
    return next(found, {})


def _whole(value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        return 0


def _seconds(value: object) -> float:
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except (ValueError, OverflowError):
        return 0.0

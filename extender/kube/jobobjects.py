"""Translates a job object into a Job of ``policy``: roles, bounds, state. A malformed job gets ``invalid`` set.

A job is identified by ``namespace/uid``, so that no object of one namespace can name a job of another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from extender.kube.api import MALFORMED
from extender.kube.fields import (
    Json,
    ObjectError,
    condition,
    listed,
    mapping,
    part,
    seconds,
    string,
    text,
    whole,
    whole_number,
)
from extender.kube.jobkinds import (
    ELASTIC_PS,
    MEMORY,
    MIGRATABLE,
    PROGRESS,
    RELEASED,
    REPORTS,
    TRAINING,
    UTILITY,
    JobKind,
)
from extender.kube.membership import controller, kind_of
from extender.kube.podgroupkinds import GROUP, GroupKind, group_named
from extender.kube.podspec import constraints_of, limits_of, requests_of, unsupported_in
from extender.kube.reportbody import annotated_report
from extender.kube.templates import MOST_REPLICAS, RoleTemplate, annotations_of, pod_templates, role_templates
from extender.kube.trainingannotation import read_training
from extender.kube.workerbounds import read_bounds
from policy.cluster.job import PS, WORKER, Job, Role, Slot
from policy.cluster.training import Report, Training, read_reports

MOST_UTILITY: Final = 1_000_000
# Owners of these kinds set the field ``suspend`` of the job that they created back to their own value.
SUSPENDS_ITSELF: Final = frozenset({"TrainJob"})
# The pattern matches one span in the list of indexes in an Indexed Job's status, such as 3 or 5-7 in 1,3-5,7.
INDICES: Final = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")


def identity(namespace: str, uid: str) -> str:
    """Return the ledger's identifier of a job: ``namespace/uid``."""
    return f"{namespace}/{uid}"


def read_job(item: dict[str, Any], kind: JobKind, scheduler_name: str) -> Job | None:
    """Return the job that an API object describes, with ``invalid`` set where the job cannot be scheduled.

    Return None where Kohort does not schedule the object by itself (see `valid_job`).
    """
    if MALFORMED in item:
        # The object may be a job of another scheduler. An invalid job does no harm: its user sees it, and it takes no
        # room from other jobs.
        return replace(_bare_job(item, kind), invalid=f"the object cannot be read: {text(item, MALFORMED)[:200]}")
    try:
        return valid_job(item, kind, scheduler_name)
    except ObjectError as error:
        return replace(_bare_job(item, kind), invalid=str(error))


def valid_job(item: dict[str, Any], kind: JobKind, scheduler_name: str) -> Job | None:
    """Return the job that an API object describes. Raises ObjectError where the job cannot be scheduled.

    Return None where Kohort does not schedule the object by itself: its pods name another scheduler or a pod group, or
    another job owns it.
    """
    templates = pod_templates(item, kind)
    if not any(text(part(template, "spec"), "schedulerName") == scheduler_name for template in templates):
        return None
    if kind_of(controller(part(item, "metadata"))) is not None or (
        kind.groups_first and any(map(group_named, templates))
    ):
        return None  # the job's pods belong to the gang of its owner or of the pod group
    return _whole_job(item, _bare_job(item, kind), kind, scheduler_name)


def _bare_job(item: dict[str, Any], kind: JobKind) -> Job:
    """Return a job without roles, with only those fields that can be read even if the object's spec is malformed."""
    meta, spec, status = part(item, "metadata"), part(item, "spec"), part(item, "status")
    run = part(spec, "runPolicy")
    suspended = _is_suspended(spec, kind)
    released = suspended and RELEASED in part(meta, "annotations") and not _suspended_by_others(meta, kind)
    return Job(
        uid=identity(text(meta, "namespace"), text(meta, "uid")),
        namespace=text(meta, "namespace"),
        name=text(meta, "name"),
        kind=kind.kind,
        arrival=seconds(meta, "creationTimestamp"),
        roles=(),
        finished=any(condition(status, name).get("status") == "True" for name in kind.ends),
        suspended=suspended and not released,
        suspends=kind.suspends and text(controller(meta), "kind") not in SUSPENDS_ITSELF,
        one_by_one=kind.one_by_one,
        keeps_ended=kind.keeps_ended,
        over=_ended_slots(status) if kind.slots == "indexed" else (),
        unnumbered=kind.slots == "allotted",
        released=released,
        deleting=bool(meta.get("deletionTimestamp")),
        memory=text(part(meta, "annotations"), MEMORY),
        holds_notes=not kind.scale,
        keeps_pods=bool(kind.roles) and (text(run, "cleanPodPolicy") or text(spec, "cleanPodPolicy")) in ("", "None"),
        version=whole(meta, "resourceVersion"),
    )


def _ended_slots(status: Json) -> tuple[Slot, ...]:
    """Return the slots of an Indexed Job whose index has completed or failed, and which therefore get no new pod."""
    ended = ",".join(text(status, name) for name in ("completedIndexes", "failedIndexes"))
    found = (INDICES.fullmatch(one) for one in ended.split(","))
    spans = ((int(one[1]), int(one[2] or one[1])) for one in found if one is not None)
    indices = {index for first, last in spans for index in range(first, min(last + 1, MOST_REPLICAS))}
    return tuple(Slot(WORKER, index) for index in sorted(indices))


def _is_suspended(spec: Json, kind: JobKind) -> bool:
    """Tell whether the job is suspended: by its kind's suspend field, or by 0 replicas where the kind has no field."""
    if not kind.suspends:
        return any(spec.get(count) == 0 for count in kind.counts)
    *path, last = kind.suspend_at
    return _mapping_at(spec, path).get(last) is True


def _mapping_at(item: Json, path: Sequence[str]) -> Json:
    """Return the mapping at a path of nested keys; an empty mapping if there is none."""
    found = item
    for name in path:
        found = part(found, name)
    return found


def _suspended_by_others(meta: Json, kind: JobKind) -> bool:
    """Tell whether another client has set ``suspend`` since Kohort suspended the job to release it.

    ``metadata.managedFields`` shows which clients wrote the field's present value. A client that wrote ``suspend`` but
    not Kohort's annotation of the release is another client.
    """
    *path, last = (f"f:{name}" for name in ("spec", *kind.suspend_at))
    return any(
        last in _mapping_at(part(entry, "fieldsV1"), path)
        and f"f:{RELEASED}" not in part(part(part(entry, "fieldsV1"), "f:metadata"), "f:annotations")
        for entry in listed(meta, "managedFields")
    )


def _whole_job(item: Json, bare: Job, kind: JobKind, scheduler_name: str) -> Job:
    spec = mapping(item.get("spec"), "spec")
    found = tuple(role_templates(spec, kind))
    roles = tuple(_role(one, scheduler_name) for one in found)
    if not sum(role.replicas for role in roles) and not bare.suspended:
        where = kind.workers_at if kind.counts else f"spec.{kind.replicas_at}.*.replicas"
        raise ObjectError(where, 0, "at least one replica in all roles together")
    notes = annotations_of(item, next((one for one in found if one.role == WORKER), None))
    if bare.suspended and not kind.suspends:
        return replace(bare, roles=roles)
    bounds = read_bounds(notes, spec, kind, roles)
    workers = sum(role.replicas for role in roles if role.name == WORKER)
    training = read_training(notes[TRAINING]) if _is_written(notes, TRAINING) else None
    return replace(
        bare,
        roles=roles,
        min_workers=bounds.least,
        max_workers=bounds.most,
        note=bounds.note,
        min_stated=bounds.min_stated,
        max_stated=bounds.max_stated,
        utility=_utility(notes.get(UTILITY)),
        utility_stated=UTILITY in notes,
        training=training,
        migratable=_boolean_of(notes, MIGRATABLE),
        ps_restarts=_elastic_ps(notes, bare, kind, roles, training),
        reported=max((report.at for report in recorded_reports(item)), default=0.0),
        elastic=(bounds.least, bounds.most) != (workers, workers),
    )


def reports_in(item: Json) -> tuple[Report, ...]:
    """Return the reports on the training's progress that are annotations of the job object.

    They are the reports that Kohort has recorded, and the report that the training or its user wrote into the
    annotation ``kohort.dev/progress``.
    """
    return (*recorded_reports(item), *annotated_report(text(part(part(item, "metadata"), "annotations"), PROGRESS)))


def recorded_reports(item: Json) -> tuple[Report, ...]:
    """Return the newest reports on the training's progress, which Kohort has recorded in the job's annotations."""
    return read_reports(text(part(part(item, "metadata"), "annotations"), REPORTS))


def _is_written(notes: Json, name: str) -> bool:
    return bool(string(notes.get(name), name))


def _boolean_of(notes: Json, name: str) -> bool:
    """Return an annotation's ``"true"`` or ``"false"`` as a boolean; false where there is no such annotation.

    Raises ObjectError for any other text.
    """
    written = string(notes.get(name), name, "true or false, as a string")
    if written not in ("", "true", "false"):
        raise ObjectError(name, written, "true or false")
    return written == "true"


def _elastic_ps(notes: Json, bare: Job, kind: JobKind, roles: Sequence[Role], training: Training | None) -> bool:
    """Tell whether the job states by annotation that it may be restarted with another number of ps.

    Raises ObjectError where the job's kind does not allow such a restart, or where the training annotation lacks the
    bandwidths by which the number of ps is computed.
    """
    if not _boolean_of(notes, ELASTIC_PS):
        return False
    if not (kind.ps_restarts and bare.suspends and any(role.name == PS for role in roles)):
        raise ObjectError(ELASTIC_PS, "true", "false: only a TFJob with ps can be restarted with another number of ps")
    if training is None or training.workers_per_ps == math.inf:
        raise ObjectError(
            ELASTIC_PS,
            "true",
            f"false, or state workerGigabits and psGigabits in {TRAINING}, from which the number of ps follows",
        )
    return True


def _role(one: RoleTemplate, scheduler_name: str) -> Role:
    inside = f"{one.at}.spec"
    pod = mapping(one.template.get("spec"), inside)
    if pod.get("schedulerName") != scheduler_name:
        allowed = f"{scheduler_name}, as in the job's other roles: a gang has one scheduler"
        raise ObjectError(f"{inside}.schedulerName", pod.get("schedulerName"), allowed)
    return Role(
        name=one.role,
        replicas=one.replicas,
        requests=requests_of(pod, inside),
        constraints=constraints_of(pod, inside),
        unsupported=unsupported_in(pod, inside),
        limits=limits_of(pod, inside),
        priority_class=text(pod, "priorityClassName"),
        ends=pod.get("activeDeadlineSeconds") is not None,
    )


def read_group(item: dict[str, Any], kind: GroupKind) -> tuple[Job, int]:
    """Return a pod group as a job without roles, and the pod group's minimum number of pods.

    The roles are missing because only the pods of the pod group state them.
    """
    meta, invalid, least, utility = part(item, "metadata"), "", 1, 1.0
    try:
        least = _least_of(item, kind)
        utility = _utility(part(meta, "annotations").get(UTILITY))
    except ObjectError as error:
        # A minimum of 0 would mean that each pod is bound alone. With at least 1 the pod group becomes an invalid gang,
        # which its user sees.
        invalid, least = str(error), max(1, least)
    group = Job(
        uid=identity(text(meta, "namespace"), text(meta, "uid")),
        namespace=text(meta, "namespace"),
        name=text(meta, "name"),
        kind=GROUP,
        arrival=seconds(meta, "creationTimestamp"),
        roles=(),
        utility=utility,
        utility_stated=UTILITY in part(meta, "annotations"),
        one_by_one=False,
        counted=True,
        deleting=bool(meta.get("deletionTimestamp")),
        invalid=invalid,
        version=whole(meta, "resourceVersion"),
    )
    return group, least


def _least_of(item: Json, kind: GroupKind) -> int:
    """Return the pod group's minimum number of pods; 0 where it states none, which means each pod is scheduled alone.

    Raises ObjectError where the minimum is malformed.
    """
    found, field = part(item, "spec"), "spec"
    for name in kind.least_at[:-1]:
        found, field = part(found, name), f"{field}.{name}"
    value = found.get(kind.least_at[-1])
    return 0 if value is None else whole_number(value, f"{field}.{kind.least_at[-1]}", MOST_REPLICAS)


def _utility(value: object) -> float:
    """Return the factor that the annotation ``kohort.dev/utility`` states for the job's weight; 1 without annotation.

    Raises ObjectError where the annotation is malformed.
    """
    if value is None:
        return 1.0
    written = string(value, UTILITY, f"a number above 0 and at most {MOST_UTILITY}")
    try:
        number = float(written) if written.isascii() and "_" not in written else -1.0
    except ValueError:
        number = -1.0
    if not 0 < number <= MOST_UTILITY:
        raise ObjectError(UTILITY, value, f"a number above 0 and at most {MOST_UTILITY}")
    return number

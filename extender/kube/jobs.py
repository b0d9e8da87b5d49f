"""A job object becomes a Job of ``policy``: roles, bounds, state. A malformed one becomes a Job with ``invalid`` set.

A job is known by ``namespace/uid``, so that no object of one namespace can name a job of another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from extender.kube.api import MALFORMED
from extender.kube.bounds import MOST_REPLICAS, read_bounds
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
from extender.kube.jobkinds import MEMORY, MIGRATABLE, RELEASED, REPORTS, TRAINING, UTILITY, JobKind
from extender.kube.podspec import constraints_of, requests_of, unsupported_in
from extender.kube.training import read_training
from policy.cluster.model import WORKER, Job, Role
from policy.cluster.training import Report, read_reports

MOST_UTILITY: Final = 1_000_000


def identity(namespace: str, uid: str) -> str:
    """How a job is known in the ledger."""
    return f"{namespace}/{uid}"


def read_job(item: dict[str, Any], kind: JobKind, scheduler_name: str) -> Job | None:
    """The job, with ``invalid`` set where it cannot be taken; None where none of its roles names our scheduler."""
    bare = _bare_job(item, kind)
    if MALFORMED in item:
        # Whose it is cannot be read either. As an invalid job it can be seen, and it disturbs nobody.
        return replace(bare, invalid=f"the object cannot be read: {text(item, MALFORMED)[:200]}")
    replicas = part(part(item, "spec"), kind.replicas_at)
    if not any(_scheduler(role) == scheduler_name for role in replicas.values()):
        return None
    try:
        return _whole_job(item, bare, kind, scheduler_name)
    except ObjectError as error:
        return replace(bare, invalid=str(error))


def _scheduler(role: object) -> str:
    return text(part(part(role, "template"), "spec"), "schedulerName")


def _bare_job(item: dict[str, Any], kind: JobKind) -> Job:
    """What can be said of a job even if its spec is malformed."""
    meta, status, run = part(item, "metadata"), part(item, "status"), part(part(item, "spec"), "runPolicy")
    suspended = run.get("suspend") is True
    released = suspended and RELEASED in part(meta, "annotations") and not _suspended_by_others(meta)
    return Job(
        uid=identity(text(meta, "namespace"), text(meta, "uid")),
        namespace=text(meta, "namespace"),
        name=text(meta, "name"),
        kind=kind.kind,
        arrival=seconds(meta, "creationTimestamp"),
        roles=(),
        finished=any(condition(status, name).get("status") == "True" for name in ("Succeeded", "Failed")),
        suspended=suspended and not released,
        suspends=kind.suspends,
        released=released,
        deleting=bool(meta.get("deletionTimestamp")),
        memory=text(part(meta, "annotations"), MEMORY),
        holds_notes=True,
        keeps_pods=(text(run, "cleanPodPolicy") or text(part(item, "spec"), "cleanPodPolicy")) in ("", "None"),
        version=whole(meta, "resourceVersion"),
    )


def _suspended_by_others(meta: Json) -> bool:
    """Whether somebody else has set ``suspend`` since the mark was: a field belongs to those who wrote its value."""
    return any(
        "f:suspend" in part(part(part(entry, "fieldsV1"), "f:spec"), "f:runPolicy")
        and f"f:{RELEASED}" not in part(part(part(entry, "fieldsV1"), "f:metadata"), "f:annotations")
        for entry in listed(meta, "managedFields")
    )


def _whole_job(item: Json, bare: Job, kind: JobKind, scheduler_name: str) -> Job:
    spec, field = mapping(item.get("spec"), "spec"), f"spec.{kind.replicas_at}"
    replicas = mapping(spec.get(kind.replicas_at), field)
    roles = tuple(_roles(replicas, field, kind, scheduler_name))
    if not sum(role.replicas for role in roles):
        raise ObjectError(f"{field}.*.replicas", 0, "at least one replica in all")
    notes = _notes(part(item, "metadata"), replicas, field)
    bounds = read_bounds(notes, spec, kind, roles)
    workers = sum(role.replicas for role in roles if role.name == WORKER)
    return replace(
        bare,
        roles=roles,
        min_workers=bounds.least,
        max_workers=bounds.most,
        note=bounds.note,
        min_stated=bounds.min_stated,
        max_stated=bounds.max_stated,
        utility=_utility(notes.get(UTILITY)),
        training=read_training(notes[TRAINING]) if _written(notes, TRAINING) else None,
        migratable=_truth(notes, MIGRATABLE),
        reported=max((report.at for report in reports_of(item)), default=0.0),
        elastic=(bounds.least, bounds.most) != (workers, workers),
    )


def reports_of(item: Json) -> tuple[Report, ...]:
    """The newest reports that the job object holds."""
    return read_reports(text(part(part(item, "metadata"), "annotations"), REPORTS))


def _written(notes: Json, name: str) -> bool:
    return bool(string(notes.get(name), name))


def _truth(notes: Json, name: str) -> bool:
    """``"true"`` or ``"false"``, as annotations write it; false where there is none."""
    written = string(notes.get(name), name, "true or false, as a string")
    if written not in ("", "true", "false"):
        raise ObjectError(name, written, "true or false")
    return written == "true"


def _roles(replicas: Json, field: str, kind: JobKind, scheduler_name: str) -> Iterator[Role]:
    for key in sorted(replicas):
        where = f"{field}.{key}"
        if key not in kind.roles:
            raise ObjectError(where, key, ", ".join(kind.roles))
        role = mapping(replicas[key], where)
        template = mapping(role.get("template"), f"{where}.template")
        inside = f"{where}.template.spec"
        pod = mapping(template.get("spec"), inside)
        if pod.get("schedulerName") != scheduler_name:
            allowed = f"{scheduler_name}, as in the job's other roles: a gang has one scheduler"
            raise ObjectError(f"{inside}.schedulerName", pod.get("schedulerName"), allowed)
        asked = role.get("replicas")
        yield Role(
            name=kind.roles[key],
            replicas=_default(kind, key) if asked is None else whole_number(asked, f"{where}.replicas", MOST_REPLICAS),
            requests=requests_of(pod, inside),
            constraints=constraints_of(pod, inside),
            unsupported=unsupported_in(pod, inside),
        )


def _default(kind: JobKind, key: str) -> int:
    return kind.workers if key == kind.worker else 1


def _notes(meta: Json, replicas: Json, field: str) -> Json:
    """Kohort's annotations: the job's own, else those of its Worker's template."""
    worker = mapping(replicas.get("Worker"), f"{field}.Worker")
    where = f"{field}.Worker.template"
    template = mapping(mapping(worker.get("template"), where).get("metadata"), f"{where}.metadata")
    inner = mapping(template.get("annotations"), f"{where}.metadata.annotations")
    return {**inner, **mapping(meta.get("annotations"), "metadata.annotations")}


def _utility(value: object) -> float:
    """A factor of the job's weight, as an annotation writes it; 1 where there is none."""
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

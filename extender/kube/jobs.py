"""A job object becomes a Job of ``policy``: roles, bounds, state. A malformed one becomes a Job with ``invalid`` set.

A job is known by ``namespace/uid``, so that no object of one namespace can name a job of another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from extender.kube.api import MALFORMED
from extender.kube.fields import (
    Json,
    ObjectError,
    condition,
    mapping,
    part,
    seconds,
    string,
    text,
    whole,
    whole_number,
    written_number,
)
from extender.kube.jobkinds import MAX_WORKERS, MIN_WORKERS, UTILITY, JobKind
from extender.kube.podspec import constraints_of, requests_of, unsupported_in
from policy.cluster.model import WORKER, Job, Role

MOST_REPLICAS: Final = 10_000
MOST_UTILITY: Final = 1_000_000
FIXED = "its bounds of workers are not used: spec.{field} is not set, and without it {why}"
SCALED = "its bounds of workers are not used: with spec.{field} a HorizontalPodAutoscaler sets the number of workers"
RUN_POLICY: Final = "spec.runPolicy"
BOUNDS: Final = ("minReplicas", "maxReplicas")


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
    return Job(
        uid=identity(text(meta, "namespace"), text(meta, "uid")),
        namespace=text(meta, "namespace"),
        name=text(meta, "name"),
        kind=kind.kind,
        arrival=seconds(meta, "creationTimestamp"),
        roles=(),
        finished=any(condition(status, name).get("status") == "True" for name in ("Succeeded", "Failed")),
        suspended=run.get("suspend") is True,
        deleting=bool(meta.get("deletionTimestamp")),
        keeps_pods=(text(run, "cleanPodPolicy") or text(part(item, "spec"), "cleanPodPolicy")) in ("", "None"),
        version=whole(meta, "resourceVersion"),
    )


def _whole_job(item: Json, bare: Job, kind: JobKind, scheduler_name: str) -> Job:
    spec, field = mapping(item.get("spec"), "spec"), f"spec.{kind.replicas_at}"
    replicas = mapping(spec.get(kind.replicas_at), field)
    roles = tuple(_roles(replicas, field, kind, scheduler_name))
    if not sum(role.replicas for role in roles):
        raise ObjectError(f"{field}.*.replicas", 0, "at least one replica in all")
    notes = _notes(part(item, "metadata"), replicas, field)
    workers = next((role.replicas for role in roles if role.name == WORKER), None)
    own = mapping(spec.get(kind.bounds_at), f"spec.{kind.bounds_at}") if kind.bounds_at else {}
    least, most = (0, 0) if workers is None else _bounds(notes, own, spec, field, roles, workers, kind)
    note = ""
    if workers is None:
        _refuse_bounds(notes, spec, roles)
    elif (least, most) != (workers, workers) and (note := _why_fixed(spec, own, kind)):
        least, most = _fixed(workers, field)
    return replace(
        bare,
        roles=roles,
        min_workers=least,
        max_workers=most,
        note=note,
        min_stated=workers is None
        or MIN_WORKERS in notes
        or bool(own.keys() & set(BOUNDS))
        or _asks_min_available(spec),
        max_stated=workers is None or MAX_WORKERS in notes or bool(own.keys() & set(BOUNDS)),
        utility=_utility(notes.get(UTILITY)),
        elastic=(least, most) != (workers or 0, workers or 0),
    )


def _why_fixed(spec: Json, own: Json, kind: JobKind) -> str:
    """Why the job cannot be resized whatever bounds it has; empty where it can."""
    if kind.elastic_if and spec.get(kind.elastic_if) is not True and not isinstance(spec.get(kind.elastic_if), dict):
        return FIXED.format(field=kind.elastic_if, why=kind.why_fixed)
    if kind.scaled_by and own.get(kind.scaled_by):
        return SCALED.format(field=f"{kind.bounds_at}.{kind.scaled_by}")
    return ""


def _fixed(workers: int, field: str) -> tuple[int, int]:
    """The bounds of a job that cannot be resized."""
    if workers < 1:
        raise ObjectError(f"{field}.Worker.replicas", workers, "1 or more")
    return workers, workers


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


def _bounds(
    notes: Json, own: Json, spec: Json, field: str, roles: tuple[Role, ...], workers: int, kind: JobKind
) -> tuple[int, int]:
    """Minimum and maximum of workers.

    Annotations, else the kind's own bounds, else schedulingPolicy.minAvailable, else what the job asks for.
    """
    notes = {**_own_bounds(own, kind), **notes}
    if MIN_WORKERS in notes:
        least = written_number(notes[MIN_WORKERS], MIN_WORKERS, MOST_REPLICAS)
        if least < 1:
            raise ObjectError(MIN_WORKERS, least, "1 or more")
    elif workers < 1:
        raise ObjectError(f"{field}.Worker.replicas", workers, "1 or more")
    else:
        least = _min_available(spec, roles, workers)
    if MAX_WORKERS not in notes:
        return least, max(workers, least)
    most = written_number(notes[MAX_WORKERS], MAX_WORKERS, MOST_REPLICAS)
    if most < least:
        given = MIN_WORKERS if MIN_WORKERS in notes else "the minimum that the job asks for"
        raise ObjectError(MAX_WORKERS, most, f"{least} or more, which is {given}")
    return least, most


def _own_bounds(own: Json, kind: JobKind) -> Json:
    """Bounds that the spec itself states, written as annotations; where one is left out it equals the other."""
    at = f"spec.{kind.bounds_at}"
    given = {key: whole_number(own[key], f"{at}.{key}", MOST_REPLICAS) for key in BOUNDS if own.get(key) is not None}
    if not given:
        return {}
    least = given.get("minReplicas", given.get("maxReplicas", 0))
    most = given.get("maxReplicas", least)
    if least < 1:
        raise ObjectError(f"{at}.minReplicas", least, "1 or more")
    if most < least:
        raise ObjectError(f"{at}.maxReplicas", most, f"{least} or more, which is minReplicas")
    return {MIN_WORKERS: str(least), MAX_WORKERS: str(most)}


def _refuse_bounds(notes: Json, spec: Json, roles: tuple[Role, ...]) -> None:
    """Refuse bounds of workers where there are none, except those that say so."""
    for name in (MIN_WORKERS, MAX_WORKERS):
        if name in notes and written_number(notes[name], name, MOST_REPLICAS):
            raise ObjectError(name, notes[name], "0: the job has no Worker role")
    _min_available(spec, roles, 0)


def _min_available(spec: Json, roles: tuple[Role, ...], workers: int) -> int:
    """The workers in ``minAvailable``, which counts the pods of all roles."""
    field = f"{RUN_POLICY}.schedulingPolicy"
    policy = mapping(mapping(spec.get("runPolicy"), RUN_POLICY).get("schedulingPolicy"), field)
    asked, field = policy.get("minAvailable"), f"{field}.minAvailable"
    if asked is None:
        return workers
    rigid = sum(role.replicas for role in roles if role.name != WORKER)
    least = whole_number(asked, field, MOST_REPLICAS * len(roles)) - rigid
    if not min(1, workers) <= least <= workers:
        allowed = f"{rigid + min(1, workers)} to {rigid + workers}: all but the workers, and 1 to all of the workers"
        raise ObjectError(field, asked, allowed)
    return least


def _asks_min_available(spec: Json) -> bool:
    return part(part(spec, "runPolicy"), "schedulingPolicy").get("minAvailable") is not None


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

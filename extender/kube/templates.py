"""Finds the pod templates in a job object.

Depending on the kind there is one template for each role, one for all pods, or one in each job of a JobSet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from extender.kube.fields import Json, ObjectError, each, items, listed, mapping, part, string, whole_number
from extender.kube.jobkinds import JobKind
from policy.cluster.job import WORKER

MOST_REPLICAS: Final = 10_000


class RoleTemplate(NamedTuple):
    """A role of a job: its name, its replicas, its pod template and the path of that template."""

    role: str
    replicas: int
    template: Json
    at: str


def pod_templates(item: object, kind: JobKind) -> list[Json]:
    """Return the pod templates in a job object, even where the rest of the object is malformed."""
    spec = part(item, "spec")
    if kind.counts:
        return [part(spec, "template")]
    if kind.slots == "child":
        jobs = (part(part(job, "template"), "spec") for job in listed(spec, kind.replicas_at))
        return [part(job, "template") for job in jobs]
    return [part(role, "template") for role in part(spec, kind.replicas_at).values()]


def role_templates(spec: Json, kind: JobKind) -> Iterator[RoleTemplate]:
    """Yield the roles of a job with their templates. Raises ObjectError where a role is malformed."""
    for name, (value, why) in kind.fixed.items():
        if spec.get(name) != value:
            raise ObjectError(f"spec.{name}", spec.get(name), f"{value}: {why}")
    if kind.counts:
        yield _worker_role(spec, kind)
    elif kind.slots == "child":
        yield from _roles_of_jobset(spec, kind)
    else:
        yield from _roles_of_mapping(spec, kind)


def annotations_of(item: Json, workers: RoleTemplate | None) -> Json:
    """Return the annotations of the job and of its workers' pod template, by name.

    Where both have an annotation of the same name, that of the job counts. ``workers``: None for a job without workers.
    """
    own = mapping(part(item, "metadata").get("annotations"), "metadata.annotations")
    if workers is None:
        return own
    meta = mapping(workers.template.get("metadata"), f"{workers.at}.metadata")
    return {**mapping(meta.get("annotations"), f"{workers.at}.metadata.annotations"), **own}


def _roles_of_mapping(spec: Json, kind: JobKind) -> Iterator[RoleTemplate]:
    field = f"spec.{kind.replicas_at}"
    replicas = mapping(spec.get(kind.replicas_at), field)
    for key in sorted(replicas):
        where = f"{field}.{key}"
        if key not in kind.roles:
            raise ObjectError(where, key, ", ".join(kind.roles))
        role = mapping(replicas[key], where)
        default = kind.workers if key == kind.worker else 1
        count = _count(role.get("replicas"), f"{where}.replicas", default)
        yield RoleTemplate(
            kind.roles[key], count, mapping(role.get("template"), f"{where}.template"), f"{where}.template"
        )


def _worker_role(spec: Json, kind: JobKind) -> RoleTemplate:
    """Return the worker role of a job whose spec has one template.

    Raises ObjectError where the spec's counts of pods (``kind.counts``) differ, because a gang runs all its pods at the
    same time.
    """
    first, *others = kind.counts
    workers = _count(spec.get(first), f"spec.{first}", 1)
    for name in others:
        if spec.get(name) != workers:
            raise ObjectError(
                f"spec.{name}",
                spec.get(name),
                f"{workers} as in spec.{first}, because a gang runs all its pods at the same time",
            )
    if start := mapping(spec.get("ordinals"), "spec.ordinals").get("start"):
        raise ObjectError("spec.ordinals.start", start, "0")
    return RoleTemplate(WORKER, workers, mapping(spec.get("template"), "spec.template"), "spec.template")


def _roles_of_jobset(spec: Json, kind: JobKind) -> Iterator[RoleTemplate]:
    """Yield each Job of the JobSet as a role.

    Raises ObjectError where the JobSet does not create all its Jobs at once, because the gang would never be complete.
    """
    order = mapping(spec.get("startupPolicy"), "spec.startupPolicy").get("startupPolicyOrder")
    if order not in (None, "AnyOrder"):
        raise ObjectError("spec.startupPolicy.startupPolicyOrder", order, "AnyOrder")
    jobs = 0
    for where, job in each(spec, "spec", kind.replicas_at):
        if items(job.get("dependsOn"), f"{where}.dependsOn"):
            raise ObjectError(f"{where}.dependsOn", job["dependsOn"], "none, because all pods of a gang start together")
        name = string(job.get("name"), f"{where}.name")
        at = f"{where}.template.spec"
        inner = mapping(mapping(job.get("template"), f"{where}.template").get("spec"), at)
        pods = _pods_of(inner, at)
        template = mapping(inner.get("template"), f"{at}.template")
        replicas = _count(job.get("replicas"), f"{where}.replicas", 1)
        jobs += replicas
        if jobs > MOST_REPLICAS:
            raise ObjectError(f"{where}.replicas", replicas, f"at most {MOST_REPLICAS} replicas of all jobs together")
        for index in range(replicas):
            yield RoleTemplate(f"{name}-{index}", pods, template, f"{at}.template")


def _pods_of(job: Json, at: str) -> int:
    if (mode := job.get("completionMode")) not in (None, "Indexed"):
        raise ObjectError(f"{at}.completionMode", mode, "Indexed")
    pods = _count(job.get("parallelism"), f"{at}.parallelism", 1)
    if job.get("completions") not in (None, pods):
        raise ObjectError(f"{at}.completions", job["completions"], f"{pods}, as in parallelism")
    return pods


def _count(value: Any, field: str, default: int) -> int:
    return default if value is None else whole_number(value, field, MOST_REPLICAS)

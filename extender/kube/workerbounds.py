"""Reads a job's bounds: its minimum and maximum of workers, whether the job states them, and why they are not used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from extender.kube.fields import Json, ObjectError, mapping, whole_number, written_number
from extender.kube.jobkinds import MAX_WORKERS, MIN_WORKERS, JobKind
from extender.kube.templates import MOST_REPLICAS
from policy.cluster.job import WORKER, Role

BOUNDS: Final = ("minReplicas", "maxReplicas")
NOT_ELASTIC: Final = (
    "the bounds of workers are not used, because spec.{field} is not set and without it {why}; set it, or remove the "
    "bounds"
)
AUTOSCALED: Final = (
    "the bounds of workers are not used, because with spec.{field} a HorizontalPodAutoscaler sets the number of "
    "workers; remove that field, or the bounds"
)
HALF_STATED: Final = (
    "the bounds of workers are not used, because only one is stated and the other would follow from the replicas, "
    "which change; state both kohort.dev/min-workers and kohort.dev/max-workers"
)
SCHEDULING: Final = "spec.runPolicy.schedulingPolicy"


@dataclass(frozen=True, slots=True)
class WorkerBounds:
    """A job's minimum and maximum of workers.

    ``min_stated``, ``max_stated``: whether the job's object states them. ``note``: the reason why stated bounds are not
    used, empty if they are.
    """

    least: int
    most: int
    min_stated: bool = True
    max_stated: bool = True
    note: str = ""


def read_bounds(notes: Json, spec: Json, kind: JobKind, roles: Sequence[Role]) -> WorkerBounds:
    """Return the bounds of workers that a job states.

    They are read from the annotations (``notes``), else from the kind's own fields, else from
    schedulingPolicy.minAvailable. A job that states none is rigid: its number of workers is both bounds. Raises
    ObjectError where a bound is malformed, or where bounds contradict one another.
    """
    workers = next((role.replicas for role in roles if role.name == WORKER), None)
    if workers is None:
        _refuse_bounds(notes)
        _min_available(spec, roles, 0)
        return WorkerBounds(0, 0)
    own = mapping(spec.get(kind.bounds_at), f"spec.{kind.bounds_at}") if kind.bounds_at else {}
    stated = {**_own_bounds(own, kind), **notes}
    # minAvailable is not checked where the job states its minimum elsewhere, because a resize may make it wrong.
    available = None if MIN_WORKERS in stated else _min_available(spec, roles, workers)
    field = kind.workers_at
    least = _least(stated, available, workers, field)
    most = _most(stated, workers, least)
    note = _why_fixed(spec, own, stated, kind) if (least, most) != (workers, workers) else ""
    if note:
        least = most = _at_least_one(workers, field)
    return WorkerBounds(least, most, MIN_WORKERS in stated or available is not None, MAX_WORKERS in stated, note)


def _least(stated: Json, available: int | None, workers: int, field: str) -> int:
    if MIN_WORKERS not in stated:
        asked = _at_least_one(workers, field)
        return asked if available is None else available
    least = written_number(stated[MIN_WORKERS], MIN_WORKERS, MOST_REPLICAS)
    if least < 1:
        raise ObjectError(MIN_WORKERS, least, "1 or more")
    return least


def _at_least_one(workers: int, field: str) -> int:
    """Return the job's number of workers. Raises ObjectError if it is 0.

    The number stands for the minimum of a job that states none. ``field``: the path of the number, for messages.
    """
    if workers < 1:
        raise ObjectError(field, workers, "1 or more")
    return workers


def _most(stated: Json, workers: int, least: int) -> int:
    if MAX_WORKERS not in stated:
        return max(workers, least)
    most = written_number(stated[MAX_WORKERS], MAX_WORKERS, MOST_REPLICAS)
    if most < least:
        given = MIN_WORKERS if MIN_WORKERS in stated else "the minimum that the job asks for"
        raise ObjectError(MAX_WORKERS, most, f"{least} or more, which is {given}")
    return most


def _why_fixed(spec: Json, own: Json, notes: Json, kind: JobKind) -> str:
    """Return the reason why the job's stated bounds are not used, so that it is rigid; empty where they are used.

    ``own``: the kind's own object of bounds, such as elasticPolicy. ``notes``: the stated bounds, as annotations.
    """
    if kind.elastic_if and spec.get(kind.elastic_if) is not True and not isinstance(spec.get(kind.elastic_if), dict):
        return NOT_ELASTIC.format(field=kind.elastic_if, why=kind.why_fixed)
    if kind.scaled_by and own.get(kind.scaled_by):
        return AUTOSCALED.format(field=f"{kind.bounds_at}.{kind.scaled_by}")
    return HALF_STATED if kind.scale and not (MIN_WORKERS in notes and MAX_WORKERS in notes) else ""


def _own_bounds(own: Json, kind: JobKind) -> Json:
    """Return the bounds that the spec itself states (``own``), as annotations; a missing bound equals the other bound.

    Raises ObjectError where a bound is malformed.
    """
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


def _refuse_bounds(notes: Json) -> None:
    """Raise ObjectError where the annotations of a job without a Worker role state bounds of workers other than 0."""
    for name in (MIN_WORKERS, MAX_WORKERS):
        if name in notes and written_number(notes[name], name, MOST_REPLICAS):
            raise ObjectError(name, notes[name], "0, because the job has no Worker role")


def _min_available(spec: Json, roles: Sequence[Role], workers: int) -> int | None:
    """Return the minimum of workers that follows from ``minAvailable``; None where the job states no minAvailable.

    ``minAvailable`` counts the pods of all roles, so the pods of the other roles are subtracted from it. ``workers``:
    the job's present number of workers. Raises ObjectError where the minimum is not between 1 and that number.
    """
    run = mapping(spec.get("runPolicy"), "spec.runPolicy")
    asked, field = mapping(run.get("schedulingPolicy"), SCHEDULING).get("minAvailable"), f"{SCHEDULING}.minAvailable"
    if asked is None:
        return None
    rigid = sum(role.replicas for role in roles if role.name != WORKER)
    least = whole_number(asked, field, MOST_REPLICAS * len(roles)) - rigid
    if not min(1, workers) <= least <= workers:
        allowed = (
            f"{rigid + min(1, workers)} to {rigid + workers}: all pods that are not workers, and from one worker to all"
        )
        raise ObjectError(field, asked, allowed)
    return least

"""Finds the jobs and pods that a decision is about, with their names, because a journal is read after they are
deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from policy.cluster.actions import Admit, Bind, Effect, RefuseBind, Remember
from policy.cluster.model import Pod
from policy.cluster.snapshot import Snapshot


class Named(NamedTuple):
    """The name and kind of a job. uid: the ledger's identifier of the job."""

    uid: str
    namespace: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Subject:
    """The job and pod that one effect is about.

    namespace: the namespace of the job, or of a pod that belongs to no job. pod: the pod's name, empty if the effect is
    about no pod. rival: the waiting job for which ``job`` was resized. awaited: the jobs (``namespace/name``) whose
    pods must go before the plan can be bound.
    """

    namespace: str = ""
    job: Named | None = None
    pod: str = ""
    rival: Named | None = None
    awaited: tuple[str, ...] = ()


NOBODY = Subject()


def subject_of(effect: Effect, snapshots: Sequence[Snapshot]) -> Subject:
    """Return the job and pod that the effect is about.

    snapshots: where they are looked up, in this order: the snapshot after the step, then the one before it.
    """
    match effect:
        case Remember():
            return NOBODY
        case Bind() | RefuseBind():
            pod = _pod(effect.uid, snapshots)
            return Subject(pod.namespace, _job(pod.job_uid, snapshots), pod.name) if pod is not None else NOBODY
        case Admit():
            namespace = effect.job_uid.partition("/")[0]
            return Subject(namespace, _job(effect.job_uid, snapshots), awaited=_owners(effect.waits_for, snapshots))
        case _:
            rival = getattr(effect, "on_behalf_of", "")
            namespace = effect.job_uid.partition("/")[0]
            return Subject(namespace, _job(effect.job_uid, snapshots), rival=_job(rival, snapshots))


def _owners(pods: Iterable[str], snapshots: Sequence[Snapshot]) -> tuple[str, ...]:
    found = (pod for uid in pods if (pod := _pod(uid, snapshots)) is not None)
    jobs = (_job(uid, snapshots) for uid in {pod.job_uid for pod in found})
    return tuple(sorted(f"{job.namespace}/{job.name}" for job in jobs if job is not None))


def _pod(uid: str, snapshots: Sequence[Snapshot]) -> Pod | None:
    return next((pod for snapshot in snapshots if (pod := snapshot.pods.get(uid)) is not None), None)


def _job(uid: str, snapshots: Sequence[Snapshot]) -> Named | None:
    found = (job for snapshot in snapshots if (job := snapshot.jobs.get(uid)) is not None)
    job = next(found, None)
    return Named(job.uid, job.namespace, job.name, job.kind) if job is not None else None

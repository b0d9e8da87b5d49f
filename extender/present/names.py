"""Helpers that several views share: names of jobs, and the order of members."""

from __future__ import annotations

from extender.state.journal import Named
from policy.cluster.job import WORKER, Job, Slot
from policy.cluster.snapshot import Snapshot


def named(job: Job | Named) -> dict[str, str]:
    """Return the fields of the view JobName for that job."""
    return {"namespace": job.namespace, "name": job.name, "kind": job.kind, "uid": api_uid(job.namespace, job.uid)}


def job_named(snapshot: Snapshot, namespace: str, name: str) -> Job | None:
    """Return the job of that name, or None; if jobs of several kinds have it, the one that arrived last."""
    jobs = (job for job in snapshot.jobs.values() if (job.namespace, job.name) == (namespace, name))
    return max(jobs, key=lambda job: job.arrival, default=None)


def api_uid(namespace: str, uid: str) -> str:
    """Return the UID that the API server gave the job; ``uid`` is the ledger's, which is ``namespace/UID``."""
    return uid.removeprefix(f"{namespace}/")


def rigid_first(slot: Slot) -> tuple[bool, Slot]:
    """Return the sort key that puts ps and other rigid members before workers."""
    return slot.role == WORKER, slot

"""Why one pod has no node now: the reason is filter's answer, and decides whether the pod keeps its scheduling gate."""

from __future__ import annotations

from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.job import WORKER, Job, Slot, queued
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Snapshot, reason_of


def refuse_pod(snapshot: Snapshot, pod: Pod | None) -> Reason | None:
    """Return why the pod has no node now; None if it is bound or has a planned node that it may be bound to."""
    if not snapshot.synced:
        return Reason.NOT_SYNCED
    if not snapshot.leading and not (pod is not None and pod.node):
        return Reason.NOT_LEADING  # Only the replica that leads makes plans.
    job = snapshot.jobs.get(pod.job_uid) if pod is not None else None
    if pod is None or job is None:
        return Reason.UNKNOWN_JOB
    if pod.node:
        return None
    gang = snapshot.gang(job.uid)
    if not queued(job) or gang.state not in ADMITTED:
        return reason_of(snapshot, job).reason
    if gang.waits_for:
        return Reason.ROOM_BEING_FREED
    if surplus_first(snapshot, job, gang):
        return Reason.SURPLUS_FIRST
    return _refuse_slot(job, gang, pod.slot)


def surplus_first(snapshot: Snapshot, job: Job, gang: Gang) -> bool:
    """Tell whether a Deployment's workers beyond the gang's target must go before any worker is bound.

    The ReplicaSet controller deletes unbound pods first, but it may not yet know of a binding that was just made, and
    would then delete a bound worker.
    """
    if not (job.unnumbered and job.elastic and gang.state is State.PLANNED and job.worker):
        return False
    there = (pod for pod in snapshot.pods_of(job.uid) if not (pod.ended or pod.terminating))
    return job.worker.replicas > gang.workers or sum(1 for _ in there) > gang.workers


def _refuse_slot(job: Job, gang: Gang, slot: Slot | None) -> Reason | None:
    role = job.role(slot.role) if slot is not None else None
    if slot is None or role is None:
        return Reason.NOT_A_MEMBER
    if slot in gang.nodes:
        return None
    if slot.role != WORKER and slot.index >= role.replicas:
        return Reason.NOT_A_MEMBER
    if not gang.gives(slot):
        return Reason.SURPLUS
    return Reason.NO_ROOM

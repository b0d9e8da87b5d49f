"""Keeps writes that the API server refuses, with its message, and reports each of them once.

A resize that is refused by an admission policy, or for lack of a permission, would be refused again. So the decision is
taken back: no plan waits any longer for the room of such a shrink, or for surplus pods that it was to remove, and no
room is kept for the workers of such a growth.
"""

from __future__ import annotations

from collections.abc import Iterable

from policy.cluster.actions import Effect, Resize, WriteRefused
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import Gang, State
from policy.cluster.job import WORKER, Job
from policy.cluster.reasons import Reason
from policy.cluster.refusedwrite import BIND, SET_REPLICAS, RefusedWrite, shortened
from policy.transitions.deadlines.freeing import stalled_shrinks
from policy.transitions.deadlines.growth import absent, give_back
from policy.transitions.gangs import pods_of, retarget
from policy.transitions.recovery.release import give_up


def take_refused(draft: Draft, refused: Iterable[RefusedWrite]) -> list[Effect]:
    """Replace the list of refused writes by ``refused``, and return a report for each that was not on it before."""
    if not draft.now.leading:
        return []  # The list comes from a controller that does not know yet that this replica no longer leads.
    before = draft.now.refused_writes
    known = {(uid, one.write) for uid, writes in before.items() for one in writes}
    found: dict[str, tuple[RefusedWrite, ...]] = {}
    effects: list[Effect] = []
    for one in refused:
        named = _named(draft, one)
        if named is None:
            continue
        uid, write = named
        found[uid] = (*found.get(uid, ()), write)
        # A job gets only one report for each kind of write, even if the writes of many of its pods are refused.
        if (uid, one.write) not in known:
            known.add((uid, one.write))
            effects.append(WriteRefused(uid, write, _rival(draft, uid, write)))
    for uid in found.keys() | before.keys():
        if uid:
            draft.touch(uid)
    draft.set("refused_writes", found)
    return effects


def _named(draft: Draft, one: RefusedWrite) -> tuple[str, RefusedWrite] | None:
    """Return the uid of the job that needs the refused write, and the write with the name of its object added.

    The uid is empty for a write that belongs to no job (the switch of the admission gate, the annotation of a node).
    The result is None if the object is not known.
    """
    if not one.uid:
        return "", one
    job = draft.now.jobs.get(one.uid)
    if job is not None:
        return job.uid, replace(one, name=job.key)
    if one.write == "MarkNode":
        node = next((node for node in draft.now.nodes.values() if node.uid == one.uid), None)
        return ("", replace(one, name=node.name)) if node is not None else None
    pod = draft.now.pods.get(one.uid)
    return (pod.job_uid, replace(one, name=f"{pod.namespace}/{pod.name}")) if pod is not None else None


def _rival(draft: Draft, uid: str, refused: RefusedWrite) -> str:
    """Return the uid of the job for which a refused shrink should free room; empty for any other write."""
    gang, job = draft.gang(uid), draft.now.jobs.get(uid)
    shrinks = refused.write == SET_REPLICAS and job is not None and job.worker and gang.workers < job.worker.replicas
    return gang.scaling.on_behalf_of if shrinks else ""


def refused_binding(draft: Draft, uid: str, message: str) -> list[Effect]:
    """Return a report that the API server refused to bind a member; the gang keeps the refusal until its minimum is
    bound.
    """
    pod = draft.now.pods.get(uid)
    if pod is None or not pod.job_uid or not message:
        return []
    refused = RefusedWrite(BIND, uid, shortened(message), name=f"{pod.namespace}/{pod.name}")
    gang = draft.gang(pod.job_uid)
    draft.put_gang(replace(gang, refused=refused))
    return [WriteRefused(pod.job_uid, refused)]


def heed_refused(draft: Draft, now: float, *, gives_back: bool) -> list[Effect]:
    """Take back each resize that the API server has refused for a lasting reason (``RefusedWrite.lasting``).

    gives_back: whether the policy grows jobs by itself; a refused growth is taken back only then.
    """
    effects: list[Effect] = []
    for uid, writes in sorted(draft.now.refused_writes.items()):
        resize = next((one for one in writes if one.write == SET_REPLICAS and one.lasting), None)
        job, gang = draft.now.jobs.get(uid), draft.gang(uid)
        if resize is None or job is None or job.worker is None:
            continue
        shrinks, grows = gang.workers < job.worker.replicas, gang.workers > job.worker.replicas
        match gang.state:
            case State.PLANNED if shrinks and job.unnumbered:
                effects += _stop_waiting(draft, gang, resize, now)
            case State.RUNNING if shrinks and gang.scaling.on_behalf_of:
                effects += _keep_workers(draft, job, gang, resize, now)
            case State.RUNNING if grows and gives_back and job.elastic:
                effects += _drop_growth(draft, job, gang, resize, now)
    return effects


def _keep_workers(draft: Draft, job: Job, gang: Gang, resize: RefusedWrite, now: float) -> list[Effect]:
    """Let the job keep the workers that a refused shrink was to take, and give up the plans that wait for their room.

    Return the reports and the resize.
    """
    going = {pod.uid for pod in pods_of(draft, job.uid)}
    effects: list[Effect] = []
    for uid in sorted(draft.index.freeing):
        plan = draft.gang(uid)
        if not going.isdisjoint(plan.waits_for):
            effects += [one for one in stalled_shrinks(draft, plan) if one.job_uid == job.uid]
            effects += give_up(draft, plan, now, Reason.RESIZE_REFUSED, back_off=False)
    there = {
        pod.slot: pod.node
        for pod in pods_of(draft, job.uid)
        if pod.slot is not None and pod.slot.role == WORKER and pod.holds_room and not pod.terminating
    }
    workers = min(max((slot.index + 1 for slot in there), default=0), job.max_workers)
    if workers <= gang.workers:
        return effects
    kept = {slot: node for slot, node in there.items() if slot.index < workers}
    gang = retarget(draft, gang, workers, kept, now)
    draft.put_gang(replace(gang, scaling=replace(gang.scaling, kept_at=now), refused=resize))
    _forget(draft, job.uid, resize)
    return [*effects, Resize(job.uid, workers, kept)]


def _stop_waiting(draft: Draft, gang: Gang, resize: RefusedWrite, now: float) -> list[Effect]:
    """Give up a Deployment's plan: no worker may be bound before the surplus pods are gone (``surplus_first``), and
    they stay.
    """
    _forget(draft, gang.job_uid, resize)
    return give_up(draft, replace(gang, refused=resize), now, Reason.RESIZE_REFUSED)


def _drop_growth(draft: Draft, job: Job, gang: Gang, resize: RefusedWrite, now: float) -> list[Effect]:
    """Shrink the gang by the workers that will not be created because its growth was refused; their room is free."""
    missing = absent(draft, job, gang)
    if not missing:
        return []
    effects = give_back(draft, replace(gang, awaited=missing), now)
    draft.put_gang(replace(draft.gang(job.uid), refused=resize))
    _forget(draft, job.uid, resize)
    return effects


def _forget(draft: Draft, uid: str, resize: RefusedWrite) -> None:
    """Remove a resize that was taken back from the list of refused writes.

    The gang still has the refusal, so that its message can be shown.
    """
    writes = draft.now.refused_writes
    left = tuple(one for one in writes[uid] if one != resize)
    others = {other: refused for other, refused in writes.items() if other != uid}
    draft.set("refused_writes", {**others, uid: left} if left else others)

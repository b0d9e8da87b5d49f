"""After a batch of facts: let every touched gang follow from its pods (complete, lost, gone, finished)."""

from __future__ import annotations

from dataclasses import replace

from policy.cluster.actions import Effect
from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.lifecycle import Move
from policy.cluster.model import WORKER, Job, Slot
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Draft, queued
from policy.transitions.barrier import commit_if_complete
from policy.transitions.gangs import (
    bound_slots,
    cleared,
    complete,
    give_up,
    holding_pods,
    job_of,
    move,
    pod_in,
    refuse_held,
    rules_of,
)


def settle(draft: Draft, now: float) -> list[Effect]:
    """Bring each touched gang in line with its job and pods. Nothing is concluded before every list is in."""
    if not draft.read("synced"):
        return []
    effects: list[Effect] = []
    for uid in sorted(draft.touched):
        job = job_of(draft, uid)
        if job is not None:
            effects += settle_gang(draft, job, now)
    return effects


def settle_gang(draft: Draft, job: Job, now: float) -> list[Effect]:
    """One gang; the cases exclude one another, the first that holds is taken."""
    gang = draft.gang(job.uid)
    if job.finished:
        return _finish(draft, gang)
    if gang.state is State.COMPLETED:
        return []
    if not queued(job) and gang.state in ADMITTED:
        return give_up(draft, gang, now, Reason.SUSPENDED, back_off=False)
    if gang.state is State.RELEASING or (gang.state is State.REPAIRING and not _anything(draft, gang)):
        return _gone(draft, gang)
    return _follow_pods(draft, job, gang, now)


def _finish(draft: Draft, gang: Gang) -> list[Effect]:
    if gang.state is State.COMPLETED:
        return []
    move(draft, cleared(gang), Move.FINISH, admitted_at=gang.admitted_at)
    return refuse_held(gang, Reason.FINISHED)


def _anything(draft: Draft, gang: Gang) -> bool:
    return bool(bound_slots(draft, gang.job_uid) or gang.in_flight or gang.held)


def _gone(draft: Draft, gang: Gang) -> list[Effect]:
    if not holding_pods(draft, gang.job_uid) and not gang.in_flight:
        move(draft, cleared(gang), Move.GONE)
    return []


def _follow_pods(draft: Draft, job: Job, gang: Gang, now: float) -> list[Effect]:
    bound = bound_slots(draft, job.uid)
    whole = complete(job, bound)
    match gang.state:
        case State.WAITING:
            if bound:
                _adopt(draft, job, gang, bound, whole, now)
        case State.PLANNED | State.BINDING | State.REPAIRING:
            return _progress(draft, job, gang, whole, now)
        case State.RUNNING:
            if not whole:
                move(draft, gang, Move.LOSE, deadline=now + rules_of(draft).repair_seconds)
        case _:
            pass
    return []


def _progress(draft: Draft, job: Job, gang: Gang, whole: bool, now: float) -> list[Effect]:
    if whole:
        move(draft, gang, Move.COMPLETE, deadline=None, attempts=0, misses=0, not_before=0.0, retried=False, held={},
             window_ends=None, admitted_at=gang.admitted_at or now)  # fmt: skip
        return []
    if gang.waits_for:
        return _await_room(draft, gang, now)
    return commit_if_complete(draft, gang, now) if gang.state is State.PLANNED and gang.held else []


def _await_room(draft: Draft, gang: Gang, now: float) -> list[Effect]:
    """Drop those that are gone from what the plan waits for; its time starts when the room is free."""
    pods = draft.read("pods")
    left = frozenset(uid for uid in gang.waits_for if uid in pods and pods[uid].holds_room)
    if left != gang.waits_for:
        deadline = gang.deadline if left else now + rules_of(draft).plan_seconds
        draft.put_gang(replace(gang, waits_for=left, deadline=deadline))
    return []


def _adopt(draft: Draft, job: Job, gang: Gang, bound: set[Slot], whole: bool, now: float) -> None:
    """Bound members without a plan: after a restart, or bound by somebody else. Whole: it runs; else it is repaired."""
    nodes = {slot: pod.node for slot in sorted(bound) if (pod := pod_in(draft, job.uid, slot)) is not None and pod.node}
    indices = [slot.index + 1 for slot in bound if slot.role == WORKER]
    asked = job.worker.replicas if job.worker else 0
    workers = min(max([job.min_workers, *indices]), max(asked, job.min_workers)) if whole else job.min_workers
    how = Move.COMPLETE if whole else Move.LOSE
    deadline = None if whole else now + rules_of(draft).repair_seconds
    move(draft, gang, how, nodes=nodes, workers=workers, deadline=deadline, admitted_at=now)

"""After a batch of facts: let every touched gang follow from its pods (complete, lost, gone, finished)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from policy.cluster.actions import Effect, Resize
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.lifecycle import Awaits, Move
from policy.cluster.model import WORKER, Job, Pod, Slot, queued, releasing
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import missing_pods
from policy.transitions.barrier import commit_if_complete, send_held
from policy.transitions.deadlines.growth import await_rest, follow_arrivals
from policy.transitions.deadlines.patience import until
from policy.transitions.gangs import (
    any_bound,
    any_holds_room,
    any_stays,
    bound_slots,
    cleared,
    complete,
    forget,
    give_up,
    job_of,
    least_workers,
    move,
    none_made,
    refuse_held,
    retarget,
    rules_of,
)
from policy.transitions.migrate import follow_migration


def settle(draft: Draft, now: float) -> list[Effect]:
    """Bring each touched gang in line with its job and pods. Nothing is concluded before every list is in."""
    if not draft.read("synced"):
        return []
    effects: list[Effect] = []
    # A gang that waits for another job's pods to go is not touched by their going.
    for uid in sorted(draft.touched().union(draft.freeing())):
        job = job_of(draft, uid)
        if job is not None:
            effects += settle_gang(draft, job, now)
    return effects


def settle_gang(draft: Draft, job: Job, now: float) -> list[Effect]:
    """One gang; the cases exclude one another, the first that holds is taken."""
    gang = draft.gang(job.uid)
    if job.finished:
        return _finish(draft, gang, now)
    if gang.state is State.COMPLETED:
        return []
    if gang.state is State.RELEASING:
        if job.replaced or gang.in_flight or not queued(job):
            return _gone(draft, gang)
        move(draft, cleared(gang), Move.GONE)  # its pods are not deleted: nobody would create them anew
    if not (queued(job) or (gang.state is State.MIGRATING and releasing(job))):
        return _withdraw(draft, job, gang, now)
    effects = _obey_bounds(draft, job, gang, now)
    gang = draft.gang(job.uid)
    if gang.state is State.REPAIRING and not _anything(draft, gang):
        return effects + _lose_all(draft, gang)
    return effects + _follow_pods(draft, job, gang, now)


def _finish(draft: Draft, gang: Gang, now: float) -> list[Effect]:
    if gang.state is State.COMPLETED:
        return []
    deadline = until(draft, Awaits.OUTCOMES, now) if gang.in_flight else None
    move(draft, cleared(gang), Move.FINISH, admitted_at=gang.admitted_at, deadline=deadline)
    return refuse_held(gang, Reason.FINISHED)


def _anything(draft: Draft, gang: Gang) -> bool:
    return bool(gang.in_flight) or any_stays(draft, gang.job_uid)


def _gone(draft: Draft, gang: Gang) -> list[Effect]:
    if not any_holds_room(draft, gang.job_uid) and not gang.in_flight:
        move(draft, cleared(gang), Move.GONE)
    return []


def _lose_all(draft: Draft, gang: Gang) -> list[Effect]:
    """Of a gang nobody is left but members on their way out: it queues again, and begins at its barrier.

    Those whose node is gone may come back with it.
    """
    if not any_bound(draft, gang.job_uid):
        move(draft, cleared(gang), Move.GONE)
    return []


def _withdraw(draft: Draft, job: Job, gang: Gang, now: float) -> list[Effect]:
    """A suspended or deleted job is released. One that became malformed keeps what it runs; only its plan goes."""
    if gang.state is State.WAITING and releasing(job) and any_holds_room(draft, job.uid):
        move(draft, gang, Move.RELEASE, deadline=until(draft, Awaits.RELEASE, now))  # found after a restart
    if gang.state not in ADMITTED or (job.invalid and gang.state is not State.PLANNED):
        return []
    return give_up(draft, gang, now, _withdrawn(job), back_off=False)


def _withdrawn(job: Job) -> Reason:
    if job.deleting:
        return Reason.DELETING
    if job.suspended:
        return Reason.SUSPENDED
    return Reason.RELEASING if job.released else Reason.INVALID


def _obey_bounds(draft: Draft, job: Job, gang: Gang, now: float) -> list[Effect]:
    """A user who lowers the maximum shrinks the job, whoever waits; one who raises the minimum grows it."""
    wanted = min(max(gang.workers, job.min_workers), job.max_workers)
    if gang.state not in ADMITTED or job.worker is None or wanted == gang.workers:
        return []
    retarget(draft, gang, wanted, {}, now)
    return [Resize(job.uid, wanted)]


def _follow_pods(draft: Draft, job: Job, gang: Gang, now: float) -> list[Effect]:
    bound = bound_slots(draft, job.uid)
    whole = complete(job, bound, least_workers(job, gang), gang.ps)
    if gang.state not in ADMITTED:
        if gang.state is State.WAITING and any_stays(draft, job.uid):
            _adopt(draft, job, gang, bound, whole, now)
        return []
    gang, effects = _keep_to_job(draft, job, gang)
    if gang.state is State.MIGRATING:
        return effects + _migrating(draft, job, gang, now)
    gang = _keep_to_pods(draft, job, gang, bound)
    follow = _watch_over if gang.state is State.RUNNING else _progress
    return effects + follow(draft, job, gang, bound, whole, now)


def _migrating(draft: Draft, job: Job, gang: Gang, now: float) -> list[Effect]:
    gang = follow_migration(draft, job, gang, now)
    lost = gang.state is State.REPAIRING and not _anything(draft, gang)
    return _lose_all(draft, gang) if lost else []


def _keep_to_job(draft: Draft, job: Job, gang: Gang) -> tuple[Gang, list[Effect]]:
    """Members that a user has taken out of the job (fewer ps) have no place in its plan any more."""
    gone = [slot for slot in gang.nodes if not job.has(slot, gang.ps)]
    return forget(draft, gang, gone) if gone else (gang, [])


def _keep_to_pods(draft: Draft, job: Job, gang: Gang, bound: set[Slot]) -> Gang:
    """A node that comes back has its pods on it, whatever place their slots were given meanwhile."""
    there = {slot: pod.node for slot, pod in _pods_in(draft, gang.job_uid, bound) if pod.holds_room}
    given = {slot: node for slot, node in there.items() if gang.gives(slot) and job.has(slot, gang.ps)}
    if given.items() <= gang.nodes.items() and len(gang.robbed) == len(gang.lost):
        return gang
    gang = replace(gang, nodes={**gang.nodes, **given})
    gang = replace(gang, lost=gang.robbed)
    draft.put_gang(gang)
    return gang


def _pods_in(draft: Draft, uid: str, slots: Collection[Slot]) -> Iterator[tuple[Slot, Pod]]:
    """The pods in these slots; one for which none will come again has perhaps none."""
    pods, members = draft.read("pods"), draft.read("members").get(uid, {})
    return ((slot, pods[members[slot]]) for slot in slots if slot in members)


def _progress(draft: Draft, job: Job, gang: Gang, bound: set[Slot], whole: bool, now: float) -> list[Effect]:
    if whole:
        effects = send_held(
            draft, gang, Move.COMPLETE, least=_reached(job, gang, bound), deadline=None, attempts=0, misses=0,
            not_before=0.0, retried=False, refused=None, waits_for=(), admitted_at=gang.admitted_at or now,
        )  # fmt: skip
        await_rest(draft, job, now)
        return effects
    if none_made(draft, gang):
        return give_up(draft, gang, now, Reason.BIND_FAILED)
    if gang.state is State.PLANNED and gang.whole and missing_pods(draft.view(), job):
        return give_up(draft, gang, now, Reason.WAITING_FOR_PODS, back_off=_cost_somebody(draft, job.uid))
    if gang.waits_for:
        _await_room(draft, gang, now)
        return []
    return commit_if_complete(draft, gang, now) if gang.state is State.PLANNED else []


def _cost_somebody(draft: Draft, uid: str) -> bool:
    """Others were shrunk for it: a job whose pods come and go must not shrink them again each time."""
    return any(gang.on_behalf_of == uid for gang in draft.read("gangs").values())


def _reached(job: Job, gang: Gang, bound: set[Slot]) -> int:
    """The minimum that holds from now on: the job's own once it has been reached."""
    reached = complete(job, bound, job.min_workers, gang.ps)
    return job.min_workers if reached else min(gang.least, job.min_workers)


def _watch_over(draft: Draft, job: Job, gang: Gang, bound: set[Slot], whole: bool, now: float) -> list[Effect]:
    if not whole and gang.whole:
        gang = move(draft, gang, Move.LOSE, deadline=until(draft, Awaits.REPAIR, now))
        return [] if _anything(draft, gang) else _lose_all(draft, gang)
    gang = follow_arrivals(draft, job, gang, now)
    if whole and gang.least != (least := _reached(job, gang, bound)):
        draft.put_gang(replace(gang, least=least))
    if whole and not gang.awaited:
        await_rest(draft, job, now)  # one that was there is lost
    return []


def _await_room(draft: Draft, gang: Gang, now: float) -> None:
    """Drop those that are gone from what the plan waits for; its time starts when the room is free."""
    pods = draft.read("pods")
    left = tuple(uid for uid in gang.waits_for if uid in pods and pods[uid].holds_room)
    if left != tuple(gang.waits_for):
        deadline = until(draft, Awaits.ROOM if left else Awaits.MEMBERS, now)
        draft.filled.update(() if left else gang.nodes.values())
        draft.put_gang(replace(gang, waits_for=left, deadline=deadline))


def _adopt(draft: Draft, job: Job, gang: Gang, bound: set[Slot], whole: bool, now: float) -> None:
    """Bound members without a plan: after a restart, or bound by somebody else. Whole: it runs; else it is repaired.

    Without gangs half a job is as good as any.
    """
    gangs = rules_of(draft).gangs
    whole = whole or not gangs
    asked = job.worker.replicas if job.worker else 0
    indices = [slot.index + 1 for slot in bound if slot.role == WORKER]
    most = min(max(asked, job.min_workers), job.max_workers)
    workers = min(max([job.min_workers, *indices]), most) if whole else job.min_workers
    given = sorted(slot for slot in bound if job.has(slot) and (slot.role != WORKER or slot.index < workers))
    members = draft.read("members").get(job.uid, {})
    nodes = {slot: pod.node for slot, pod in _pods_in(draft, job.uid, given) if pod.node}
    how = Move.COMPLETE if whole else Move.LOSE
    deadline = None if whole else until(draft, Awaits.REPAIR, now)
    move(
        draft, gang, how, nodes=nodes, workers=workers, least=job.min_workers, deadline=deadline, admitted_at=now,
        whole=gangs,
        plan=next((pod.plan for uid in members.values() if (pod := draft.read("pods")[uid]).plan), ""),
    )  # fmt: skip

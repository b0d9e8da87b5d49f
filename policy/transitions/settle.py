"""Brings each gang that the events of a step have touched into line with its job and its pods, by a literal table.

A look at the job and its pods has one of six findings (``findings.py``). ``FOLLOWS`` lists, for each state and finding,
the functions that are called, in order; the last one moves the gang to another state, if any does. For a pair that is
not in the table nothing is done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from policy.cluster.actions import Effect, Resize
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import NO_FAILURE, Gang, State
from policy.cluster.job import WORKER, Job, Slot, releasing
from policy.cluster.lifecycle import Awaits, Move
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import missing_pods
from policy.transitions.barrier import commit_if_complete, send_held
from policy.transitions.deadlines.growth import await_rest, follow_arrivals
from policy.transitions.deadlines.patience import until
from policy.transitions.findings import Finding, Look, look_at
from policy.transitions.gangs import any_bound, any_holds_room, complete, forget, move, none_made, refuse_held, retarget
from policy.transitions.migrate import follow_migration
from policy.transitions.recovery.release import cleared, give_up


def settle(draft: Draft, now: float) -> list[Effect]:
    """Bring each gang that this step has touched into line with its job and pods, and return the effects.

    Nothing is done before every watch has delivered its first list, because pods may still be missing.
    """
    if not draft.now.synced:
        return []
    effects: list[Effect] = []
    # Gangs that wait for room are looked at as well, because the pods that go belong to other jobs.
    for uid in sorted(draft.touched().union(draft.freeing())):
        job = draft.now.jobs.get(uid)
        if job is not None:
            effects += settle_gang(draft, job, now)
    return effects


def settle_gang(draft: Draft, job: Job, now: float) -> list[Effect]:
    """Call the functions that ``FOLLOWS`` has for the gang's state and for what a look at its job and pods finds."""
    gang = draft.gang(job.uid)
    look = look_at(draft, job, gang, now)
    effects: list[Effect] = []
    for follow in FOLLOWS.get((gang.state, look.finding), ()):
        effects += follow(draft, look)
    return effects


# -- The functions below follow when the job has ended, or must not run now. ------------------------


def _finish(draft: Draft, look: Look) -> list[Effect]:
    gang = draft.gang(look.job.uid)
    deadline = until(draft, Awaits.OUTCOMES, look.now) if gang.in_flight else None
    move(draft, cleared(gang), Move.FINISH, admitted_at=gang.admitted_at, deadline=deadline)
    return refuse_held(gang, Reason.FINISHED)


def _withdraw(draft: Draft, look: Look) -> list[Effect]:
    """Give up the plan of a job that is suspended, being deleted or malformed, and release its bound members.

    A malformed job only loses a plan whose bindings have not been sent yet; its bound members go on.
    """
    gang = draft.gang(look.job.uid)
    if look.job.invalid and gang.state is not State.PLANNED:
        return []
    return give_up(draft, gang, look.now, _withdrawn(look.job), back_off=False)


def _withdrawn(job: Job) -> Reason:
    if job.deleting:
        return Reason.DELETING
    if job.suspended:
        return Reason.SUSPENDED
    return Reason.RELEASING if job.released else Reason.INVALID


def _go_on_releasing(draft: Draft, look: Look) -> list[Effect]:
    """Continue a release that began before a restart: Kohort has suspended the job, but pods still hold room."""
    if releasing(look.job) and any_holds_room(draft, look.job.uid):
        move(draft, draft.gang(look.job.uid), Move.RELEASE, deadline=until(draft, Awaits.RELEASE, look.now))
    return []


# -- The functions below follow when a release ends. ------------------------------------------------


def _end_release(draft: Draft, look: Look) -> list[Effect]:
    gang = draft.gang(look.job.uid)
    if not any_holds_room(draft, gang.job_uid) and not gang.in_flight:
        move(draft, cleared(gang), Move.GONE)
    return []


def _queue_again(draft: Draft, look: Look) -> list[Effect]:
    """End the release of a job that is to be scheduled again, once its pods are gone.

    If no controller would create deleted pods again, the pods are not deleted, and the release ends at once.
    """
    gang = draft.gang(look.job.uid)
    if look.job.replaced or gang.in_flight:
        return _end_release(draft, look)
    move(draft, cleared(gang), Move.GONE)
    return settle_gang(draft, look.job, look.now)


# -- The functions below bring the plan into line with the job and its pods. ------------------------


def _obey_bounds(draft: Draft, look: Look) -> list[Effect]:
    """Resize a job whose user has lowered its maximum below, or raised its minimum above, its number of workers."""
    job, gang = look.job, draft.gang(look.job.uid)
    wanted = min(max(gang.workers, job.min_workers), job.max_workers)
    if job.worker is None or wanted == gang.workers:
        return []
    retarget(draft, gang, wanted, {}, look.now)
    return [Resize(job.uid, wanted)]


def _keep_to_job(draft: Draft, look: Look) -> list[Effect]:
    """Remove slots from the plan that the job no longer has, because a user has lowered a role's number of replicas."""
    gang = draft.gang(look.job.uid)
    gone = [slot for slot in gang.nodes if not look.job.has(slot, gang.ps)]
    return forget(draft, gang, gone)[1] if gone else []


def _keep_to_pods(draft: Draft, look: Look) -> list[Effect]:
    """Plan each bound member on the node where it is.

    The plan has another node for a member whose node was gone for a while and has come back.
    """
    job, gang = look.job, draft.gang(look.job.uid)
    there = {slot: pod.node for slot, pod in _pods_in(draft, gang.job_uid, look.bound) if pod.holds_room}
    given = {slot: node for slot, node in there.items() if gang.gives(slot) and job.has(slot, gang.ps)}
    if not given.items() <= gang.nodes.items() or len(gang.preempted) != len(gang.lost):
        gang = replace(gang, nodes={**gang.nodes, **given})
        draft.put_gang(replace(gang, lost=gang.preempted))
    return []


def _pods_in(draft: Draft, uid: str, slots: Collection[Slot]) -> Iterator[tuple[Slot, Pod]]:
    """Yield each of the slots with its pod; slots without a pod are left out."""
    pods, members = draft.now.pods, draft.now.members.get(uid, {})
    return ((slot, pods[members[slot]]) for slot in slots if slot in members)


# -- The functions below follow when fewer members than the minimum are bound. ----------------------


def _await_members(draft: Draft, look: Look) -> list[Effect]:
    """Follow a planned gang: note which pods must still go before its room is free, or bind it once its minimum is
    held.

    If a pod of the minimum does not exist any more, the plan is given up.
    """
    gang = draft.gang(look.job.uid)
    if gang.whole and missing_pods(draft.view(), look.job):
        # If other jobs were shrunk for the gang, it backs off, because a job whose pods come and go must not shrink
        # them again each time.
        back_off = any(other.scaling.on_behalf_of == gang.job_uid for other in draft.now.gangs.values())
        return give_up(draft, gang, look.now, Reason.WAITING_FOR_PODS, back_off=back_off)
    return _await_room(draft, look) if gang.waits_for else commit_if_complete(draft, gang, look.now)


def _await_room(draft: Draft, look: Look) -> list[Effect]:
    """Remove pods that have gone from those that the plan waits for; each time one has gone, the deadline starts again.

    When all have gone, the gang waits for its members, with a new deadline for them.
    """
    gang, pods = draft.gang(look.job.uid), draft.now.pods
    left = tuple(uid for uid in gang.waits_for if uid in pods and pods[uid].holds_room)
    if left != tuple(gang.waits_for):
        deadline = until(draft, Awaits.ROOM if left else Awaits.MEMBERS, look.now)
        draft.filled.update(() if left else gang.nodes.values())
        draft.put_gang(replace(gang, waits_for=left, deadline=deadline))
    return []


def _await_bindings(draft: Draft, look: Look) -> list[Effect]:
    gang = draft.gang(look.job.uid)
    return give_up(draft, gang, look.now, Reason.BIND_FAILED) if none_made(draft, gang) else []


def _lose(draft: Draft, look: Look) -> list[Effect]:
    """Begin to repair a gang that has lost members of its minimum.

    If the gang's members need not run together (``Gang.whole`` is false), the others go on without a repair.
    """
    gang = draft.gang(look.job.uid)
    if not gang.whole:
        return _keep_running(draft, look)
    move(draft, gang, Move.LOSE, deadline=until(draft, Awaits.REPAIR, look.now))
    return _lose_all(draft, look) if look.finding is Finding.NOBODY else []


def _lose_all(draft: Draft, look: Look) -> list[Effect]:
    """Send a gang back to the queue if all its bound pods are terminating, so that it is bound as a whole again.

    Members on a node that is gone count as bound here, because they may come back together with the node.
    """
    gang = draft.gang(look.job.uid)
    if not any_bound(draft, gang.job_uid):
        move(draft, cleared(gang), Move.GONE)
    return []


# -- The functions below follow when the minimum is bound. ------------------------------------------


def _run(draft: Draft, look: Look) -> list[Effect]:
    """Move the gang to the state running, and send the binds that are still held."""
    job, gang = look.job, draft.gang(look.job.uid)
    effects = send_held(
        draft, gang, Move.COMPLETE, least=_reached(job, gang, look.bound), deadline=None, tries=NO_FAILURE,
        refused=None, waits_for=(), admitted_at=gang.admitted_at or look.now,
    )  # fmt: skip
    await_rest(draft, job, look.now)
    return effects


def _reached(job: Job, gang: Gang, bound: Collection[Slot]) -> int:
    """Return the minimum of workers that the gang must keep from now on.

    If the user has raised the minimum, the old minimum counts until as many workers as the new one are bound.
    """
    reached = complete(job, bound, job.min_workers, gang.ps)
    return job.min_workers if reached else min(gang.least, job.min_workers)


def _keep_running(draft: Draft, look: Look) -> list[Effect]:
    """Note which workers beyond the minimum have come to a running gang, and begin to await those that were lost."""
    job = look.job
    gang = follow_arrivals(draft, job, draft.gang(job.uid), look.now)
    if look.whole and gang.least != (least := _reached(job, gang, look.bound)):
        draft.put_gang(replace(gang, least=least))
    if look.whole and not gang.awaited:
        await_rest(draft, job, look.now)
    return []


def _migrate(draft: Draft, look: Look) -> list[Effect]:
    gang = follow_migration(draft, look.job, draft.gang(look.job.uid), look.now)
    nobody = look.finding in (Finding.NOBODY, Finding.ENDED)
    return _lose_all(draft, look) if gang.state is State.REPAIRING and nobody else []


def _adopt(draft: Draft, look: Look) -> list[Effect]:
    """Make a plan from bound members that no plan has, after a restart or because another scheduler has bound them.

    The gang runs if its minimum is bound, and is repaired otherwise. Under a policy without gangs it always runs.
    """
    job, now, gangs = look.job, look.now, draft.base.rules.gangs
    whole = look.whole or not gangs
    asked = job.worker.replicas if job.worker else 0
    indices = [slot.index + 1 for slot in look.bound if slot.role == WORKER]
    most = min(max(asked, job.min_workers), job.max_workers)
    workers = min(max([job.min_workers, *indices]), most) if whole else job.min_workers
    given = sorted(slot for slot in look.bound if job.has(slot) and (slot.role != WORKER or slot.index < workers))
    members = draft.now.members.get(job.uid, {})
    nodes = {slot: pod.node for slot, pod in _pods_in(draft, job.uid, given) if pod.node}
    how = Move.COMPLETE if whole else Move.LOSE
    deadline = None if whole else until(draft, Awaits.REPAIR, now)
    move(
        draft, draft.gang(job.uid), how, nodes=nodes, workers=workers, least=job.min_workers, deadline=deadline,
        admitted_at=now, whole=gangs,
        plan=next((pod.plan for uid in members.values() if (pod := draft.now.pods[uid]).plan), ""),
    )  # fmt: skip
    return []


Follow = Callable[[Draft, Look], list[Effect]]
PLAN: Final[tuple[Follow, ...]] = (_obey_bounds, _keep_to_job, _keep_to_pods)

FOLLOWS: Final[Mapping[tuple[State, Finding], tuple[Follow, ...]]] = {
    **{(state, Finding.FINISHED): (_finish,) for state in State if state is not State.COMPLETED},
    (State.WAITING, Finding.WITHDRAWN): (_go_on_releasing,),
    (State.WAITING, Finding.ENOUGH): (_adopt,),
    (State.WAITING, Finding.TOO_FEW): (_adopt,),
    (State.PLANNED, Finding.WITHDRAWN): (_withdraw,),
    (State.PLANNED, Finding.ENOUGH): (*PLAN, _run),
    (State.PLANNED, Finding.ENDED): (*PLAN, _run),
    (State.PLANNED, Finding.TOO_FEW): (*PLAN, _await_members),
    (State.PLANNED, Finding.NOBODY): (*PLAN, _await_members),
    (State.BINDING, Finding.WITHDRAWN): (_withdraw,),
    (State.BINDING, Finding.ENOUGH): (*PLAN, _run),
    (State.BINDING, Finding.ENDED): (*PLAN, _run),
    (State.BINDING, Finding.TOO_FEW): (*PLAN, _await_bindings),
    (State.BINDING, Finding.NOBODY): (*PLAN, _await_bindings),
    (State.RUNNING, Finding.WITHDRAWN): (_withdraw,),
    (State.RUNNING, Finding.ENOUGH): (*PLAN, _keep_running),
    (State.RUNNING, Finding.ENDED): (*PLAN, _keep_running),
    (State.RUNNING, Finding.TOO_FEW): (*PLAN, _lose),
    (State.RUNNING, Finding.NOBODY): (*PLAN, _lose),
    # In the state migrating _keep_to_pods is not called, because it would plan the members on their old nodes again.
    (State.MIGRATING, Finding.WITHDRAWN): (_withdraw,),
    (State.MIGRATING, Finding.ENOUGH): (_obey_bounds, _keep_to_job, _migrate),
    (State.MIGRATING, Finding.ENDED): (_obey_bounds, _keep_to_job, _migrate),
    (State.MIGRATING, Finding.TOO_FEW): (_obey_bounds, _keep_to_job, _migrate),
    (State.MIGRATING, Finding.NOBODY): (_obey_bounds, _keep_to_job, _migrate),
    (State.REPAIRING, Finding.WITHDRAWN): (_withdraw,),
    (State.REPAIRING, Finding.ENOUGH): (*PLAN, _run),
    (State.REPAIRING, Finding.ENDED): (_obey_bounds, _lose_all),
    (State.REPAIRING, Finding.TOO_FEW): (*PLAN, _await_room),
    (State.REPAIRING, Finding.NOBODY): (_obey_bounds, _lose_all),
    (State.RELEASING, Finding.WITHDRAWN): (_end_release,),
    (State.RELEASING, Finding.ENOUGH): (_queue_again,),
    (State.RELEASING, Finding.ENDED): (_queue_again,),
    (State.RELEASING, Finding.TOO_FEW): (_queue_again,),
    (State.RELEASING, Finding.NOBODY): (_queue_again,),
}

"""What is done when time runs out: for barrier windows, gangs' deadlines, avoided nodes, and room of preempted pods.

``DEADLINES`` has, for each state and each thing that a gang may wait for, the function that is called when the deadline
is over. ``PATIENCE`` says how long the deadline is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from policy.cluster.actions import Effect
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import ADMITTED, Deadline, Gang, State
from policy.cluster.job import Job
from policy.cluster.lifecycle import Awaits
from policy.cluster.reasons import Reason
from policy.cluster.trouble import trouble_of
from policy.placement.holes import is_there
from policy.transitions.deadlines.freeing import end_freeing
from policy.transitions.deadlines.growth import end_growth
from policy.transitions.deadlines.patience import Expired, until
from policy.transitions.gangs import any_goes, forget, refuse_held
from policy.transitions.migrate import end_checkpoint, end_migration
from policy.transitions.recovery.release import give_up
from policy.transitions.refusals import avoid_refused


def expire(draft: Draft, now: float, *, gives_back: bool) -> list[Effect]:
    """Handle everything whose time is over at ``now``, and return the effects.

    Gangs' barrier windows and deadlines are handled only by the replica that leads. gives_back: whether a gang gives
    back workers whose pods do not come after a growth; if not, they are only reported.
    """
    for key in [key for key, end in draft.now.not_offered.items() if end <= now]:
        draft.drop_refusal(*key)
    for node, promised in [*draft.now.preemptions.items()]:
        if (left := promised.by(now)) is not promised:
            draft.put_promised(node, left)
    if not (draft.now.synced and draft.now.leading):
        return []
    effects: list[Effect] = []
    for uid in draft.due(now):
        gang = draft.gang(uid)
        if gang.window_ends is not None and gang.window_ends <= now:
            effects += _end_window(draft, gang, now)
        elif gang.deadline is not None and gang.deadline.at <= now and not gang.held:
            effects += _end_deadline(draft, gang, gang.deadline, now, gives_back=gives_back)
    return effects


def _end_window(draft: Draft, gang: Gang, now: float) -> list[Effect]:
    """Refuse the gang's held binds at the end of a barrier window.

    After the first window the plan is kept for a second one, because kube-scheduler's back-off after errors makes the
    members come at different times. The plan is given up after the second window, or if kube-scheduler refuses one of
    its nodes.
    """
    avoided = avoid_refused(draft, gang, now)
    if gang.tries.retried or avoided is not gang:
        return give_up(draft, avoided, now, _why(draft, avoided))
    deadline = until(draft, Awaits.SECOND_WINDOW, now)
    draft.put_gang(replace(gang, barrier=None, tries=replace(gang.tries, retried=True), deadline=deadline))
    return refuse_held(gang, Reason.BARRIER_TIMEOUT)


def _end_deadline(draft: Draft, gang: Gang, over: Deadline, now: float, *, gives_back: bool) -> list[Effect]:
    """Call the function that ``DEADLINES`` has for the gang's state and for what it waited for (``over``).

    An admitted job that is malformed now keeps what it has until its object is corrected, so its deadline is only
    extended.
    """
    job: Job = draft.now.jobs[gang.job_uid]
    if job.invalid and gang.state in ADMITTED:
        draft.put_gang(replace(gang, deadline=Deadline(over.awaits, now + draft.base.rules.repair_seconds)))
        return []
    return DEADLINES[gang.state, over.awaits](draft, Expired(job, gang, now, gives_back))


def _end_plan(draft: Draft, expired: Expired) -> list[Effect]:
    gang, now = expired.gang, expired.now
    return give_up(draft, avoid_refused(draft, gang, now), now, _why(draft, gang))


def _end_repair(draft: Draft, expired: Expired) -> list[Effect]:
    """Release a gang whose repair was not done in time.

    If a lost member is still terminating on a ready node, the deadline is extended, because the new pod of its slot
    cannot come before it is gone. If no controller would create the job's deleted pods again, the gang is not released
    but goes on without the lost members.
    """
    if not expired.job.replaced:
        return _go_on_without_the_lost(draft, expired)
    if any_goes(draft, expired.gang.job_uid):
        draft.put_gang(replace(expired.gang, deadline=until(draft, Awaits.REPAIR, expired.now)))
        return []
    return _end_plan(draft, expired)


def _go_on_without_the_lost(draft: Draft, expired: Expired) -> list[Effect]:
    """Remove the slots of lost members from the plan, because no pods will come for them again; their room is free."""
    view, gang = draft.view(), expired.gang
    lost = [slot for slot in gang.nodes if not is_there(view.member(gang.job_uid, slot))]
    gang, effects = forget(draft, gang, lost)
    draft.put_gang(replace(gang, deadline=until(draft, Awaits.REPAIR, expired.now)))
    return effects


def _end_bindings(draft: Draft, expired: Expired) -> list[Effect]:
    """Take bindings in flight as not made, because their outcomes did not come in time; their room is free.

    By now the watch would have shown the pods of bindings that were made.
    """
    draft.put_gang(replace(expired.gang, deadline=None, in_flight={}))
    return []


DEADLINES: Final[Mapping[tuple[State, Awaits], Callable[[Draft, Expired], list[Effect]]]] = {
    (State.WAITING, Awaits.OUTCOMES): _end_bindings,
    (State.WAITING, Awaits.EARLIER_TERM): _end_bindings,
    (State.PLANNED, Awaits.ROOM): end_freeing,
    (State.PLANNED, Awaits.MEMBERS): _end_plan,
    (State.PLANNED, Awaits.SECOND_WINDOW): _end_plan,
    (State.BINDING, Awaits.BINDINGS): _end_plan,
    (State.RUNNING, Awaits.GROWTH): end_growth,
    (State.RUNNING, Awaits.OUTCOMES): _end_bindings,
    (State.MIGRATING, Awaits.CHECKPOINT): end_checkpoint,
    (State.MIGRATING, Awaits.MIGRATION): end_migration,
    (State.PAUSED, Awaits.OUTCOMES): _end_bindings,
    (State.PAUSED, Awaits.EARLIER_TERM): _end_bindings,
    (State.REPAIRING, Awaits.REPAIR): _end_repair,
    (State.REPAIRING, Awaits.ROOM): _end_repair,
    (State.REPAIRING, Awaits.MEMBERS): _end_repair,
    (State.RELEASING, Awaits.RELEASE): _end_bindings,
    (State.RELEASING, Awaits.EARLIER_TERM): _end_bindings,
    (State.COMPLETED, Awaits.OUTCOMES): _end_bindings,
    (State.COMPLETED, Awaits.EARLIER_TERM): _end_bindings,
}


def _why(draft: Draft, gang: Gang) -> Reason:
    if gang.waits_for:
        return Reason.ROOM_BEING_FREED
    if gang.preempted:
        return Reason.PREEMPTED
    if gang.refused is not None:
        return Reason.BIND_FAILED
    if trouble_of(draft.now, gang.job_uid):
        return Reason.MEMBER_REFUSED
    return Reason.REPAIR_FAILED if gang.state is State.REPAIRING else Reason.BARRIER_TIMEOUT

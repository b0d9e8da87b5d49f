"""Everything whose time has come: barrier windows, plan, repair and release deadlines, remembered refusals."""

from __future__ import annotations

from policy.cluster.actions import Effect
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import Gang, State
from policy.cluster.model import Job
from policy.cluster.reasons import Reason
from policy.cluster.trouble import trouble_of
from policy.placement.holes import is_there
from policy.transitions.arrivals import end_waiting
from policy.transitions.freeing import end_freeing
from policy.transitions.gangs import any_goes, forget, give_up, job_of, refuse_held, rules_of
from policy.transitions.migrate import end_migration
from policy.transitions.refusals import avoid_refused


def expire(draft: Draft, now: float, *, gives_back: bool) -> list[Effect]:
    """Let deadlines run out. A replica that does not lead has none: it may not conclude anything from time.

    gives_back: whether a growth whose members never come is given back; else it is only reported.
    """
    for key in [key for key, until in draft.read("not_offered").items() if until <= now]:
        draft.drop_refusal(*key)
    for node, promised in [*draft.read("preemptions").items()]:
        if (left := promised.by(now)) is not promised:
            draft.put_promised(node, left)
    if not (draft.read("synced") and draft.read("leading")):
        return []
    effects: list[Effect] = []
    for uid in draft.due(now):
        gang = draft.gang(uid)
        if gang.window_ends is not None and gang.window_ends <= now:
            effects += _end_window(draft, gang, now)
        elif gang.deadline is not None and gang.deadline <= now and not gang.held:
            effects += _end_plan(draft, gang, now, gives_back=gives_back)
    return effects


def _end_window(draft: Draft, gang: Gang, now: float) -> list[Effect]:
    """The plan and its nodes stay through one retry: kube-scheduler's error back-off sets the members apart."""
    avoided = avoid_refused(draft, gang, now)
    if gang.retried or gang.state is not State.PLANNED or avoided is not gang:
        return give_up(draft, avoided, now, _why(draft, avoided))
    deadline = now + 2 * rules_of(draft).window_seconds
    draft.put_gang(replace(gang, held={}, window_ends=None, hold_ends=None, retried=True, deadline=deadline))
    return refuse_held(gang, Reason.BARRIER_TIMEOUT)


def _end_plan(draft: Draft, gang: Gang, now: float, *, gives_back: bool) -> list[Effect]:
    job = job_of(draft, gang.job_uid)
    if gang.state in (State.RELEASING, State.PAUSED, State.COMPLETED, State.WAITING):
        # A binding whose answer was lost this long ago was either seen by the watch or never made.
        draft.put_gang(replace(gang, deadline=None, in_flight={}))
        return []
    if job is not None and (job.invalid or (gang.state is State.REPAIRING and not job.replaced)):
        # What cannot be read any more is not judged: its pods are left alone until the object is mended. Pods that
        # nobody would create anew are not deleted.
        return _wait_on(draft, job, gang, now)
    if job is not None and gang.state is State.RUNNING:
        return end_waiting(draft, job, gang, now, gives_back=gives_back)
    if job is not None and gang.state is State.MIGRATING:
        end_migration(draft, job, gang, now)
        return []
    if gang.waits_for and gang.state is State.PLANNED:
        return end_freeing(draft, gang, now)
    if gang.state is State.REPAIRING and any_goes(draft, gang.job_uid):
        # Its successor cannot come before it is gone, or has no room before; then it has the whole time.
        draft.put_gang(replace(gang, deadline=now + rules_of(draft).repair_seconds))
        return []
    return give_up(draft, avoid_refused(draft, gang, now), now, _why(draft, gang))


def _why(draft: Draft, gang: Gang) -> Reason:
    if gang.waits_for:
        return Reason.ROOM_BEING_FREED
    if gang.robbed:
        return Reason.PREEMPTED
    if gang.refused is not None:
        return Reason.BIND_FAILED
    return Reason.MEMBER_REFUSED if trouble_of(draft.facts(), gang.job_uid) else Reason.BARRIER_TIMEOUT


def _wait_on(draft: Draft, job: Job, gang: Gang, now: float) -> list[Effect]:
    """The gang stays as it is; where lost members never come again, their room is promised no longer."""
    effects: list[Effect] = []
    if not job.replaced and not job.invalid:
        view = draft.view()
        lost = [slot for slot in gang.nodes if not is_there(view.member(job.uid, slot))]
        gang, effects = forget(draft, gang, lost)
    draft.put_gang(replace(gang, deadline=now + rules_of(draft).repair_seconds))
    return effects

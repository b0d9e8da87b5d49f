"""Find nodes for the unplaced slots of admitted gangs."""

from __future__ import annotations

from policy.cluster.actions import Effect
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import Gang, State
from policy.cluster.model import Job
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import priority_of
from policy.placement.holes import fill, holes
from policy.placement.room import Room
from policy.transitions.gangs import any_bound, forget, job_of, plan_name
from policy.transitions.recovery.preempted import shrink_to_rest
from policy.transitions.recovery.release import give_up


def repair(draft: Draft, now: float, *, gives_back: bool) -> list[Effect]:
    """Find nodes for the unplaced slots of every admitted gang.

    This is done before the policy decides, so that running gangs are completed before others start.
    gives_back: whether the policy grows a job again by itself. Only then may a running gang be shrunk by its last
    workers if another scheduler has preempted them.
    """
    effects: list[Effect] = []
    for uid in draft.index.lacking:
        job = job_of(draft, uid)
        if job is not None:
            effects += _mend(draft, job, draft.gang(uid), now)
            effects += shrink_to_rest(draft, job, draft.gang(uid), now) if gives_back else []
    return effects


def _mend(draft: Draft, job: Job, gang: Gang, now: float) -> list[Effect]:
    missing = holes(draft.view(), job, gang)
    if not missing:
        return []
    if gang.state is State.PLANNED and not any_bound(draft, job.uid):
        # No member is bound yet, so the plan is given up, and the policy may plan the whole gang again in this step.
        return give_up(draft, gang, now, Reason.NODE_NOT_OFFERED, back_off=False)
    gang, effects = forget(draft, gang, missing)
    draft.settle()
    view = draft.view()
    found = fill(view, Room.of(view).past(priority_of(view, job.uid)), job, gang, missing)
    if found:
        draft.put_gang(replace(gang, nodes={**gang.nodes, **found}, plan=plan_name(draft, now)))
        draft.settle()
    return effects

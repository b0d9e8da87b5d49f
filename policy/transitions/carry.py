"""Carry out the actions of a policy's decision, in their order."""

from __future__ import annotations

from policy.cluster.actions import Action, Admit, Decision, Effect, Migrate, Reject, Remember, Resize
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.lifecycle import Awaits, Move
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import recent_resizes
from policy.transitions.deadlines.patience import until
from policy.transitions.gangs import move, plan_name, refuse_held, retarget
from policy.transitions.migrate import migrate
from policy.transitions.recovery.release import cleared


def carry_out(draft: Draft, decision: Decision, now: float) -> list[Effect]:
    """Apply the decision's actions and verdicts to the draft, and return the effects.

    The effects are the actions themselves, and refusals of binds whose gang is paused.
    """
    verdicts = dict(decision.verdicts)
    effects: list[Effect] = [*decision.actions]
    for action in decision.actions:
        effects += _carry(draft, action, verdicts, now)
    if verdicts != draft.now.verdicts:
        draft.set("verdicts", verdicts)
    draft.settle()
    return effects


def _carry(draft: Draft, action: Action, verdicts: dict[str, Verdict], now: float) -> list[Effect]:
    match action:
        case Admit():
            _admit(draft, action, now)
        case Resize() if action.pauses:
            return _pause(draft, action, now)
        case Resize():
            _resize(draft, action, now)
        case Migrate():
            migrate(draft, action, now)
        case Reject(job_uid, reason, detail):
            verdicts[job_uid] = Verdict(reason, detail)
        case Remember(key, value):
            _remember(draft, key, value)
    return []


def _remember(draft: Draft, key: str, value: object) -> None:
    """Store the value under the key in the policy's memory, or remove the key if the value is None."""
    if value is None:
        draft.edit("memory").pop(key, None)
    else:
        draft.edit("memory")[key] = value


def _admit(draft: Draft, action: Admit, now: float) -> None:
    job, gang = draft.now.jobs.get(action.job_uid), draft.gang(action.job_uid)
    awaits = Awaits.ROOM if action.waits_for else Awaits.MEMBERS
    move(
        draft, gang, Move.ADMIT, plan=plan_name(draft, now), nodes=dict(action.nodes),
        workers=action.workers, ps=action.ps, ps_next=None, least=job.min_workers if job else 0, whole=action.whole,
        waits_for=action.waits_for, tries=replace(gang.tries, retried=False),
        deadline=until(draft, awaits, now) if action.whole else None,
    )  # fmt: skip


def _pause(draft: Draft, action: Resize, now: float) -> list[Effect]:
    """Pause the gang by dropping its plan, and return refusals for its held binds; the controller releases its members.

    The room of bindings in flight stays charged until their outcomes are known.
    """
    gang = draft.gang(action.job_uid)
    if not gang.admitted:
        draft.put_gang(replace(gang, ps_next=action.ps))
        return []
    deadline = until(draft, Awaits.OUTCOMES, now) if gang.in_flight else None
    move(draft, cleared(gang), Move.PAUSE, admitted_at=gang.admitted_at, deadline=deadline, ps_next=action.ps)
    return refuse_held(gang, Reason.PAUSED)


def _resize(draft: Draft, action: Resize, now: float) -> None:
    old = draft.gang(action.job_uid)
    gang = retarget(draft, old, action.workers, action.nodes, now, action.ps)
    if action.workers != old.workers:
        gang = replace(gang, scaling=replace(gang.scaling, on_behalf_of=action.on_behalf_of), refused=None)
        if draft.base.rules.resizes_per_minute:
            draft.set("resizes", (*recent_resizes(draft.now.resizes, now), now))
    if action.waits_for:
        gang = replace(gang, waits_for=action.waits_for, deadline=until(draft, Awaits.ROOM, now))
    draft.put_gang(gang)

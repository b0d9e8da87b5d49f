"""Carry out what a policy decided: the whole list, in its order."""

from __future__ import annotations

from dataclasses import replace

from policy.cluster.actions import Action, Admit, Decision, Effect, Migrate, Reject, Remember, Resize
from policy.cluster.draft import Draft
from policy.cluster.lifecycle import Move
from policy.cluster.reasons import Verdict
from policy.transitions.gangs import job_of, move, plan_name, retarget, rules_of
from policy.transitions.migrate import migrate


def carry_out(draft: Draft, decision: Decision, now: float) -> list[Effect]:
    """Turn a decision into plans and targets; its verdicts replace the old ones."""
    verdicts = dict(decision.verdicts)
    for action in decision.actions:
        _carry(draft, action, verdicts, now)
    if verdicts != draft.read("verdicts"):
        draft.set("verdicts", verdicts)
    draft.settle()
    return list(decision.actions)


def _carry(draft: Draft, action: Action, verdicts: dict[str, Verdict], now: float) -> None:
    match action:
        case Admit():
            _admit(draft, action, now)
        case Resize():
            _resize(draft, action, now)
        case Migrate():
            migrate(draft, action, now)
        case Reject(job_uid, reason):
            verdicts[job_uid] = Verdict(reason)
        case Remember(key, value):
            _remember(draft, key, value)


def _remember(draft: Draft, key: str, value: object) -> None:
    """None forgets."""
    if value is None:
        draft.edit("memory").pop(key, None)
    else:
        draft.edit("memory")[key] = value


def _admit(draft: Draft, action: Admit, now: float) -> None:
    rules = rules_of(draft)
    job = job_of(draft, action.job_uid)
    patience = rules.freeing_seconds if action.waits_for else rules.plan_seconds
    move(
        draft, draft.gang(action.job_uid), Move.ADMIT, plan=plan_name(draft, now), nodes=dict(action.nodes),
        workers=action.workers, least=job.min_workers if job else 0, whole=action.whole,
        waits_for=action.waits_for, retried=False,
        deadline=now + patience if action.whole else None,
    )  # fmt: skip


def _resize(draft: Draft, action: Resize, now: float) -> None:
    old = draft.gang(action.job_uid)
    gang = retarget(draft, old, action.workers, action.nodes, now)
    if action.workers != old.workers:
        gang = replace(gang, on_behalf_of=action.on_behalf_of)
    if action.waits_for:
        gang = replace(gang, waits_for=action.waits_for, deadline=now + rules_of(draft).freeing_seconds)
    draft.put_gang(gang)

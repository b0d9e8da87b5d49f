"""Carry out what a policy decided: the whole list, in its order."""

from __future__ import annotations

from dataclasses import replace

from policy.cluster.actions import Action, Admit, Decision, Effect, Reject, Remember, Resize
from policy.cluster.lifecycle import Move
from policy.cluster.model import WORKER
from policy.cluster.reasons import Verdict
from policy.cluster.snapshot import Draft
from policy.transitions.gangs import move, rules_of


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
        case Reject(job_uid, reason):
            verdicts[job_uid] = Verdict(reason)
        case Remember(key, value):
            draft.edit("memory")[key] = value


def _admit(draft: Draft, action: Admit, now: float) -> None:
    plan = f"{draft.base.generation}-{int(now * 1000)}"
    move(
        draft, draft.gang(action.job_uid), Move.ADMIT, plan=plan, nodes=dict(action.nodes), workers=action.workers,
        waits_for=action.waits_for, deadline=now + rules_of(draft).plan_seconds, scaled_at=None, retried=False,
    )  # fmt: skip


def _resize(draft: Draft, action: Resize, now: float) -> None:
    """A shrink gives up the plan of the removed slots; their pods hold their room until they are gone."""
    gang = draft.gang(action.job_uid)
    kept = {slot: node for slot, node in gang.nodes.items() if slot.role != WORKER or slot.index < action.workers}
    shrunk = action.workers < gang.workers
    draft.put_gang(
        replace(
            gang, workers=action.workers, nodes={**kept, **action.nodes}, scaled_at=now,
            on_behalf_of=action.on_behalf_of if shrunk else "",
        )
    )  # fmt: skip

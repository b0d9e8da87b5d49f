"""Policies in which one mechanism is switched off, for the mutants of experiments."""

from __future__ import annotations

from dataclasses import dataclass

from policy.cluster.actions import Action, Admit, Decision, Resize
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy


@dataclass(frozen=True, slots=True)
class WithoutScaleOut(Policy):
    """A policy whose running jobs never grow."""

    policy: Policy

    @property
    def name(self) -> str:
        """Return the policy's name followed by ", no scale-out"."""
        return f"{self.policy.name}, no scale-out"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Return the policy's decision without the growth of running jobs."""
        decision = self.policy.decide(snapshot, now)
        kept = tuple(action for action in decision.actions if not _grows(snapshot, action))
        return Decision(kept, decision.verdicts)


def _grows(snapshot: Snapshot, action: Action) -> bool:
    return isinstance(action, Resize) and action.workers > snapshot.gang(action.job_uid).workers


@dataclass(frozen=True, slots=True)
class WithoutScaleIn(Policy):
    """A policy under which no job gives workers back for another job, which then waits."""

    policy: Policy

    @property
    def name(self) -> str:
        """Return the policy's name followed by ", no scale-in"."""
        return f"{self.policy.name}, no scale-in"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Return the policy's decision without shrinks for another job, and without the plans and growths that would
        use the freed room.
        """
        decision = self.policy.decide(snapshot, now)
        served = {action.on_behalf_of for action in decision.actions if isinstance(action, Resize)} - {""}
        kept = tuple(action for action in decision.actions if not _shrinks_or_uses(action, served))
        waits = Verdict(Reason.NO_ROOM, "no running job gives workers back")
        return Decision(kept, {**decision.verdicts, **dict.fromkeys(served & {*snapshot.index.waiting}, waits)})


def _shrinks_or_uses(action: Action, served: set[str]) -> bool:
    match action:
        case Resize(job_uid=uid, on_behalf_of=other):
            return other in served or uid in served
        case Admit(job_uid=uid):
            return uid in served
        case _:
            return False

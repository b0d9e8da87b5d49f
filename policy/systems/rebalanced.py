"""One system that decides, and another that moves what the first leaves undisturbed: ``kod2+specon``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from policy.cluster.actions import Action, Decision
from policy.cluster.frozen import replace
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Keeps, Parts, Policy, Promised, next_moment, prepare, promised_by


class Rebalancer(Protocol):
    """A system that can move running jobs beneath another's decisions."""

    @property
    def name(self) -> str:
        """The name under which the configuration selects it."""
        ...

    def moves(
        self, snapshot: Snapshot, decided: Decision, now: float, promised: Promised | None = None
    ) -> tuple[Action, ...]:
        """Moves, and what it remembers. It touches no job of ``decided``, and no room that ``decided`` gives away or
        that is ``promised``.
        """
        ...


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """``base`` decides who runs where and how large; its verdicts stand. ``rebalancer`` comes after it."""

    base: Policy
    rebalancer: Rebalancer

    @property
    def name(self) -> str:
        """Both names, ``kod2+specon``."""
        return f"{self.base.name}+{self.rebalancer.name}"

    def next_moment(self, now: float) -> float:
        """The base's."""
        return next_moment(self.base, now)

    def prepare(self, snapshot: Snapshot, now: float) -> None:
        """The base's."""
        prepare(self.base, snapshot, now)

    def parts(self, memory: Mapping[str, object]) -> Mapping[str, Parts]:
        """What either of them keeps of a job."""
        merged: dict[str, Parts] = {}
        for system in (self.base, self.rebalancer):
            for uid, part in (system.parts(memory) if isinstance(system, Keeps) else {}).items():
                merged[uid] = {**merged.get(uid, {}), **part}
        return merged

    def recalled(self, snapshot: Snapshot, parts: Mapping[str, Parts]) -> Mapping[str, object]:
        """What either of them makes of its own parts."""
        keeping = (system for system in (self.base, self.rebalancer) if isinstance(system, Keeps))
        return {key: value for system in keeping for key, value in system.recalled(snapshot, parts).items()}

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """What the base decides, then the moves, and what the base makes of them."""
        decided = self.base.decide(snapshot, now)
        promised = promised_by(self.base, snapshot, decided, now)
        moves = self.rebalancer.moves(snapshot, decided, now, promised)
        return replace(decided, actions=(*decided.actions, *moves, *promised.actions()))

"""One system that decides, and another that moves what the first leaves undisturbed: ``kod2+specon``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from policy.cluster.actions import Decision
from policy.cluster.frozen import replace
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Parts, Policy, Rebalancer


@dataclass(frozen=True, slots=True)
class Rebalanced(Policy):
    """``base`` decides who runs where and how large, and its verdicts stand; ``rebalancer`` then moves jobs."""

    base: Policy = field()
    rebalancer: Rebalancer = field()

    @property
    def name(self) -> str:
        """Return both names, ``kod2+specon``."""
        return f"{self.base.name}+{self.rebalancer.name}"

    def next_moment(self, now: float) -> float:
        """Return the base's."""
        return self.base.next_moment(now)

    def prepare(self, snapshot: Snapshot, now: float) -> None:
        """Do what the base does."""
        self.base.prepare(snapshot, now)

    @property
    def keeps(self) -> bool:
        """Whether either of them does."""
        return self.base.keeps or self.rebalancer.keeps

    def parts(self, memory: Mapping[str, object]) -> Mapping[str, Parts]:
        """Return what either of them keeps of a job."""
        merged: dict[str, Parts] = {}
        for system in (self.base, self.rebalancer):
            for uid, part in system.parts(memory).items():
                merged[uid] = {**merged.get(uid, {}), **part}
        return merged

    def recalled(self, snapshot: Snapshot, parts: Mapping[str, Parts]) -> Mapping[str, object]:
        """Return what both of them make of their own parts."""
        return {**self.base.recalled(snapshot, parts), **self.rebalancer.recalled(snapshot, parts)}

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Return what the base decides, then the moves, and what the base remembers of them."""
        decided = self.base.decide(snapshot, now)
        promised = self.base.promised(snapshot, decided, now)
        moves = self.rebalancer.moves(snapshot, decided, now, promised)
        return replace(decided, actions=(*decided.actions, *moves, *promised.actions()))

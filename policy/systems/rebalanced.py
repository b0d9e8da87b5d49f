"""A policy made of two systems, such as ``kod2+specon``: the base decides, and a rebalancer then moves running jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from policy.cluster.actions import Decision
from policy.cluster.frozen import replace
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Parts, Policy, Rebalancer


@dataclass(frozen=True, slots=True)
class Rebalanced(Policy):
    """A policy made of two systems: ``base`` decides which jobs run, on which nodes and with how many workers, and
    gives the verdicts; then ``rebalancer`` moves running jobs.
    """

    base: Policy = field()
    rebalancer: Rebalancer = field()

    @property
    def name(self) -> str:
        """Return the names of both systems with a plus sign between them, such as ``kod2+specon``."""
        return f"{self.base.name}+{self.rebalancer.name}"

    def next_moment(self, now: float) -> float:
        """Return when ``base`` must be asked next, in seconds since the epoch."""
        return self.base.next_moment(now)

    def prepare(self, snapshot: Snapshot, now: float) -> None:
        """Compute in advance what the next decision of ``base`` may need."""
        self.base.prepare(snapshot, now)

    @property
    def keeps(self) -> bool:
        """Whether either system writes what it remembers of a job to the job's object."""
        return self.base.keeps or self.rebalancer.keeps

    def parts(self, memory: Mapping[str, object]) -> Mapping[str, Parts]:
        """Return by job uid the part of both systems' memory that should be written to the job's object."""
        merged: dict[str, Parts] = {}
        for system in (self.base, self.rebalancer):
            for uid, part in system.parts(memory).items():
                merged[uid] = {**merged.get(uid, {}), **part}
        return merged

    def recalled(self, snapshot: Snapshot, parts: Mapping[str, Parts]) -> Mapping[str, object]:
        """Return the entries of the memory that the two systems restore, each from its own part of the job objects."""
        return {**self.base.recalled(snapshot, parts), **self.rebalancer.recalled(snapshot, parts)}

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Return the actions of both systems in one decision.

        First come the actions of ``base``, then the rebalancer's moves, then the actions by which ``base`` remembers
        these moves.
        """
        decided = self.base.decide(snapshot, now)
        promised = self.base.promised(snapshot, decided, now)
        moves = self.rebalancer.moves(snapshot, decided, now, promised)
        return replace(decided, actions=(*decided.actions, *moves, *promised.actions()))

"""The placement request of a gang."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from policy.cluster.constraints import Constraints
from policy.cluster.job import Slot, worker_slots
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import NOTHING, Resources, total
from policy.cluster.words import in_words


@dataclass(frozen=True)
class Ask:
    """A placement request: the demand of a gang.

    rigid: slot, resource requests and constraints of each rigid member.
    worker, worker_constraints: requests and constraints of one worker; all workers are equal.
    workers: how many workers to place. barred: names of nodes that must not be used.
    later: how many workers may join once the gang runs. They get no room now, but a node with room for them is better.
    priority: the lowest priority of the gang's pods; room that is promised to pods of a lower priority may be used.
    """

    rigid: tuple[tuple[Slot, Resources, Constraints], ...]
    worker: Resources
    worker_constraints: Constraints
    workers: int
    barred: frozenset[str] = frozenset()
    later: int = 0
    priority: int = 0

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        asked = (self.rigid, self.worker, self.worker_constraints, self.workers)
        return hash((*asked, self.barred, self.later, self.priority))

    @cached_property
    def whole(self) -> Resources:
        """The sum of the requests of all members."""
        return total(requests for _, requests, _ in self.rigid) + self.worker.times(self.workers)

    @property
    def least(self) -> Resources:
        """The requests of one member; if no node has room for it, the gang cannot be placed."""
        return self.worker if self.workers else self.rigid[0][1] if self.rigid else NOTHING

    @cached_property
    def constraints(self) -> frozenset[Constraints]:
        """The different placement constraints of the members; a node for the whole gang must satisfy all of them."""
        return frozenset(
            [*(constraints for _, _, constraints in self.rigid), *([self.worker_constraints] if self.workers else ())]
        )

    @cached_property
    def text(self) -> str:
        """The sum of the requests in words."""
        return in_words(self.whole)

    @cached_property
    def no_room(self) -> Verdict:
        """The verdict of a gang with this request that waits for room.

        It is the same object at each step, so that comparing the verdicts of a thousand gangs is fast.
        """
        return Verdict(Reason.NO_ROOM, f"it asks for {self.text}")

    def members(self) -> tuple[tuple[Slot, Resources, Constraints], ...]:
        """Return slot, requests and constraints of every member: the rigid ones, then the workers from index 0."""
        workers = worker_slots(self.workers)
        return (*self.rigid, *((slot, self.worker, self.worker_constraints) for slot in workers))

"""SpeCon's manager: it chooses a job's new node (section V-A, Algorithm 2) and balances nodes (V-B, Algorithm 3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from policy.cluster.actions import Migrate
from policy.systems.fleet import Fleet, Movable
from policy.systems.growth import Category

SAME_SCORE = 1e-9


class Balance(Enum):
    """When Algorithm 3 runs. The paper names no trigger (VI-C2: "when the system is unbalanced").

    ``UNBALANCED``: at each interval, from nodes with more than their share of containers, even if no node is idle.
    ``ALL_MIGRATED``: only once Algorithm 2 has decided about every job, as V-C says. ``PRINTED``: like
    ``ALL_MIGRATED``, with lines 19-31 as printed; no node can pass their test, so that only idle nodes are ever given a
    job. ``OFF``: never.
    """

    UNBALANCED = "unbalanced"
    ALL_MIGRATED = "all-migrated"
    PRINTED = "printed"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Reallocation:
    """Algorithm 2, which chooses a job's new node.

    weights: the weight of each category. guard: move a job only if its new node, with the job, is still lighter than
    the old one; this is not in the paper.
    """

    weights: Mapping[Category, float]
    guard: bool

    def host(self, fleet: Fleet, one: Movable) -> str | None:
        """Return the job's new node, or its present node if it should stay.

        None: another job is already moving to the best node, so the job should ask again in a later round.
        """
        open_to = [node for node in fleet.room if node == one.node or fleet.takes(node, one)]
        scores = {node: fleet.score(node, self.weights) for node in open_to}
        least = min(scores.values())
        if scores[one.node] <= least + SAME_SCORE:
            return one.node
        if self.guard and least + one.size * self.weights[one.category] >= scores[one.node] - SAME_SCORE:
            return one.node
        lightest = [node for node, score in scores.items() if score <= least + SAME_SCORE]
        target = min(lightest, key=lambda node: (fleet.usage(node), node))
        return None if target in fleet.expected else target


def rebalance(fleet: Fleet, ready: Iterable[Movable], balance: Balance) -> Iterator[tuple[Movable, Migrate]]:
    """Yield each job that Algorithm 3 moves, with the action that moves it.

    ``ready``: the jobs that may be moved; the job that converged last moves first, as it has the most work left (V-C).
    A node's share of the containers (bf) is at least 1, because with fewer containers than nodes a share of 0 would
    never let a job move to an idle node.
    """
    names = list(fleet.room)
    share = sum(fleet.count(name) for name in names) // len(names) if names else 0
    idle = [name for name in names if fleet.count(name) == 0]
    if balance is Balance.PRINTED and not idle:
        # Lines 23-31 as printed move no job, because they need a node with fewer than bf - 1 containers.
        return
    order = sorted(ready, key=lambda one: (-(one.since or 0.0), one.job.uid))
    while found := _next(fleet, order, idle or names, max(1, share)):
        one, node = found
        order.remove(one)
        yield one, fleet.move(one, node)


def _next(fleet: Fleet, order: list[Movable], names: list[str], share: int) -> tuple[Movable, str] | None:
    """Return the next job to move and its new node: the emptiest of ``names`` that has less than its share.

    The job is the first in ``order`` on the fullest node whose jobs may move there (``_evens_out``). None: there is no
    such move.
    """
    for node in sorted(names, key=lambda name: (fleet.count(name), fleet.usage(name), name)):
        if fleet.count(node) >= share:
            break
        ready = [one for one in order if _evens_out(fleet, one, node, share)]
        most = max((fleet.count(one.node) for one in ready), default=0)
        for one in ready:
            if fleet.count(one.node) == most:
                return one, node
    return None


def _evens_out(fleet: Fleet, one: Movable, node: str, share: int) -> bool:
    """Tell whether the job may move to ``node`` because the move evens the nodes out.

    Its present node must have more containers than ``share``, and after the move still as many as ``node`` or more.
    """
    there = fleet.count(one.node)
    return there > share and there - one.size >= fleet.count(node) + one.size and fleet.takes(node, one)

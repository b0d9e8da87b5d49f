"""SpeCon's manager: the host of a job that moves (section V-A, Algorithm 2), and balance (section V-B, Algorithm 3)."""

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

    ``UNBALANCED``: at each interval, from nodes with more than their share, whether others are idle or not.
    ``ALL_MIGRATED``: only once every job has had its decision, as V-C has it. ``PRINTED``: the same, and lines 19-31
    as printed, whose test no node can pass, so that only idle nodes are ever given a job. ``OFF``: never.
    """

    UNBALANCED = "unbalanced"
    ALL_MIGRATED = "all-migrated"
    PRINTED = "printed"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Reallocation:
    """Algorithm 2. guard: only where the new node is the lighter one even with the job (the paper has none)."""

    weights: Mapping[Category, float]
    guard: bool

    def host(self, fleet: Fleet, one: Movable) -> str | None:
        """Return the job's new node, its own where it should stay, or None.

        None: another job is on the way to that node, so ask again.
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
    """Yield the moves of Algorithm 3.

    ``ready``: the jobs that it may move; the one that converged last has the most work left (V-C). bf is at least 1, or
    nothing would ever reach an idle node while there are fewer containers than nodes.
    """
    names = list(fleet.room)
    share = sum(fleet.count(name) for name in names) // len(names) if names else 0
    idle = [name for name in names if fleet.count(name) == 0]
    if balance is Balance.PRINTED and not idle:
        return  # lines 23-31: no worker that is not in T has fewer than bf - 1 containers
    order = sorted(ready, key=lambda one: (-(one.since or 0.0), one.job.uid))
    while found := _next(fleet, order, idle or names, max(1, share)):
        one, node = found
        order.remove(one)
        yield one, fleet.move(one, node)


def _next(fleet: Fleet, order: list[Movable], names: list[str], share: int) -> tuple[Movable, str] | None:
    """Return the emptiest node below its share, and for it the first in order that may leave the fullest node."""
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
    """Tell whether the job leaves a node with more than its share, which stays at least as full as the other."""
    there = fleet.count(one.node)
    return there > share and there - one.size >= fleet.count(node) + one.size and fleet.takes(node, one)

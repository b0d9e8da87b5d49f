"""Members one by one on the least allocated node, as kube-scheduler's default scores would have it.

How much of that is looked at is a choice (``Order``): what DRAGON gains hangs on how the default scheduler spreads.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from enum import Enum
from heapq import heapify, heappop, heapreplace
from itertools import groupby
from operator import itemgetter

from policy.cluster.model import Constraints, Slot
from policy.cluster.resources import Resources
from policy.placement.fit import accepts
from policy.placement.gang import Ask
from policy.placement.room import Room

# What NodeResourcesFit scores by default (LeastAllocated), and nothing else: no GPUs.
SCORED = ("cpu", "memory")


class Order(Enum):
    """What a member's node is chosen by: where the gang has fewest, then the least allocated; that alone; neither.

    TURN: one node after another, whoever's members they are (``in_turn``).
    """

    APART = "apart"
    LEAST = "least"
    CHANCE = "chance"
    TURN = "turn"


def spread(room: Room, ask: Ask, ties: str = "", order: Order = Order.APART) -> dict[Slot, str] | None:
    """Return a node for every member, or None. ``room`` is not changed.

    Each member goes where the gang has the fewest members, then to the least allocated node. ``ties``: the text by
    which one of equal nodes is drawn; empty: the first by name. ``order``: what makes nodes unequal.
    """
    room = room.past(ask.priority)
    groups = [
        (requests, constraints, [slot for slot, _, _ in group])
        for (requests, constraints), group in groupby(ask.members(), key=itemgetter(1, 2))
    ]
    if not all(_holds(room, requests, constraints, ask, len(slots)) for requests, constraints, slots in groups):
        return None
    trial, nodes, siblings = room.branch(), dict[Slot, str](), Counter[str]()
    for requests, constraints, slots in groups:
        if nodes and not _holds(trial, requests, constraints, ask, len(slots)):
            return None
        names = [name for name in trial.fitting(requests) if _takes(room, name, constraints, ask)]

        def rank(name: str, slot: Slot) -> tuple[int, float, int, str]:
            drawn = chance(f"{ties}/{slot}/{name}") if ties else 0
            there = siblings[name] if order is Order.APART else 0
            return there, -_free_share(trial, name) if order is not Order.CHANCE else 0.0, drawn, name

        heap: list[tuple[int, float, int, str]] = []
        for slot in slots:
            if ties or not heap:  # what is drawn for one member is not for the next
                heap = [rank(name, slot) for name in names if requests.fits(trial.free(name))]
                heapify(heap)
            *_, node = heap[0]
            trial.take(node, requests)
            siblings[node] += 1
            nodes[slot] = node
            if requests.fits(trial.free(node)):
                heapreplace(heap, rank(node, slot))
            else:
                heappop(heap)
    return nodes


def in_turn(room: Room, ask: Ask, turn: int) -> dict[Slot, str] | None:
    """Return a node for every member: the next in turn that takes it, by name; or None. ``room`` is not changed.

    ``turn``: how many members have been placed, of all gangs.
    """
    room = room.past(ask.priority)
    trial, names, nodes = room.branch(), list(room), dict[Slot, str]()
    for number, (slot, requests, constraints) in enumerate(ask.members(), turn):
        start = number % max(1, len(names))
        turns = (*names[start:], *names[:start])
        node = next((n for n in turns if requests.fits(trial.free(n)) and _takes(room, n, constraints, ask)), None)
        if node is None:
            return None
        trial.take(node, requests)
        nodes[slot] = node
    return nodes


def _holds(room: Room, requests: Resources, constraints: Constraints, ask: Ask, wanted: int) -> bool:
    """Tell whether the nodes together take so many equal members."""
    for alike in room.alike(requests):
        each = requests.how_many(alike.free) or wanted  # a request of nothing
        for name in alike.names:
            if _takes(room, name, constraints, ask):
                wanted -= each
                if wanted <= 0:
                    return True
    return False


def _takes(room: Room, name: str, constraints: Constraints, ask: Ask) -> bool:
    """Tell whether the node accepts such a member of the gang; room is not looked at."""
    return name not in ask.barred and accepts(room.nodes[name], constraints)


def _free_share(room: Room, name: str) -> float:
    allocatable, free = room.nodes[name].allocatable, room.free(name)
    return sum(free[resource] / allocatable[resource] for resource in SCORED if allocatable[resource])


def chance(text: str) -> int:
    """Return a number that depends on the text alone, in whatever process."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])

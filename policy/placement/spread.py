"""Placement of members one by one on the least allocated node, as kube-scheduler does with its default scores.

``Order`` says how closely the placement follows kube-scheduler. DRAGON's gain over the default scheduler depends on how
the default scheduler spreads its pods.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from enum import Enum
from heapq import heapify, heappop, heapreplace
from itertools import groupby
from operator import itemgetter

from policy.cluster.constraints import Constraints
from policy.cluster.job import Slot
from policy.cluster.resources import Resources
from policy.placement.ask import Ask
from policy.placement.fit import accepts
from policy.placement.room import Room

# kube-scheduler's plugin NodeResourcesFit scores the resources in SCORED by default (LeastAllocated), but no GPUs.
SCORED = ("cpu", "memory")


class Order(Enum):
    """How the node of a member is chosen among those that fit.

    APART: the node with the fewest members of the same gang, and among equals the least allocated one.
    LEAST: the least allocated node. CHANCE: a node drawn at random from a seed (``ties``).
    TURN: one node after another, over the members of all gangs (``in_turn``).
    """

    APART = "apart"
    LEAST = "least"
    CHANCE = "chance"
    TURN = "turn"


def spread(room: Room, ask: Ask, ties: str = "", order: Order = Order.APART) -> dict[Slot, str] | None:
    """Return a node for every slot, or None if the gang cannot be placed. ``room`` is not changed.

    ``order`` (APART, LEAST or CHANCE) says which node each member prefers. ``ties`` is a seed text by which one of
    several nodes that are equal in this order is drawn; if it is empty, the first by name is taken.
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
            if ties or not heap:  # The heap is rebuilt, because ties are drawn again for each member.
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
    """Return a node for every slot, or None if the gang cannot be placed. ``room`` is not changed.

    The members go on one node after another, in the order of the nodes' names; a node that does not take the member is
    passed over. ``turn`` is the number of members, of all gangs, that were placed before: it gives the first node.
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
    """Tell whether the nodes together have room for ``wanted`` equal members."""
    for alike in room.alike(requests):
        each = requests.how_many(alike.free) or wanted  # A request of nothing always fits, but how_many returns 0.
        for name in alike.names:
            if _takes(room, name, constraints, ask):
                wanted -= each
                if wanted <= 0:
                    return True
    return False


def _takes(room: Room, name: str, constraints: Constraints, ask: Ask) -> bool:
    """Tell whether the node's taints and labels suit the constraints, and it is not barred; room is not looked at."""
    return name not in ask.barred and accepts(room.nodes[name], constraints)


def _free_share(room: Room, name: str) -> float:
    allocatable, free = room.nodes[name].allocatable, room.free(name)
    return sum(free[resource] / allocatable[resource] for resource in SCORED if allocatable[resource])


def chance(text: str) -> int:
    """Return a pseudo-random number of 64 bits that depends only on the text; it is the same in every process."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])

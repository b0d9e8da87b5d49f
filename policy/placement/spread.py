"""Members one by one on the least allocated node, as kube-scheduler's default scores would have it."""

from __future__ import annotations

import hashlib
from collections import Counter

from policy.cluster.model import Slot
from policy.placement.fit import accepts
from policy.placement.gang import Ask
from policy.placement.room import Room

# What NodeResourcesFit scores by default (LeastAllocated), and nothing else: no GPUs.
SCORED = ("cpu", "memory")


def spread(room: Room, ask: Ask, ties: str = "") -> dict[Slot, str] | None:
    """A node for every member, each at its turn where the gang has fewest, then the least allocated; or None.

    ``room`` is not changed. ``ties``: what the chance among equal nodes hangs on; else the first by name.
    """
    trial, nodes = room.branch(), dict[Slot, str]()
    for slot, requests, constraints in ask.members():
        siblings = Counter(nodes.values())

        def rank(name: str, slot: Slot = slot, siblings: Counter[str] = siblings) -> tuple[int, float, int, str]:
            drawn = chance(f"{ties}/{slot}/{name}") if ties else 0
            return siblings[name], -_free_share(trial, name), drawn, name

        fitting = (name for name in trial.fitting(requests) if name not in ask.barred)
        node = min((name for name in fitting if accepts(room.nodes[name], constraints)), key=rank, default=None)
        if node is None:
            return None
        trial.take(node, requests)
        nodes[slot] = node
    return nodes


def _free_share(room: Room, name: str) -> float:
    allocatable, free = room.nodes[name].allocatable, room.free(name)
    return sum(free[resource] / allocatable[resource] for resource in SCORED if allocatable[resource])


def chance(text: str) -> int:
    """A number that is the text's alone, whatever the process."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])

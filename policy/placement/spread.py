"""Members one by one on the least allocated node, as kube-scheduler's default scores would have it."""

from __future__ import annotations

from policy.cluster.model import Slot
from policy.placement.gang import Ask
from policy.placement.room import Room, idlest


def spread(room: Room, ask: Ask) -> dict[Slot, str] | None:
    """A node for every member, each the idlest at its turn, or None. ``room`` is not changed."""
    trial, nodes = room.branch(), dict[Slot, str]()
    for slot, requests, constraints in ask.members():
        node = idlest(trial, requests, constraints, ask.barred)
        if node is None:
            return None
        trial.take(node, requests)
        nodes[slot] = node
    return nodes

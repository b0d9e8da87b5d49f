"""Which constraint keeps a gang from being placed: the amount of a resource, or taints and node affinity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.cluster.frozen import replace
from policy.cluster.model import Constraints, Node, Toleration
from policy.cluster.resources import HOST_PORT, Resources
from policy.cluster.snapshot import Snapshot
from policy.cluster.words import counted, listed, said
from policy.placement.fit import accepts, untolerated
from policy.placement.gang import Ask, fits
from policy.placement.room import Room

RULES: Final = "rules"
"""Taints, node selector and node affinity, as one constraint."""
EVERYWHERE: Final = Constraints(tolerations=(Toleration("", "Exists", "", ""),))
MOST_NODES_NAMED: Final = 3


def binding(room: Room, ask: Ask, what: str = "") -> tuple[str, ...]:
    """Return in words which constraints keep the gang from fitting into this room; an empty tuple if it fits.

    These are the constraints without which the gang would fit. If there is no such single constraint, they are those
    that alone, without all others, already keep it from fitting. ``what`` is added to the amounts that nodes have:
    " free" for free room, or nothing if the room is that of empty nodes.
    """
    if fits(room, ask):
        return ()
    if not room.nodes:
        return ("there is no node that takes pods",)
    names = (*sorted(ask.whole), RULES)
    alone = [name for name in names if fits(room, _without(ask, name))]
    found = alone or [name for name in names if not _holds_alone(room, ask, name)]
    return tuple(_rules_in_words(room, ask) if name == RULES else _in_words(room, ask, name, what) for name in found)


def closed_nodes(snapshot: Snapshot) -> str:
    """Return in words which nodes are cordoned or not ready; at most ``MOST_NODES_NAMED`` are named."""
    closed = [node for _, node in sorted(snapshot.nodes.items()) if node.closed]
    return listed([f"{node.name} is {node.closed}" for node in closed], MOST_NODES_NAMED)


def _without(ask: Ask, name: str) -> Ask:
    """Return the request without the constraint ``name``: a resource, or ``RULES``."""
    if name == RULES:
        rigid = tuple((slot, requests, EVERYWHERE) for slot, requests, _ in ask.rigid)
        return replace(ask, rigid=rigid, worker_constraints=EVERYWHERE)
    rigid = tuple((slot, _less(requests, name), rules) for slot, requests, rules in ask.rigid)
    return replace(ask, rigid=rigid, worker=_less(ask.worker, name))


def _holds_alone(room: Room, ask: Ask, name: str) -> bool:
    """Tell whether the gang would fit if only the constraint ``name`` counted."""
    if name == RULES:
        return all(any(accepts(node, rules) for node in room.nodes.values()) for rules in ask.constraints)
    rigid = tuple((slot, _only(requests, name), EVERYWHERE) for slot, requests, _ in ask.rigid)
    return fits(room, replace(ask, rigid=rigid, worker=_only(ask.worker, name), worker_constraints=EVERYWHERE))


def _less(requests: Resources, name: str) -> Resources:
    return Resources({other: amount for other, amount in requests.amounts.items() if other != name})


def _only(requests: Resources, name: str) -> Resources:
    return Resources({name: requests[name]})


def _in_words(room: Room, ask: Ask, name: str, what: str) -> str:
    if name.startswith(HOST_PORT):
        members = sum(1 for _, amount in _asked(ask, name) if amount)
        return f"{said(name, 1)} asked for by {counted(members, 'member')}, and a node has it once"
    role, largest = max(_asked(ask, name), key=lambda one: one[1])
    open_to_it = [node for node in room if not _refusal(room.nodes[node], ask)] or list(room)
    such = "" if len(open_to_it) == len(room.nodes) else " open to it"
    free = [max(0, room.free(node)[name]) for node in open_to_it]
    most, every, whole = max(free), sum(free), ask.whole[name]
    if largest > most:
        return f"a {role} asks for {said(name, largest)}, no node{such} has more than {said(name, most)}{what}"
    small = "" if whole > every else " in pieces that are too small"
    return f"{said(name, whole)} asked for, the nodes{such} have {said(name, every)}{what}{small}"


def _asked(ask: Ask, name: str) -> Iterator[tuple[str, int]]:
    """Return, for each member, its role and how much of the resource ``name`` it asks for."""
    return ((slot.role, requests[name]) for slot, requests, _ in ask.members())


def _rules_in_words(room: Room, ask: Ask) -> str:
    """Return in words which nodes refuse a member by taints or affinity although they have room for one member."""
    roomy = (node for name, node in sorted(room.nodes.items()) if ask.least.fits(room.free(name)))
    refusing = [why for node in roomy if (why := _refusal(node, ask))]
    return listed(refusing, MOST_NODES_NAMED) or "no node that takes it has the room"


def _refusal(node: Node, ask: Ask) -> str:
    """Return in words which taint or affinity keeps a member of the gang from the node; empty if none does."""
    for rules in sorted(ask.constraints, key=repr):
        if (taint := untolerated(node, rules)) is not None:
            value = f"={taint.value}" if taint.value else ""
            return f"the taint {taint.key}{value}:{taint.effect} of {node.name} is not tolerated"
        if not accepts(node, rules):
            return f"{node.name} does not match its node selector or node affinity"
    return ""

"""The free room of the usable nodes. Equal nodes are grouped, so that a placement looks at groups, not at each node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from policy.cluster.layered import copied
from policy.cluster.node import Node
from policy.cluster.preemption import Preemptions
from policy.cluster.resources import Resources
from policy.cluster.sortedgroups import with_changes

NONE: Preemptions = {}


class NodeKind(NamedTuple):
    """A group of nodes that have the same free and the same allocatable resources; labels and taints may differ."""

    free: Resources
    allocatable: Resources


@dataclass(frozen=True)
class Capacity:
    """The free room of the usable nodes.

    nodes: the usable nodes by name, sorted by name.
    free: the free room of each node, by name.
    kinds: the sorted names of the nodes of each kind.
    misfits: placement requests that were found to fit nowhere in this room, so that they are not tried again in it.
    promised: the room that other schedulers have promised to their pods, by node. It does not count as free, but a pod
    of higher priority may use it.
    wary: the names of the usable nodes that are used last, because members of different jobs have failed there.
    """

    nodes: Mapping[str, Node]
    free: Mapping[str, Resources]
    kinds: Mapping[NodeKind, tuple[str, ...]]
    misfits: set[Hashable] = field(default_factory=set, compare=False, repr=False)
    promised: Preemptions = field(default_factory=dict)
    wary: frozenset[str] = frozenset()

    @cached_property
    def favoured(self) -> Capacity:
        """The capacity without the nodes that are used last."""
        return self.but(self.wary)

    @cached_property
    def most(self) -> Resources:
        """For each resource, the largest amount that is free on any one node."""
        found: dict[str, int] = {}
        for kind in self.kinds:
            for name, amount in kind.free.amounts.items():
                if amount > found.get(name, 0):
                    found[name] = amount
        return Resources(found)

    @classmethod
    def of(cls, nodes: Mapping[str, Node], taken: Mapping[str, Resources], promised: Preemptions = NONE) -> Capacity:
        """Return the capacity of the usable nodes among ``nodes`` if ``taken`` (by node name) is in use on them."""
        usable = {name: node for name, node in sorted(nodes.items()) if node.usable}
        return cls.made(usable, {name: _rest(node, taken) for name, node in usable.items()}, promised)

    @classmethod
    def made(cls, nodes: Mapping[str, Node], free: Mapping[str, Resources], promised: Preemptions = NONE) -> Capacity:
        """Return the capacity of these nodes (usable, sorted by name) with this free room (by node name)."""
        kinds: dict[NodeKind, list[str]] = defaultdict(list)
        for name, node in nodes.items():
            kinds[NodeKind(free[name], node.allocatable)].append(name)
        wary = frozenset(name for name, node in nodes.items() if node.shunned)
        return cls(nodes, free, {kind: tuple(names) for kind, names in kinds.items()}, promised=promised, wary=wary)

    def but(self, closed: Iterable[str]) -> Capacity:
        """Return the capacity without the nodes named in ``closed``."""
        shut = frozenset(closed)
        nodes = {name: node for name, node in self.nodes.items() if name not in shut}
        return Capacity.made(nodes, {name: self.free[name] for name in nodes}, self.promised)

    def with_free(self, changed: Mapping[str, Resources]) -> Capacity:
        """Return the capacity with the free room of these nodes replaced (by node name)."""
        free = copied(self.free)
        moves: dict[NodeKind, dict[str, bool]] = defaultdict(dict)
        for name, room in changed.items():
            whole = self.nodes[name].allocatable
            moves[NodeKind(self.free[name], whole)][name] = False
            moves[NodeKind(room, whole)][name] = True
            free[name] = room
        return Capacity(self.nodes, free, self._moved(moves), promised=self.promised, wary=self.wary)

    def after(
        self,
        nodes: Mapping[str, Node],
        taken: Mapping[str, Resources],
        changed: Iterable[str],
        promised: Preemptions = NONE,
    ) -> Capacity:
        """Return the capacity after some nodes, or the room that is taken on them, have changed.

        ``changed`` names these nodes. ``nodes`` has all nodes after the change, and ``taken`` the room that is taken on
        each. If the free room is the same as before, the same object is returned, so that cached answers stay valid.
        """
        usable, free, wary = self.nodes, copied(self.free), self.wary
        moves: dict[NodeKind, dict[str, bool]] = defaultdict(dict)
        for name in changed:
            old, new = self.nodes.get(name), nodes.get(name)
            rest = _rest(new, taken) if new is not None and new.usable else None
            if old is new and (new is None or free[name] == rest):
                continue
            if old is not None:
                moves[NodeKind(free[name], old.allocatable)][name] = False
            if new is not None and rest is not None:
                free[name] = rest
                moves[NodeKind(rest, new.allocatable)][name] = True
            elif old is not None:
                del free[name]
            if old is not new:
                usable = nodes
                if (new is not None and new.wary) != (name in wary):
                    wary = wary ^ {name}
        if usable is self.nodes and not moves and promised == self.promised:
            return self
        if usable is nodes:
            usable = {name: node for name, node in sorted(nodes.items()) if node.usable}
        return Capacity(usable, free, self._moved(moves), promised=promised, wary=wary)

    def _moved(self, moves: Mapping[NodeKind, Mapping[str, bool]]) -> Mapping[NodeKind, tuple[str, ...]]:
        kinds = copied(self.kinds)
        for kind, names in moves.items():
            if left := with_changes(kinds.pop(kind, ()), names):
                kinds[kind] = left
        return kinds


def _rest(node: Node, taken: Mapping[str, Resources]) -> Resources:
    return node.allocatable - taken[node.name] if node.name in taken else node.allocatable

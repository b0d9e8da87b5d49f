"""Free room of the usable nodes, with those together that are alike: a placement asks a few kinds and not each node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from policy.cluster.layered import copied
from policy.cluster.model import Node
from policy.cluster.preemption import Preemptions
from policy.cluster.resources import Resources
from policy.cluster.sortedtuple import with_changes

NONE: Preemptions = {}


class Kind(NamedTuple):
    """What is free on a node, and what it has in all; its labels and taints are not looked at."""

    free: Resources
    allocatable: Resources


@dataclass(frozen=True)
class Capacity:
    """``nodes``: usable ones, by name in order. ``free``: of each; ``kinds``: their names in order, by kind.

    ``misfits``: what was found to fit nowhere; it does not either as long as this is the room. ``promised``: what of
    the room that is not free is promised to other schedulers' pods: a pod of higher priority need not wait for them.
    """

    nodes: Mapping[str, Node]
    free: Mapping[str, Resources]
    kinds: Mapping[Kind, tuple[str, ...]]
    misfits: set[Hashable] = field(default_factory=set, compare=False, repr=False)
    promised: Preemptions = field(default_factory=dict)

    @cached_property
    def most(self) -> Resources:
        """The most that is free anywhere, of each resource."""
        found: dict[str, int] = {}
        for kind in self.kinds:
            for name, amount in kind.free.amounts.items():
                if amount > found.get(name, 0):
                    found[name] = amount
        return Resources(found)

    @classmethod
    def of(cls, nodes: Mapping[str, Node], taken: Mapping[str, Resources]) -> Capacity:
        """Return what ``taken`` (by node) leaves of the usable ones among these nodes."""
        usable = {name: node for name, node in sorted(nodes.items()) if node.usable}
        return cls.made(usable, {name: _rest(node, taken) for name, node in usable.items()})

    @classmethod
    def made(cls, nodes: Mapping[str, Node], free: Mapping[str, Resources], promised: Preemptions = NONE) -> Capacity:
        """Return these nodes, by name in order, with this room."""
        kinds: dict[Kind, list[str]] = defaultdict(list)
        for name, node in nodes.items():
            kinds[Kind(free[name], node.allocatable)].append(name)
        return cls(nodes, free, {kind: tuple(names) for kind, names in kinds.items()}, promised=promised)

    def but(self, closed: Iterable[str]) -> Capacity:
        """Return the capacity without these nodes."""
        shut = frozenset(closed)
        nodes = {name: node for name, node in self.nodes.items() if name not in shut}
        return Capacity.made(nodes, {name: self.free[name] for name in nodes}, self.promised)

    def with_free(self, changed: Mapping[str, Resources]) -> Capacity:
        """Return the capacity with so much room on these nodes."""
        free = copied(self.free)
        moves: dict[Kind, dict[str, bool]] = defaultdict(dict)
        for name, room in changed.items():
            whole = self.nodes[name].allocatable
            moves[Kind(self.free[name], whole)][name] = False
            moves[Kind(room, whole)][name] = True
            free[name] = room
        return Capacity(self.nodes, free, self._moved(moves), promised=self.promised)

    def after(
        self,
        nodes: Mapping[str, Node],
        taken: Mapping[str, Resources],
        changed: Iterable[str],
        promised: Preemptions = NONE,
    ) -> Capacity:
        """Return the capacity once these nodes, or what is taken from them, have changed.

        It is the same object where it comes to the same.
        """
        usable, free = self.nodes, copied(self.free)
        moves: dict[Kind, dict[str, bool]] = defaultdict(dict)
        for name in changed:
            old, new = self.nodes.get(name), nodes.get(name)
            rest = _rest(new, taken) if new is not None and new.usable else None
            if old is new and (new is None or free[name] == rest):
                continue
            if old is not None:
                moves[Kind(free[name], old.allocatable)][name] = False
            if new is not None and rest is not None:
                free[name] = rest
                moves[Kind(rest, new.allocatable)][name] = True
            elif old is not None:
                del free[name]
            if old is not new:
                usable = nodes
        if usable is self.nodes and not moves and promised == self.promised:
            return self
        if usable is nodes:
            usable = {name: node for name, node in sorted(nodes.items()) if node.usable}
        return Capacity(usable, free, self._moved(moves), promised=promised)

    def _moved(self, moves: Mapping[Kind, Mapping[str, bool]]) -> Mapping[Kind, tuple[str, ...]]:
        kinds = copied(self.kinds)
        for kind, names in moves.items():
            if left := with_changes(kinds.pop(kind, ()), names):
                kinds[kind] = left
        return kinds


def _rest(node: Node, taken: Mapping[str, Resources]) -> Resources:
    return node.allocatable - taken[node.name] if node.name in taken else node.allocatable

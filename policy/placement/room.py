"""The free room of the nodes as a working copy: placements take room from it and give room back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from policy.cluster.capacity import Capacity
from policy.cluster.constraints import Constraints
from policy.cluster.node import Node
from policy.cluster.preemption import outranked
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.snapshot import Snapshot
from policy.placement.fit import accepts

MOST_APART = 32


class Alike(NamedTuple):
    """A group of nodes that have the same free and the same allocatable resources.

    names: the names of the nodes, in order. most: an upper bound of the number of nodes.
    """

    free: Resources
    allocatable: Resources
    names: Iterable[str]
    most: int

    def idleness(self, taken: Resources = NOTHING) -> float:
        """Return the free share of a node of the group once ``taken`` is taken from it: from 0 (full) to 1 (empty).

        The free share is the mean over all resources but ``pods``.
        """
        free, gone = self.free.amounts, taken.amounts
        shares = [
            (free.get(name, 0) - gone.get(name, 0)) / amount
            for name, amount in self.allocatable.amounts.items()
            if amount > 0 and name != "pods"
        ]
        return sum(shares) / len(shares) if shares else 0.0


class Room:
    """The free resources of every usable node, as a value that may be changed.

    ``nodes`` has the usable nodes by name, sorted by name. ``branch`` makes a copy for a trial.
    """

    def __init__(self, capacity: Capacity) -> None:
        self.nodes: Mapping[str, Node] = capacity.nodes
        self._capacity = capacity
        # _changed has the free room of nodes on which room was taken or given; all others are as in the capacity.
        self._changed: dict[str, Resources] = {}
        # _most is an upper bound of what any node has free, by which requests are refused without looking at nodes.
        self._most = capacity.most

    @classmethod
    def of(cls, snapshot: Snapshot) -> Room:
        """Return the snapshot's free room; nodes that are not ready or cordoned are left out."""
        return cls(snapshot.index.room)

    @classmethod
    def without_jobs(cls, snapshot: Snapshot) -> Room:
        """Return the room that would be free if no job of Kohort's held any.

        The room of foreign pods stays taken, because Kohort cannot wait for them to end.
        """
        return cls(snapshot.index.emptied)

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    @property
    def misfits(self) -> set[Hashable]:
        """The requests that are known to fit nowhere in this room; none are known for a room that was changed."""
        return set() if self._changed else self._capacity.misfits

    def free(self, node: str) -> Resources:
        """Return the free resources of the node; nothing for a node that is not usable."""
        changed = self._changed.get(node)
        return self._capacity.free.get(node, NOTHING) if changed is None else changed

    def takes(self, node: str, requests: Resources) -> bool:
        """Tell whether the node is usable and has free room for the request."""
        return node in self.nodes and requests.fits(self.free(node))

    def takes_anywhere(self, requests: Resources) -> bool:
        """Tell whether any usable node has free room for the request."""
        return any(True for alike in self.alike(requests) for _ in alike.names)

    def may_take(self, requests: Resources) -> bool:
        """Return False if it is clear without looking at any node that none has room for the request; else True."""
        return requests.fits(self._most)

    def take(self, node: str, requests: Resources) -> None:
        """Take room from the node; a node that is not usable is ignored."""
        if node in self.nodes:
            self._changed[node] = self.free(node) - requests

    def give(self, node: str, requests: Resources) -> None:
        """Give room back to the node; a node that is not usable is ignored."""
        if node in self.nodes:
            free = self._changed[node] = self.free(node) + requests
            if not free.within(self._most):
                self._most = self._most.or_more(free)

    def branch(self) -> Room:
        """Return a copy for a trial; changes of the copy do not change this room."""
        copy = Room(self._capacity)
        copy._changed, copy._most = dict(self._changed), self._most
        return copy

    def past(self, priority: int) -> Room:
        """Return the room that a pod of that priority may use: room promised to lower priorities counts as free."""
        promised = self._capacity.promised
        more = outranked(promised, priority) if promised else None
        if not more:
            return self
        copy = self.branch()
        for node, room in more.items():
            copy.give(node, room)
        return copy

    def but(self, closed: Iterable[str]) -> Room:
        """Return a copy without the nodes ``closed``."""
        copy = Room(self._capacity.but(closed))
        copy._changed = {name: free for name, free in self._changed.items() if name in copy.nodes}
        copy._most = self._most
        return copy

    @property
    def wary(self) -> frozenset[str]:
        """The names of the nodes that are used last, because members of different jobs have failed there."""
        return self._capacity.wary

    def favoured(self) -> Room:
        """Return a copy without the nodes that are used last; the room itself if there are none."""
        if not self.wary:
            return self
        copy = Room(self._capacity.favoured)
        copy._changed = {name: free for name, free in self._changed.items() if name in copy.nodes}
        copy._most = self._most
        return copy

    def alike(self, requests: Resources) -> Iterator[Alike]:
        """Yield the nodes with free room for the request, in groups of equal free and equal allocatable resources."""
        if not self.may_take(requests):
            return
        self._gather()
        changed = self._changed
        for kind, names in self._capacity.kinds.items():
            if requests.fits(kind.free):
                left = (name for name in names if name not in changed) if changed else names
                yield Alike(kind.free, kind.allocatable, left, len(names))
        for name, free in changed.items():
            if requests.fits(free):
                yield Alike(free, self.nodes[name].allocatable, (name,), 1)

    def _gather(self) -> None:
        """Put the changed nodes back into groups of equal nodes, if there are many more changed nodes than groups."""
        if len(self._changed) > MOST_APART + len(self._capacity.kinds):
            self._capacity, self._changed = self._capacity.with_free(self._changed), {}

    def first(self, alike: Alike, constraints: Constraints, refused: frozenset[str]) -> str | None:
        """Return the first node of the group whose taints and labels suit the constraints and that is not refused."""
        names = (name for name in alike.names if name not in refused and accepts(self.nodes[name], constraints))
        return next(names, None)

    def at_most(self, other: Room) -> Room:
        """Return a copy with, for each node and resource, the smaller of the amounts in this and in the other room.

        Both rooms must have the same nodes.
        """
        copy = self.branch()
        for name in {**self._changed, **other._changed}:
            least = other.free(name)
            copy._changed[name] = Resources(
                {key: min(have, least[key]) for key, have in self.free(name).amounts.items()}
            )
        return copy

    def fitting(self, requests: Resources) -> list[str]:
        """Return the sorted names of the nodes with free room for the request."""
        return sorted(name for alike in self.alike(requests) for name in alike.names)

    def idleness(self, node: str, taken: Resources = NOTHING) -> float:
        """Return the node's free share once ``taken`` is taken from it: from 0 (full) to 1 (empty)."""
        return Alike(self.free(node), self.nodes[node].allocatable, (node,), 1).idleness(taken)


def idlest(room: Room, requests: Resources, constraints: Constraints, refused: frozenset[str]) -> str | None:
    """Return the idlest node with room for the request; None if there is none.

    Only nodes count whose taints and labels suit the constraints, and which are not in ``refused``.
    """
    fitting = ((room.first(alike, constraints, refused), alike) for alike in room.alike(requests))
    return min(((-alike.idleness(), name) for name, alike in fitting if name is not None), default=(0.0, None))[1]

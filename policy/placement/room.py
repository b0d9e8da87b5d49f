"""Free room per node as a working copy: take, give back, branch for a trial."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from policy.cluster.capacity import Capacity
from policy.cluster.kept import until_nodes_change
from policy.cluster.model import Constraints, Node
from policy.cluster.preemption import outranked
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.snapshot import Snapshot
from policy.placement.fit import accepts

MOST_APART = 32


class Alike(NamedTuple):
    """Nodes with the same free room out of the same whole; ``names`` in order, ``most`` of them or fewer."""

    free: Resources
    allocatable: Resources
    names: Iterable[str]
    most: int

    def idleness(self, taken: Resources = NOTHING) -> float:
        """Free share of each, as the mean over its resources: 1 is empty. ``taken``: as if that were gone, too."""
        free, gone = self.free.amounts, taken.amounts
        shares = [
            (free.get(name, 0) - gone.get(name, 0)) / amount
            for name, amount in self.allocatable.amounts.items()
            if amount > 0 and name != "pods"
        ]
        return sum(shares) / len(shares) if shares else 0.0


class Room:
    """Free resources of every usable node. ``branch`` makes a trial copy that leaves this one as it is.

    ``nodes``: the usable ones, by name in order.
    """

    def __init__(self, capacity: Capacity) -> None:
        self.nodes: Mapping[str, Node] = capacity.nodes
        self._capacity = capacity
        # What was taken and given here, as the free room of the nodes that it touched.
        self._changed: dict[str, Resources] = {}
        # No node has more than this: most requests that fit nowhere are turned away without looking at any node.
        self._most = capacity.most

    @classmethod
    def of(cls, snapshot: Snapshot) -> Room:
        """Return the room as the ledger sees it: unready and cordoned nodes take no pod."""
        return cls(snapshot.index.room)

    @classmethod
    def without_jobs(cls, snapshot: Snapshot) -> Room:
        """Return the room if no job of Kohort had any.

        No wait can ever give back the room of pods that did not opt in.
        """
        return cls(snapshot.index.emptied)

    @classmethod
    def bare(cls, snapshot: Snapshot) -> Room:
        """Return the room if no pod had any: what the nodes are built with."""
        return cls(_bare_nodes(snapshot))

    @classmethod
    def reopened(cls, snapshot: Snapshot) -> Room:
        """Return the room if no pod had any and every node were ready and uncordoned."""
        return cls(_reopened_nodes(snapshot))

    @classmethod
    def without_running(cls, snapshot: Snapshot) -> Room:
        """Return the room once all that runs has ended.

        Finished jobs that keep their pods (cleanPodPolicy None) keep their room.
        """
        room = cls.without_jobs(snapshot)
        for uid in snapshot.index.keeping:
            for pod in snapshot.every_pod_of(uid):
                if pod.holds_room:
                    room.take(pod.node, pod.requests)
        return room

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    @property
    def misfits(self) -> set[Hashable]:
        """What was found to fit nowhere here; of a room that has been changed nothing is remembered."""
        return set() if self._changed else self._capacity.misfits

    def free(self, node: str) -> Resources:
        """Return what is free there; nothing on a node that takes no pod."""
        changed = self._changed.get(node)
        return self._capacity.free.get(node, NOTHING) if changed is None else changed

    def takes(self, node: str, requests: Resources) -> bool:
        """Tell whether the node can be used and has free room for the request."""
        return node in self.nodes and requests.fits(self.free(node))

    def takes_anywhere(self, requests: Resources) -> bool:
        """Tell whether any node can be used and has free room for the request."""
        return any(True for alike in self.alike(requests) for _ in alike.names)

    def may_take(self, requests: Resources) -> bool:
        """Return False where no node has room for the request; no node is looked at for that."""
        return requests.fits(self._most)

    def take(self, node: str, requests: Resources) -> None:
        """Charge the node."""
        if node in self.nodes:
            self._changed[node] = self.free(node) - requests

    def give(self, node: str, requests: Resources) -> None:
        """Free what was charged."""
        if node in self.nodes:
            free = self._changed[node] = self.free(node) + requests
            if not free.within(self._most):
                self._most = self._most.or_more(free)

    def branch(self) -> Room:
        """Return a copy to try things on."""
        copy = Room(self._capacity)
        copy._changed, copy._most = dict(self._changed), self._most
        return copy

    def past(self, priority: int) -> Room:
        """Return the room as a pod of that priority sees it: it may have what is promised to lower priorities."""
        promised = self._capacity.promised
        more = outranked(promised, priority) if promised else None
        if not more:
            return self
        copy = self.branch()
        for node, room in more.items():
            copy.give(node, room)
        return copy

    def but(self, closed: Iterable[str]) -> Room:
        """Return a copy without these nodes."""
        copy = Room(self._capacity.but(closed))
        copy._changed = {name: free for name, free in self._changed.items() if name in copy.nodes}
        copy._most = self._most
        return copy

    def alike(self, requests: Resources) -> Iterator[Alike]:
        """Yield the nodes whose free room takes the request, grouped by equal free room and size."""
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
        """Group the changed nodes with the others again, where most of the nodes have been touched."""
        if len(self._changed) > MOST_APART + len(self._capacity.kinds):
            self._capacity, self._changed = self._capacity.with_free(self._changed), {}

    def first(self, alike: Alike, constraints: Constraints, refused: frozenset[str]) -> str | None:
        """Return the first of these nodes that accepts such a pod and is not refused."""
        names = (name for name in alike.names if name not in refused and accepts(self.nodes[name], constraints))
        return next(names, None)

    def at_most(self, other: Room) -> Room:
        """Return a copy in which no node has more of anything than it has in the other room, of the same nodes."""
        copy = self.branch()
        for name in {**self._changed, **other._changed}:
            least = other.free(name)
            copy._changed[name] = Resources(
                {key: min(have, least[key]) for key, have in self.free(name).amounts.items()}
            )
        return copy

    def fitting(self, requests: Resources) -> list[str]:
        """Return the nodes whose free room takes the request, by name in order."""
        return sorted(name for alike in self.alike(requests) for name in alike.names)

    def idleness(self, node: str, taken: Resources = NOTHING) -> float:
        """Free share of the node, as the mean over its resources: 1 is empty. ``taken``: as if that were gone, too."""
        return Alike(self.free(node), self.nodes[node].allocatable, (node,), 1).idleness(taken)


@until_nodes_change
def _bare_nodes(snapshot: Snapshot) -> Capacity:
    return Capacity.of(snapshot.nodes, {})


@until_nodes_change
def _reopened_nodes(snapshot: Snapshot) -> Capacity:
    return Capacity.of({name: node.reopened for name, node in snapshot.nodes.items()}, {})


def idlest(room: Room, requests: Resources, constraints: Constraints, refused: frozenset[str]) -> str | None:
    """Return the least allocated node that takes one such pod."""
    fitting = ((room.first(alike, constraints, refused), alike) for alike in room.alike(requests))
    return min(((-alike.idleness(), name) for name, alike in fitting if name is not None), default=(0.0, None))[1]

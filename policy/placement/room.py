"""Free room per node as a working copy: take, give back, branch for a trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from policy.cluster.model import Node
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.snapshot import Snapshot


class Room:
    """Free resources of every usable node. ``branch`` makes a trial copy that leaves this one as it is."""

    def __init__(
        self, nodes: Mapping[str, Node], free: dict[str, Resources], most: dict[str, int] | None = None
    ) -> None:
        self.nodes = nodes
        self._free = free
        # No node has more than this: most requests that fit nowhere are turned away without looking at every node.
        self._most = _most(free) if most is None else most

    @classmethod
    def of(cls, snapshot: Snapshot) -> Room:
        """Room as the ledger sees it: unready and cordoned nodes take nobody."""
        return cls._less(snapshot, snapshot.charged)

    @classmethod
    def without_jobs(cls, snapshot: Snapshot) -> Room:
        """Room if no job of Kohort had any: what no wait can ever give back is the room of pods that did not opt in."""
        return cls._less(snapshot, snapshot.foreign)

    @classmethod
    def without_running(cls, snapshot: Snapshot) -> Room:
        """Room once all that runs has ended; finished jobs that keep their pods (cleanPodPolicy None) hold theirs."""
        room = cls.without_jobs(snapshot)
        for uid in snapshot.index.keeping:
            for pod in snapshot.every_pod_of(uid):
                if pod.holds_room:
                    room.take(pod.node, pod.requests)
        return room

    @classmethod
    def _less(cls, snapshot: Snapshot, taken: Mapping[str, Resources]) -> Room:
        usable = {name: node for name, node in sorted(snapshot.nodes.items()) if node.usable}
        free = {
            name: node.allocatable - taken[name] if name in taken else node.allocatable for name, node in usable.items()
        }
        return cls(usable, free)

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def free(self, node: str) -> Resources:
        """What is free there; nothing on a node that takes nobody."""
        return self._free.get(node, NOTHING)

    def take(self, node: str, requests: Resources) -> None:
        """Charge the node."""
        if node in self._free:
            self._free[node] = self._free[node] - requests

    def give(self, node: str, requests: Resources) -> None:
        """Free what was charged."""
        if node in self._free:
            free = self._free[node] = self._free[node] + requests
            for name, amount in free.amounts.items():
                self._most[name] = max(self._most.get(name, 0), amount)

    def branch(self) -> Room:
        """A copy to try things on."""
        return Room(self.nodes, dict(self._free), dict(self._most))

    def but(self, closed: Iterable[str]) -> Room:
        """A copy without these nodes."""
        shut = set(closed)
        return Room(
            {name: node for name, node in self.nodes.items() if name not in shut},
            {name: free for name, free in self._free.items() if name not in shut},
        )

    def fitting(self, requests: Resources) -> list[str]:
        """The nodes whose free room takes the request."""
        if not requests.fits(Resources(self._most)):
            return []
        return [name for name, free in self._free.items() if requests.fits(free)]

    def idleness(self, node: str, taken: Resources = NOTHING) -> float:
        """Free share of the node, as the mean over its resources: 1 is empty. ``taken``: as if that were gone, too."""
        allocatable, free = self.nodes[node].allocatable, self.free(node)
        shares = [
            (free[name] - taken[name]) / amount
            for name, amount in allocatable.amounts.items()
            if amount > 0 and name != "pods"
        ]
        return sum(shares) / len(shares) if shares else 0.0


def _most(free: Mapping[str, Resources]) -> dict[str, int]:
    most: dict[str, int] = {}
    for resources in free.values():
        for name, amount in resources.amounts.items():
            if amount > most.get(name, 0):
                most[name] = amount
    return most

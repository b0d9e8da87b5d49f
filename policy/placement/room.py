"""Free room per node as a working copy: take, give back, branch for a trial."""

from __future__ import annotations

from collections.abc import Iterator

from policy.cluster.model import Node
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.snapshot import Snapshot


class Room:
    """Free resources of every usable node. ``branch`` makes a trial copy that leaves this one as it is."""

    def __init__(self, nodes: dict[str, Node], free: dict[str, Resources]) -> None:
        self.nodes = nodes
        self._free = free

    @classmethod
    def of(cls, snapshot: Snapshot) -> Room:
        """Room as the ledger sees it: unready and cordoned nodes take nobody."""
        usable = {name: node for name, node in sorted(snapshot.nodes.items()) if node.ready and not node.unschedulable}
        return cls(usable, {name: snapshot.free(name) for name in usable})

    @classmethod
    def without_jobs(cls, snapshot: Snapshot) -> Room:
        """Room if no job of Kohort ran: what no wait can ever give back is the room of pods that did not opt in."""
        room = cls.of(snapshot)
        room._free = {name: node.allocatable for name, node in room.nodes.items()}
        for pod in snapshot.pods.values():
            if pod.holds_room and not pod.opted_in:
                room.take(pod.node, pod.requests)
        return room

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
            self._free[node] = self._free[node] + requests

    def branch(self) -> Room:
        """A copy to try things on."""
        return Room(self.nodes, dict(self._free))

    def idleness(self, node: str) -> float:
        """Free share of the node's scarcest resource among those it has: 1 is empty."""
        allocatable, free = self.nodes[node].allocatable, self.free(node)
        shares = [free[name] / amount for name, amount in allocatable.amounts.items() if amount > 0 and name != "pods"]
        return sum(shares) / len(shares) if shares else 0.0

"""The price of a unit of each resource, on each node, in each time slot (section IV-B, equations 22-26).

Demands and capacities are divided by the cluster's total of the resource before they are added up or compared, because
bytes of memory would outweigh all else. Bounds are kept as logarithms, because the paper's L is as small as 1e-250.
Arrays are ``[time slot, node, resource]``, with the nodes in order of their names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from policy.cluster.job import PS, WORKER
from policy.cluster.node import Node
from policy.cluster.resources import BANDWIDTH, Resources
from policy.cluster.snapshot import Snapshot
from policy.systems.oasis.arithmetic import Array, exp, ln
from policy.systems.oasis.schedule import Plan, Seen, taken
from policy.systems.oasis.workload import POOL

# The number of pods that a node takes has no price: it is a limit of a hundred or more, not a resource that is used up.
UNPRICED = "pods"


class Floor(Enum):
    """How L, the price of an idle resource, is found.

    ``RATIO``: the lowest U divided by ``price_ratio``. ``PAPER``: by equations 25 and 26.
    """

    RATIO = "ratio"
    PAPER = "paper"


@dataclass(frozen=True, slots=True)
class Ground:
    """The nodes as arrays for the planner: the resources that jobs may take of each, and the roles that it takes.

    ``names``: the resources, in the order of the arrays. ``capacity``: an array [node, resource] in the resources' own
    units, infinite where a node does not state its bandwidth. ``hosts``: by role, which nodes take it.
    """

    nodes: tuple[Node, ...]
    names: tuple[str, ...]
    capacity: Array
    hosts: dict[str, NDArray[np.bool_]]

    @classmethod
    def of(cls, nodes: Sequence[tuple[Node, Resources]], names: Iterable[str]) -> Ground:
        """Return these nodes as a Ground. ``names``: the resources that any job asks for."""
        known = tuple(sorted(names))
        capacity = np.array([[_room(room, name) for name in known] for _, room in nodes], dtype=float)
        pools = [node.labels.get(POOL, "") for node, _ in nodes]
        hosts = {role: np.array([pool in ("", role) for pool in pools], dtype=bool) for role in (WORKER, PS)}
        return cls(tuple(node for node, _ in nodes), known, capacity.reshape(len(nodes), len(known)), hosts)

    def vector(self, requests: Resources) -> Array:
        """Return the requested amounts as an array, in the order of ``names``; 0 for a resource not requested."""
        return np.array([float(requests[name]) for name in self.names])

    @property
    def totals(self) -> Array:
        """The cluster's total of each resource, as far as nodes state it; 1 where there is none."""
        sums: Array = np.where(np.isfinite(self.capacity), self.capacity, 0.0).sum(axis=0)
        return np.where(sums > 0, sums, 1.0)

    @property
    def priced(self) -> NDArray[np.bool_]:
        """Which resources have a price, as an array of truth values.

        A resource that no node limits has no price, because it would make the lowest price of all resources too low.
        """
        scarce = np.isfinite(self.capacity).any(axis=0) if self.nodes else np.ones(len(self.names), dtype=bool)
        return np.array([name != UNPRICED for name in self.names], dtype=bool) & scarce

    def usage(self, plans: Iterable[Plan], first: int, slots: int) -> Array:
        """Return the amounts that the plans take (g and v) in each of ``slots`` time slots from ``first`` on.

        The result is an array [time slot, node, resource].
        """
        index = {node.name: at for at, node in enumerate(self.nodes)}
        used = np.zeros((slots, len(self.nodes), len(self.names)))
        vectors: dict[Resources, Array] = {}
        for plan in plans:
            for shift in plan.shifts:
                if first <= shift.slot < first + slots:
                    for node, requests in taken(plan, shift):
                        if node in index:
                            if requests not in vectors:
                                vectors[requests] = self.vector(requests)
                            used[shift.slot - first, index[node]] += vectors[requests]
        return used


def usable(snapshot: Snapshot) -> list[tuple[Node, Resources]]:
    """Return the nodes that take members, in order of their names, each with the resources for Kohort's jobs.

    These are the node's allocatable resources less what foreign pods take.
    """
    return [
        (node, node.allocatable - snapshot.foreign[name] if name in snapshot.foreign else node.allocatable)
        for name, node in sorted(snapshot.nodes.items())
        if node.usable
    ]


def _room(room: Resources, name: str) -> float:
    if name == BANDWIDTH and name not in room.amounts:
        return math.inf
    return float(max(0, room[name]))


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of the prices (23-26) on the nodes that take one role (a pool), as logarithms.

    ln_u: ln U for each resource. ln_l: ln L, the same for all resources.
    """

    ln_u: Array
    ln_l: float

    @property
    def alpha(self) -> float:
        """The alpha of Theorem 4 for this pool; under the theorem's premises OASiS is 2 alpha-competitive."""
        finite = self.ln_u[np.isfinite(self.ln_u)]
        return max(1.0, float(finite.max()) - self.ln_l) if finite.size else 1.0


@dataclass(frozen=True, slots=True)
class Pricing:
    """The parameters of OASiS's prices.

    floor: how L, the price of an idle resource, is found. ratio: U / L under ``Floor.RATIO``. u_scale, l_scale: factors
    by which U and L are estimated wrong (Figure 6). switching: the cost of one worker more or fewer than in the time
    slot before, as a share of the job's theta1.
    """

    floor: Floor = Floor.RATIO
    ratio: float = 1e4
    u_scale: float = 1.0
    l_scale: float = 1.0
    switching: float = 0.0

    def bounds(self, ground: Ground, seen: Sequence[Seen], role: str, slots: int) -> Bounds | None:
        """Return the bounds of the prices on the nodes that take the role, from the jobs seen. ``slots``: T.

        None: nothing has a price, because no job was seen yet or, under ``Floor.PAPER``, there is no node or time slot
        to be bought.
        """
        asked = [job.worker if role == WORKER else job.server for job in seen]
        demands = np.array([ground.vector(requests) for requests in asked]).reshape(len(seen), len(ground.names))
        demands = np.where(ground.priced, demands / ground.totals, 0.0)
        takes = demands.sum(axis=1) > 0
        best = np.array([job.best for job in seen])
        if not (takes & (best > 0)).any():
            return None
        ln_each = np.where(demands > 0, ln(best)[:, None] - ln(np.where(demands > 0, demands, 1.0)), -np.inf)
        ln_u: Array = ln_each.max(axis=0) + math.log(self.u_scale)
        offered = _offered(ground, role, slots)
        if self.floor is not Floor.RATIO and not offered:
            return None  # Nothing can be bought, because no node takes the role, or no time slot is left.
        if self.floor is Floor.RATIO:
            ln_l = float(ln_u[np.isfinite(ln_u)].min()) - math.log(self.ratio)
        else:
            ln_l = self._paper([job for job, some in zip(seen, takes, strict=True) if some],
                               demands[takes].sum(axis=1), offered)  # fmt: skip
        return Bounds(ln_u, ln_l + math.log(self.l_scale))

    def _paper(self, seen: Sequence[Seen], sums: Array, offered: float) -> float:
        """Return ln L by (25), (26): min f(T - a) / (4 eta W sum w), with 1/eta the least of W sum w / (T sum c).

        offered: T sum c, as a share of the cluster.
        """
        ln_taken = ln(np.array([float(job.work) for job in seen]) * sums)
        ln_eta = math.log(offered) - float(ln_taken.min())
        return float((np.array([job.ln_worst for job in seen]) - ln_taken).min()) - math.log(4.0) - ln_eta


def _offered(ground: Ground, role: str, slots: int) -> float:
    """Return T sum c: what all nodes of the role's pool offer in T time slots, as a share of the cluster.

    It is 0 if no node takes the role, or if no time slot is left.
    """
    capacity = np.where(np.isfinite(ground.capacity), ground.capacity, 0.0) / ground.totals
    return max(0, slots) * float(capacity[ground.hosts[role]][:, ground.priced].sum())


class Prices:
    """The prices p and q (22) of each resource on each node: L (U / L)^(used share).

    Such a price is for the cluster's whole amount of the resource. ``worker``, ``server``: the bounds of the prices on
    nodes that take workers, and on nodes that take ps.
    """

    def __init__(self, ground: Ground, worker: Bounds | None, server: Bounds | None) -> None:
        self.ground = ground
        either = _either(worker, server)
        nodes, names = len(ground.nodes), len(ground.names)
        self._ln_u = np.full((nodes, names), -np.inf)
        self._ln_l = np.full(nodes, -np.inf)
        for at in range(nodes):
            alone = (ground.hosts[WORKER][at], ground.hosts[PS][at])
            bounds = either if all(alone) else worker if alone[0] else server
            if bounds is not None:
                self._ln_u[at], self._ln_l[at] = bounds.ln_u, bounds.ln_l

    def units(self, used: Array) -> Array:
        """Return the price of one unit of each resource as an array [..., node, resource].

        used: the amounts that the plans take, in an array of the same shape. A unit is that of ``Resources`` (a
        millicore, a byte, a piece). A resource that no job seen so far asks for has the price 0.
        """
        capacity = self.ground.capacity
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(capacity > 0, np.clip(used / capacity, 0.0, 1.0), 1.0)
            low = self._ln_l[:, None]
            ln_price = np.where(np.isfinite(self._ln_u), low + share * (np.maximum(self._ln_u, low) - low), -np.inf)
        return np.where(self.ground.priced, exp(ln_price) / self.ground.totals, 0.0)


def _either(worker: Bounds | None, server: Bounds | None) -> Bounds | None:
    """Return the bounds for a node that hosts workers and ps: the larger U, the smaller L."""
    if worker is None or server is None:
        return worker or server
    return Bounds(np.maximum(worker.ln_u, server.ln_u), min(worker.ln_l, server.ln_l))

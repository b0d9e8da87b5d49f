"""Place a whole gang or nothing; deterministic.

One node if one takes the whole gang (best fit: least idle afterwards, then name). Otherwise as few nodes as possible,
the ps with most of its workers. The operator removes the highest worker index first, so low indices sit beside the ps
and the highest on the last node: a shrink first frees what costs most traffic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policy.cluster.model import ANYWHERE, PS, WORKER, Constraints, Job, Slot
from policy.cluster.resources import NOTHING, Resources, total
from policy.cluster.snapshot import Snapshot, demand
from policy.placement.fit import accepts
from policy.placement.room import Room

FIRST_NODES_TRIED = 32


@dataclass(frozen=True, slots=True)
class Ask:
    """What a gang asks for: each rigid member, and so many equal workers. ``barred``: nodes not to be used."""

    rigid: tuple[tuple[Slot, Resources, Constraints], ...]
    worker: Resources
    worker_constraints: Constraints
    workers: int
    barred: frozenset[str] = frozenset()

    @property
    def whole(self) -> Resources:
        """The sum over all members."""
        return total(requests for _, requests, _ in self.rigid) + self.worker.times(self.workers)


def ask_of(snapshot: Snapshot, job: Job, workers: int) -> Ask:
    """The demand of a job at ``workers`` workers: real pods where they exist, else the template."""
    rigid = tuple(
        (slot, demand(job, slot, snapshot.member(job.uid, slot)), _constraints(job, slot)) for slot in job.slots(0)
    )
    return Ask(rigid, worker_demand(snapshot, job), _constraints(job, Slot(WORKER, 0)), workers, barred(snapshot, job))


def worker_demand(snapshot: Snapshot, job: Job) -> Resources:
    """One worker's request: the largest among the real pods and the template, resource by resource."""
    role = job.worker
    if role is None:
        return NOTHING
    largest = dict(role.requests.amounts)
    for slot, uid in snapshot.members.get(job.uid, {}).items():
        if slot.role == WORKER:
            for name, amount in snapshot.pods[uid].requests.amounts.items():
                largest[name] = max(largest.get(name, 0), amount)
    return Resources(largest)


def barred(snapshot: Snapshot, job: Job) -> frozenset[str]:
    """Nodes that kube-scheduler did not offer to this job lately."""
    return frozenset(node for uid, node in snapshot.not_offered if uid == job.uid)


def place(room: Room, ask: Ask) -> dict[Slot, str] | None:
    """A node for every member, or None. ``room`` is not changed."""
    return _on_one_node(room, ask) or _on_few_nodes(room, ask)


def charge(room: Room, ask: Ask, nodes: Mapping[Slot, str]) -> None:
    """Take the plan's room."""
    rigid = {slot: requests for slot, requests, _ in ask.rigid}
    for slot, node in nodes.items():
        room.take(node, rigid.get(slot, ask.worker))


def _constraints(job: Job, slot: Slot) -> Constraints:
    role = job.role(slot.role)
    return role.constraints if role else ANYWHERE


def _usable(room: Room, ask: Ask, constraints: Constraints) -> list[str]:
    return [name for name in room if name not in ask.barred and accepts(room.nodes[name], constraints)]


def _on_one_node(room: Room, ask: Ask) -> dict[Slot, str] | None:
    whole = ask.whole
    fitting = [
        name for name in room if whole.fits(room.free(name)) and name not in ask.barred and _takes_all(room, ask, name)
    ]
    if not fitting:
        return None
    best = min(fitting, key=lambda name: (_left(room, name, whole), name))
    return dict.fromkeys(_slots(ask), best)


def _takes_all(room: Room, ask: Ask, name: str) -> bool:
    wanted = {constraints for _, _, constraints in ask.rigid} | ({ask.worker_constraints} if ask.workers else set())
    return all(accepts(room.nodes[name], constraints) for constraints in wanted)


def _left(room: Room, name: str, taken: Resources) -> float:
    trial = room.branch()
    trial.take(name, taken)
    return trial.idleness(name)


def _slots(ask: Ask) -> list[Slot]:
    return [slot for slot, _, _ in ask.rigid] + [Slot(WORKER, index) for index in range(ask.workers)]


def _on_few_nodes(room: Room, ask: Ask) -> dict[Slot, str] | None:
    """Try the likeliest nodes for the rigid members and keep the layout with the fewest nodes and least traffic."""
    layouts = []
    for first in _first_nodes(room, ask):
        trial = room.branch()
        rigid = _rigid_from(trial, ask, first)
        workers = _fill(trial, ask, first) if rigid is not None else None
        if rigid is not None and workers is not None:
            layouts.append({**rigid, **workers})
    if not layouts:
        return None
    return min(
        layouts, key=lambda layout: (len(set(layout.values())), cross_node_pairs(layout), sorted(layout.items()))
    )


def _first_nodes(room: Room, ask: Ask) -> list[str]:
    hosts = _usable(room, ask, ask.rigid[0][2] if ask.rigid else ask.worker_constraints)
    hosts.sort(key=lambda name: (-ask.worker.how_many(room.free(name)), -room.idleness(name), name))
    return hosts[:FIRST_NODES_TRIED]


def _rigid_from(trial: Room, ask: Ask, first: str) -> dict[Slot, str] | None:
    """Rigid members on ``first`` as far as they fit, the others on the idlest node that takes them."""
    nodes: dict[Slot, str] = {}
    for slot, requests, constraints in ask.rigid:
        hosts = _usable(trial, ask, constraints)
        fitting = [name for name in hosts if requests.fits(trial.free(name))]
        if not fitting:
            return None
        node = first if first in fitting else min(fitting, key=lambda name: (-trial.idleness(name), name))
        trial.take(node, requests)
        nodes[slot] = node
    return nodes


def _fill(trial: Room, ask: Ask, first: str) -> dict[Slot, str] | None:
    """Workers from index 0: ``first``, then the nodes that take most; the last one the tightest that suffices."""
    room_for = {name: ask.worker.how_many(trial.free(name)) for name in _usable(trial, ask, ask.worker_constraints)}
    nodes: dict[Slot, str] = {}
    host: str | None = first
    while len(nodes) < ask.workers:
        if host is None:
            return None
        for _ in range(min(room_for.pop(host, 0), ask.workers - len(nodes))):
            nodes[Slot(WORKER, len(nodes))] = host
        host = _next_host(room_for, ask.workers - len(nodes))
    return nodes


def _next_host(room_for: Mapping[str, int], missing: int) -> str | None:
    enough = [name for name, count in room_for.items() if count >= missing]
    if enough:
        return min(enough, key=lambda name: (room_for[name], name))
    some = [name for name, count in room_for.items() if count > 0]
    return min(some, key=lambda name: (-room_for[name], name)) if some else None


def cross_node_pairs(nodes: Mapping[Slot, str]) -> int:
    """ps-worker pairs whose two ends are on different nodes: the traffic that crosses the network."""
    servers = [node for slot, node in nodes.items() if slot.role == PS]
    workers = [node for slot, node in nodes.items() if slot.role == WORKER]
    return sum(1 for server in servers for worker in workers if server != worker)

"""Place a whole gang or nothing; deterministic.

One node if one takes the whole gang: first one with room for the workers that may join later, else best fit (least idle
afterwards, then name). Otherwise as few nodes as possible, the ps with most of its workers. The operator removes the
highest worker index first, so low indices sit beside the ps and the highest on the last node: a shrink first frees what
costs most traffic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from policy.cluster.model import ANYWHERE, PS, WORKER, Constraints, Job, Node, Slot
from policy.cluster.resources import NOTHING, Resources, total
from policy.cluster.snapshot import Snapshot, demand
from policy.placement.fit import accepts
from policy.placement.room import Room

FIRST_NODES_TRIED = 32


@dataclass(frozen=True, slots=True)
class Ask:
    """What a gang asks for: each rigid member, and so many equal workers.

    ``barred``: nodes not to be used. ``later``: workers that may join once the gang runs; they get no room now.
    """

    rigid: tuple[tuple[Slot, Resources, Constraints], ...]
    worker: Resources
    worker_constraints: Constraints
    workers: int
    barred: frozenset[str] = frozenset()
    later: int = 0

    @property
    def whole(self) -> Resources:
        """The sum over all members."""
        return total(requests for _, requests, _ in self.rigid) + self.worker.times(self.workers)

    @property
    def text(self) -> str:
        """The sum in words, for a verdict's detail."""
        whole = self.whole
        return ", ".join(f"{name} {whole[name]}" for name in whole if name != "pods")

    def members(self) -> tuple[tuple[Slot, Resources, Constraints], ...]:
        """Every member: the rigid ones, then the workers from index 0."""
        workers = (Slot(WORKER, index) for index in range(self.workers))
        return (*self.rigid, *((slot, self.worker, self.worker_constraints) for slot in workers))


def ask_of(snapshot: Snapshot, job: Job, workers: int) -> Ask:
    """The demand of a job at ``workers`` workers: real pods where they exist, else the template."""
    rigid = tuple(
        (slot, demand(job, slot, snapshot.member(job.uid, slot)), _constraints(job, slot)) for slot in job.slots(0)
    )
    constraints = _constraints(job, Slot(WORKER, 0))
    later = max(0, job.max_workers - workers) if job.elastic else 0
    return Ask(rigid, worker_demand(snapshot, job), constraints, workers, barred(snapshot, job), later)


def worker_demand(snapshot: Snapshot, job: Job) -> Resources:
    """One worker's request: the largest among the real pods and the template, resource by resource."""
    role = job.worker
    if role is None:
        return NOTHING
    pods, asked = snapshot.pods, role.requests
    real = (pods[uid].requests for slot, uid in snapshot.members.get(job.uid, {}).items() if slot.role == WORKER)
    largest = dict(asked.amounts)
    for requests in real:
        if requests.amounts != asked.amounts:
            largest.update({name: max(largest.get(name, 0), amount) for name, amount in requests.amounts.items()})
    return Resources(largest)


def barred(snapshot: Snapshot, job: Job) -> frozenset[str]:
    """Nodes that kube-scheduler did not offer to this job lately."""
    return frozenset(node for uid, node in snapshot.not_offered if uid == job.uid)


def place(room: Room, ask: Ask) -> dict[Slot, str] | None:
    """A node for every member, or None. ``room`` is not changed."""
    return _on_one_node(room, ask) or _on_few_nodes(room, ask)


def fits(room: Room, ask: Ask) -> bool:
    """Whether ``place`` would find nodes: the first ones do, the best need not be known."""
    if any(takes_all(room.nodes[name], ask) for name in room.fitting(ask.whole)):
        return True
    return next(_layouts(room, ask), None) is not None


def charge(room: Room, ask: Ask, nodes: Mapping[Slot, str]) -> None:
    """Take the plan's room."""
    rigid = {slot: requests for slot, requests, _ in ask.rigid}
    for slot, node in nodes.items():
        room.take(node, rigid.get(slot, ask.worker))


def _constraints(job: Job, slot: Slot) -> Constraints:
    role = job.role(slot.role)
    return role.constraints if role else ANYWHERE


def takes_all(node: Node, ask: Ask) -> bool:
    """Whether the node accepts every member of the gang; room is not looked at."""
    wanted = {constraints for _, _, constraints in ask.rigid} | ({ask.worker_constraints} if ask.workers else set())
    return node.name not in ask.barred and all(accepts(node, constraints) for constraints in wanted)


def _on_one_node(room: Room, ask: Ask) -> dict[Slot, str] | None:
    whole = ask.whole
    fitting = [name for name in room.fitting(whole) if takes_all(room.nodes[name], ask)]
    if not fitting:
        return None
    best = min(fitting, key=lambda name: (-_can_join(room, ask, name, whole), room.idleness(name, whole), name))
    return {slot: best for slot, _, _ in ask.members()}


def _can_join(room: Room, ask: Ask, name: str, whole: Resources) -> int:
    """How many of the later workers would still fit beside the gang there: a ps far from its workers costs traffic."""
    return min(ask.later, ask.worker.how_many(room.free(name) - whole)) if ask.later else 0


def _on_few_nodes(room: Room, ask: Ask) -> dict[Slot, str] | None:
    """The layout with the fewest nodes and the least traffic."""
    return min(
        _layouts(room, ask),
        key=lambda layout: (len(set(layout.values())), cross_node_pairs(layout), sorted(layout.items())),
        default=None,
    )


def _layouts(room: Room, ask: Ask) -> Iterator[dict[Slot, str]]:
    """One layout for each of the nodes that are the likeliest for the rigid members."""
    counts = {
        name: ask.worker.how_many(room.free(name)) for name in _open(room, ask.worker, ask.worker_constraints, ask)
    }
    if sum(counts.values()) < ask.workers:
        return
    for first in _first_nodes(room, ask, counts):
        trial = room.branch()
        rigid = _rigid_from(trial, ask, first)
        if rigid is None:
            continue
        left = {name: ask.worker.how_many(trial.free(name)) for name in set(rigid.values()) if name in counts}
        workers = _fill({**counts, **left}, ask.workers, first)
        if workers is not None:
            yield {**rigid, **workers}


def _open(room: Room, requests: Resources, constraints: Constraints, ask: Ask) -> list[str]:
    """Nodes that take one such member now."""
    return [
        name for name in room.fitting(requests) if name not in ask.barred and accepts(room.nodes[name], constraints)
    ]


def _first_nodes(room: Room, ask: Ask, counts: Mapping[str, int]) -> list[str]:
    _, requests, constraints = ask.rigid[0] if ask.rigid else (None, ask.worker, ask.worker_constraints)
    hosts = _open(room, requests, constraints, ask)
    hosts.sort(key=lambda name: (-counts.get(name, 0), name))
    # Only among the likeliest does it matter which is the idlest.
    return sorted(hosts[: 2 * FIRST_NODES_TRIED], key=lambda n: (-counts.get(n, 0), -room.idleness(n), n))[
        :FIRST_NODES_TRIED
    ]


def _rigid_from(trial: Room, ask: Ask, first: str) -> dict[Slot, str] | None:
    """Rigid members on ``first`` as far as they fit, the others on the idlest node that takes them."""
    nodes: dict[Slot, str] = {}
    for slot, requests, constraints in ask.rigid:
        if _takes(trial, first, requests, constraints, ask):
            node = first
        else:
            hosts = _open(trial, requests, constraints, ask)
            if not hosts:
                return None
            node = min(hosts, key=lambda name: (-trial.idleness(name), name))
        trial.take(node, requests)
        nodes[slot] = node
    return nodes


def _takes(trial: Room, name: str, requests: Resources, constraints: Constraints, ask: Ask) -> bool:
    return requests.fits(trial.free(name)) and name not in ask.barred and accepts(trial.nodes[name], constraints)


def _fill(counts: Mapping[str, int], workers: int, first: str) -> dict[Slot, str] | None:
    """Workers from index 0: ``first``, then the nodes that take most; the last one the tightest that suffices."""
    nodes: dict[Slot, str] = {}
    others = sorted((name for name, count in counts.items() if count and name != first), key=lambda n: (-counts[n], n))
    _put(nodes, first, min(counts.get(first, 0), workers))
    while len(nodes) < workers:
        if not others:
            return None
        missing = workers - len(nodes)
        host = others.pop(0) if counts[others[0]] < missing else _tightest(others, counts, missing)
        _put(nodes, host, min(counts[host], missing))
    return nodes


def _tightest(hosts: list[str], counts: Mapping[str, int], missing: int) -> str:
    return min((name for name in hosts if counts[name] >= missing), key=lambda name: (counts[name], name))


def _put(nodes: dict[Slot, str], host: str, count: int) -> None:
    for _ in range(count):
        nodes[Slot(WORKER, len(nodes))] = host


def cross_node_pairs(nodes: Mapping[Slot, str]) -> int:
    """ps-worker pairs whose two ends are on different nodes: the traffic that crosses the network."""
    servers = [node for slot, node in nodes.items() if slot.role == PS]
    workers = [node for slot, node in nodes.items() if slot.role == WORKER]
    return sum(1 for server in servers for worker in workers if server != worker)

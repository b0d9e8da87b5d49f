"""Deterministic placement of a whole gang, or of nothing.

A gang goes on one node if a node takes all of it: the node that has room for the most workers that may join later, and
among equals the best fit (least idle afterwards, then by name). Otherwise it goes on as few nodes as possible, with the
ps beside most of its workers. Low worker indices are placed beside the ps, and the highest on the last node. The
operator removes the highest index first, so a shrink first removes the workers that cost the most network traffic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import islice, tee
from operator import itemgetter

from policy.cluster.constraints import ANYWHERE, Constraints
from policy.cluster.frozen import replace
from policy.cluster.job import PS, WORKER, Job, Role, Slot, worker_slots
from policy.cluster.kept import shared, until_job_changes
from policy.cluster.node import Node
from policy.cluster.pod import Phase
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.snapshot import Snapshot, demand, is_over, priority_of
from policy.placement.ask import Ask
from policy.placement.fit import accepts
from policy.placement.room import Alike, Room, idlest

FIRST_NODES_TRIED = 32


@until_job_changes
def ask_of(snapshot: Snapshot, job: Job, workers: int) -> Ask:
    """Return the placement request of a job with ``workers`` workers.

    A member asks for what its pod requests; as long as there is no pod, for what the template requests.
    """
    # Members that are done need no room. If some workers are done, the others are rigid members, to keep their indices.
    done = done_slots(snapshot, job)
    slots, equal = job.slots(0), workers
    if not done.isdisjoint(worker_slots(workers)):
        slots, equal = job.slots(workers), 0
    return shared(snapshot, ask_for(snapshot, job, [slot for slot in slots if slot not in done], equal, workers))


def ask_for(snapshot: Snapshot, job: Job, rigid: Iterable[Slot], equal: int, workers: int) -> Ask:
    """Return the placement request for the members in the slots ``rigid`` and for ``equal`` equal workers.

    ``workers`` is the number of workers that the job has in all once these are placed.
    """
    asked = tuple((slot, demand(job, slot, snapshot.member(job.uid, slot)), _constraints(job, slot)) for slot in rigid)
    constraints = _constraints(job, Slot(WORKER, 0))
    later = max(0, job.max_workers - workers) if job.elastic else 0
    refused, priority = barred(snapshot, job), priority_of(snapshot, job.uid)
    return Ask(asked, worker_demand(snapshot, job), constraints, equal, refused, later, priority)


def done_slots(snapshot: Snapshot, job: Job) -> frozenset[Slot]:
    """Return the slots that need no room any more: their member has succeeded, or no pod will come for them again."""
    members, pods = snapshot.members.get(job.uid, {}), snapshot.pods
    over = (slot for slot in job.over if is_over(job, slot, snapshot.member(job.uid, slot)))
    return frozenset((*over, *(slot for slot, uid in members.items() if pods[uid].phase is Phase.SUCCEEDED)))


@until_job_changes
def worker_demand(snapshot: Snapshot, job: Job) -> Resources:
    """Return one worker's requests: for each resource, the largest amount among the template and the workers' pods."""
    role = job.worker
    return NOTHING if role is None else shared(snapshot, _role_demand(snapshot, job, role))


def _role_demand(snapshot: Snapshot, job: Job, role: Role) -> Resources:
    pods, asked = snapshot.pods, role.requests
    real = (pods[uid].requests for slot, uid in snapshot.members.get(job.uid, {}).items() if slot.role == role.name)
    return reduce(Resources.or_more, (requests for requests in real if requests.amounts != asked.amounts), asked)


def as_its_pods(snapshot: Snapshot, job: Job) -> Job:
    """Return the job with each role's requests raised to what its pods really ask for.

    For each resource that is the largest amount in the role's template and its pods.
    """
    asked = {role.name: _role_demand(snapshot, job, role) for role in job.roles}
    if all(asked[role.name] is role.requests for role in job.roles):
        return job
    return replace(job, roles=tuple(replace(role, requests=asked[role.name]) for role in job.roles))


def barred(snapshot: Snapshot, job: Job) -> frozenset[str]:
    """Return the names of the nodes that are not to be used for the job, because kube-scheduler did not offer them."""
    return frozenset(node for uid, node in snapshot.not_offered if uid == job.uid)


def place(room: Room, ask: Ask) -> dict[Slot, str] | None:
    """Return a node for every slot, or None if the gang cannot be placed. ``room`` is not changed.

    Nodes on which members of different jobs have failed are used only if the gang cannot be placed without them.
    """
    better = room.favoured()
    nodes = _place(better, ask) if better is not room else None
    return _place(room, ask) if nodes is None else nodes


def _place(room: Room, ask: Ask) -> dict[Slot, str] | None:
    misfits = room.misfits
    if ask in misfits:
        return None
    room = room.past(ask.priority)
    nodes = (_on_one_node(room, ask) or _on_few_nodes(room, ask)) if room.may_take(ask.least) else None
    if nodes is None:
        misfits.add(ask)
    return nodes


def fits(room: Room, ask: Ask) -> bool:
    """Tell whether ``place`` would find nodes. This is faster, because it does not look for the best ones."""
    room = room.past(ask.priority)
    if any(_first_to_take(room, alike, ask) for alike in room.alike(ask.whole)):
        return True
    return next(_layouts(room, ask), None) is not None


def charge(room: Room, ask: Ask, nodes: Mapping[Slot, str]) -> None:
    """Take the room of the members on these nodes (a result of ``place``) from ``room``."""
    rigid = {slot: requests for slot, requests, _ in ask.rigid}
    for slot, node in nodes.items():
        room.take(node, rigid.get(slot, ask.worker))


def _constraints(job: Job, slot: Slot) -> Constraints:
    role = job.role(slot.role)
    return role.constraints if role else ANYWHERE


def takes_all(node: Node, ask: Ask) -> bool:
    """Tell whether taints, labels and barred nodes let every member on the node; its free room is not looked at."""
    return node.name not in ask.barred and all(accepts(node, constraints) for constraints in ask.constraints)


def _first_to_take(room: Room, alike: Alike, ask: Ask) -> str | None:
    """Return the name of the first node in the group that accepts every member (``takes_all``); None if none does."""
    return next((name for name in alike.names if takes_all(room.nodes[name], ask)), None)


def _on_one_node(room: Room, ask: Ask) -> dict[Slot, str] | None:
    whole, later, each = ask.whole, ask.later, ask.worker
    # Nodes with room for later workers, too, come first: a worker on another node than its ps costs network traffic.
    fitting = [(min(later, each.how_many(alike.free - whole)) if later else 0, alike) for alike in room.alike(whole)]
    for most in sorted({count for count, _ in fitting}, reverse=True):
        roomiest = (alike for count, alike in fitting if count == most)
        named = ((_first_to_take(room, alike, ask), alike) for alike in roomiest)
        best = min(((alike.idleness(whole), name) for name, alike in named if name is not None), default=None)
        if best is not None:
            return {slot: best[1] for slot, _, _ in ask.members()}
    return None


def _on_few_nodes(room: Room, ask: Ask) -> dict[Slot, str] | None:
    """Return the placement with the fewest nodes, and among those the one with the fewest ps-worker pairs across nodes.

    Return None for a gang of one member, because ``_on_one_node`` has tried it already.
    """
    if len(ask.rigid) + ask.workers == 1:
        return None
    return min(
        _layouts(room, ask),
        key=lambda layout: (len(set(layout.values())), cross_node_pairs(layout), sorted(layout.items())),
        default=None,
    )


def _layouts(room: Room, ask: Ask) -> Iterator[dict[Slot, str]]:
    """Yield placements of the whole gang, one for each node of ``_first_nodes`` as first choice for rigid members."""
    takers = [(ask.worker.how_many(alike.free), alike) for alike in room.alike(ask.worker)]
    most = sum(count * alike.most for count, alike in takers)
    counts = _counts(room, ask, takers) if most >= ask.workers else {}
    if sum(counts.values()) < ask.workers:
        return
    for first in _first_nodes(room, ask):
        trial = room.branch()
        rigid = _rigid_from(trial, ask, first)
        if rigid is None:
            continue
        taken = (n for n in {first, *rigid.values()} if _takes(room, n, ask.worker, ask.worker_constraints, ask))
        left = {name: ask.worker.how_many(trial.free(name)) for name in taken}
        workers = _fill(counts | left, ask.workers, first)
        if workers is not None:
            yield {**rigid, **workers}


def _counts(room: Room, ask: Ask, takers: Iterable[tuple[int, Alike]]) -> dict[str, int]:
    """Return how many workers each node can take, by the node's name.

    ``takers`` has groups of equal nodes, each with the number of workers that one node of the group can take. Of the
    nodes with the same number, only as many are in the result as one placement could use.
    """
    enough = ask.workers + len(ask.rigid) + 1
    by_count: dict[int, list[str]] = defaultdict(list)
    for count, alike in takers:
        by_count[count] += islice(_open(room, alike, ask.worker_constraints, ask), enough)
    return {name: count for count, names in by_count.items() for name in sorted(names)[:enough]}


def _open(room: Room, alike: Alike, constraints: Constraints, ask: Ask) -> Iterator[str]:
    """Return the names of the nodes in ``alike`` that accept the constraints (taints, labels) and are not barred."""
    return (name for name in alike.names if name not in ask.barred and accepts(room.nodes[name], constraints))


def _first_nodes(room: Room, ask: Ask) -> list[str]:
    """Return up to ``FIRST_NODES_TRIED`` nodes that take the first rigid member, as first choices for a placement.

    Nodes that take more workers come first, and among equals the idler ones.
    """
    _, requests, constraints = ask.rigid[0] if ask.rigid else (None, ask.worker, ask.worker_constraints)
    most = 2 * FIRST_NODES_TRIED
    groups: list[tuple[int, float, list[str]]] = []
    for alike in room.alike(requests):
        count = ask.worker.how_many(alike.free) if ask.worker.fits(alike.free) else 0
        takers = _open(room, alike, constraints, ask)
        if count and constraints != ask.worker_constraints:
            # A node whose labels or taints suit the rigid member need not suit workers, so such nodes come last.
            some, others = tee((name, accepts(room.nodes[name], ask.worker_constraints)) for name in takers)
            both = list(islice((name for name, suits in some if suits), most))
            alone = list(islice((name for name, suits in others if not suits), most))
            groups += [(-count, -alike.idleness(), both), (0, -alike.idleness(), alone)]
        else:
            groups.append((-count, -alike.idleness(), list(islice(takers, most))))
    likeliest = sorted((rank, name, idleness) for rank, idleness, names in groups for name in names)[:most]
    likeliest.sort(key=itemgetter(0, 2, 1))
    return [name for _, name, _ in likeliest[:FIRST_NODES_TRIED]]


def _rigid_from(trial: Room, ask: Ask, first: str) -> dict[Slot, str] | None:
    """Return nodes for the rigid members, and take their room from ``trial``; None if one of them finds no node.

    Members go on the node ``first`` as far as they fit, and the others on the idlest node that takes them.
    """
    nodes: dict[Slot, str] = {}
    for slot, requests, constraints in ask.rigid:
        beside = _takes(trial, first, requests, constraints, ask)
        node = first if beside else idlest(trial, requests, constraints, ask.barred)
        if node is None:
            return None
        trial.take(node, requests)
        nodes[slot] = node
    return nodes


def _takes(trial: Room, name: str, requests: Resources, constraints: Constraints, ask: Ask) -> bool:
    return requests.fits(trial.free(name)) and name not in ask.barred and accepts(trial.nodes[name], constraints)


def _fill(counts: Mapping[str, int], workers: int, first: str) -> dict[Slot, str] | None:
    """Return nodes for the workers from index 0 on; None if there is too little room.

    ``counts`` says how many workers each node takes. The node ``first`` is filled first, then those that take the most;
    the last workers go on the node that takes the fewest but still all of them.
    """
    hosts = [first] * min(counts.get(first, 0), workers)
    others = sorted((name for name, count in counts.items() if count and name != first), key=lambda n: (-counts[n], n))
    while len(hosts) < workers:
        if not others:
            return None
        host, missing = others[0], workers - len(hosts)
        if counts[host] >= missing:
            host = min((name for name in others if counts[name] >= missing), key=lambda name: (counts[name], name))
        others.remove(host)
        hosts += [host] * min(counts[host], missing)
    return dict(zip(worker_slots(workers), hosts, strict=True))


def cross_node_pairs(nodes: Mapping[Slot, str]) -> int:
    """Return how many ps-worker pairs are on different nodes, so that their traffic crosses the network."""
    servers = [node for slot, node in nodes.items() if slot.role == PS]
    workers = [node for slot, node in nodes.items() if slot.role == WORKER]
    return sum(1 for server in servers for worker in workers if server != worker)

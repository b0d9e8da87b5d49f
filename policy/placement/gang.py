"""Place a whole gang or nothing; deterministic.

One node if one takes the whole gang: first one with room for the workers that may join later, else best fit (least idle
afterwards, then name). Otherwise as few nodes as possible, the ps with most of its workers. The operator removes the
highest worker index first, so low indices sit beside the ps and the highest on the last node: a shrink first frees what
costs most traffic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import islice
from operator import itemgetter

from policy.cluster.frozen import replace
from policy.cluster.kept import shared, until_job_changes
from policy.cluster.model import ANYWHERE, PS, WORKER, Constraints, Job, Node, Phase, Role, Slot, worker_slots
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import NOTHING, Resources, total
from policy.cluster.snapshot import Snapshot, demand, is_over, priority_of
from policy.cluster.words import in_words
from policy.placement.fit import accepts
from policy.placement.room import Alike, Room, idlest

FIRST_NODES_TRIED = 32


@dataclass(frozen=True)
class Ask:
    """What a gang asks for: each rigid member, and so many equal workers.

    ``barred``: nodes not to be used. ``later``: workers that may join once the gang runs; they get no room now.
    ``priority``: of its pods, the lowest; room that is promised to pods of lower priority is free to it.
    """

    rigid: tuple[tuple[Slot, Resources, Constraints], ...]
    worker: Resources
    worker_constraints: Constraints
    workers: int
    barred: frozenset[str] = frozenset()
    later: int = 0
    priority: int = 0

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        asked = (self.rigid, self.worker, self.worker_constraints, self.workers)
        return hash((*asked, self.barred, self.later, self.priority))

    @cached_property
    def whole(self) -> Resources:
        """The sum over all members."""
        return total(requests for _, requests, _ in self.rigid) + self.worker.times(self.workers)

    @property
    def least(self) -> Resources:
        """What one of its members asks for: where that finds no room, the gang finds none."""
        return self.worker if self.workers else self.rigid[0][1] if self.rigid else NOTHING

    @cached_property
    def constraints(self) -> frozenset[Constraints]:
        """What a node must satisfy to take every member."""
        return frozenset(
            [*(constraints for _, _, constraints in self.rigid), *([self.worker_constraints] if self.workers else ())]
        )

    @cached_property
    def text(self) -> str:
        """The sum in words, for a verdict's detail."""
        return in_words(self.whole)

    @cached_property
    def no_room(self) -> Verdict:
        """Why those wait that ask for this: the same object at each step, so that a thousand are compared at once."""
        return Verdict(Reason.NO_ROOM, self.text)

    def members(self) -> tuple[tuple[Slot, Resources, Constraints], ...]:
        """Return every member: the rigid ones, then the workers from index 0."""
        workers = worker_slots(self.workers)
        return (*self.rigid, *((slot, self.worker, self.worker_constraints) for slot in workers))


@until_job_changes
def ask_of(snapshot: Snapshot, job: Job, workers: int) -> Ask:
    """Return the demand of a job at ``workers`` workers: real pods' where they exist, else the template's."""
    # Nobody asks for members that are done. Where some workers are, the others keep their indices, as rigid members.
    done = done_slots(snapshot, job)
    slots, equal = job.slots(0), workers
    if not done.isdisjoint(worker_slots(workers)):
        slots, equal = job.slots(workers), 0
    return shared(snapshot, ask_for(snapshot, job, [slot for slot in slots if slot not in done], equal, workers))


def ask_for(snapshot: Snapshot, job: Job, rigid: Iterable[Slot], equal: int, workers: int) -> Ask:
    """Return the demand of these rigid members and of ``equal`` workers.

    ``workers``: how many workers the job has with them.
    """
    asked = tuple((slot, demand(job, slot, snapshot.member(job.uid, slot)), _constraints(job, slot)) for slot in rigid)
    constraints = _constraints(job, Slot(WORKER, 0))
    later = max(0, job.max_workers - workers) if job.elastic else 0
    refused, priority = barred(snapshot, job), priority_of(snapshot, job.uid)
    return Ask(asked, worker_demand(snapshot, job), constraints, equal, refused, later, priority)


def done_slots(snapshot: Snapshot, job: Job) -> frozenset[Slot]:
    """Return the slots of members that have succeeded, and those for which no pod will come again."""
    members, pods = snapshot.members.get(job.uid, {}), snapshot.pods
    over = (slot for slot in job.over if is_over(job, slot, snapshot.member(job.uid, slot)))
    return frozenset((*over, *(slot for slot, uid in members.items() if pods[uid].phase is Phase.SUCCEEDED)))


@until_job_changes
def worker_demand(snapshot: Snapshot, job: Job) -> Resources:
    """Return one worker's request: the largest among the real pods and the template, resource by resource."""
    role = job.worker
    return NOTHING if role is None else shared(snapshot, _role_demand(snapshot, job, role))


def _role_demand(snapshot: Snapshot, job: Job, role: Role) -> Resources:
    pods, asked = snapshot.pods, role.requests
    real = (pods[uid].requests for slot, uid in snapshot.members.get(job.uid, {}).items() if slot.role == role.name)
    return reduce(Resources.or_more, (requests for requests in real if requests.amounts != asked.amounts), asked)


def as_its_pods(snapshot: Snapshot, job: Job) -> Job:
    """Return the job with what a member of each role really asks for.

    That is the largest among the pods and the template, resource by resource.
    """
    asked = {role.name: _role_demand(snapshot, job, role) for role in job.roles}
    if all(asked[role.name] is role.requests for role in job.roles):
        return job
    return replace(job, roles=tuple(replace(role, requests=asked[role.name]) for role in job.roles))


def barred(snapshot: Snapshot, job: Job) -> frozenset[str]:
    """Return the nodes that kube-scheduler did not offer to this job lately."""
    return frozenset(node for uid, node in snapshot.not_offered if uid == job.uid)


def place(room: Room, ask: Ask) -> dict[Slot, str] | None:
    """Return a node for every member, or None. ``room`` is not changed."""
    misfits = room.misfits
    if ask in misfits:
        return None
    room = room.past(ask.priority)
    nodes = (_on_one_node(room, ask) or _on_few_nodes(room, ask)) if room.may_take(ask.least) else None
    if nodes is None:
        misfits.add(ask)
    return nodes


def fits(room: Room, ask: Ask) -> bool:
    """Tell whether ``place`` would find nodes; the best ones are not looked for, so this is faster."""
    room = room.past(ask.priority)
    if any(_first_to_take(room, alike, ask) for alike in room.alike(ask.whole)):
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
    """Tell whether the node accepts every member of the gang; room is not looked at."""
    return node.name not in ask.barred and all(accepts(node, constraints) for constraints in ask.constraints)


def _first_to_take(room: Room, alike: Alike, ask: Ask) -> str | None:
    """Return the first of these nodes that accepts every member of the gang."""
    return next((name for name in alike.names if takes_all(room.nodes[name], ask)), None)


def _on_one_node(room: Room, ask: Ask) -> dict[Slot, str] | None:
    whole = ask.whole
    fitting = [(_can_join(ask, alike), alike) for alike in room.alike(whole)]
    for most in sorted({count for count, _ in fitting}, reverse=True):
        roomiest = (alike for count, alike in fitting if count == most)
        named = ((_first_to_take(room, alike, ask), alike) for alike in roomiest)
        best = min(((alike.idleness(whole), name) for name, alike in named if name is not None), default=None)
        if best is not None:
            return {slot: best[1] for slot, _, _ in ask.members()}
    return None


def _can_join(ask: Ask, alike: Alike) -> int:
    """Return how many of the later workers would still fit beside the gang there.

    A worker far from its ps costs traffic.
    """
    return min(ask.later, ask.worker.how_many(alike.free - ask.whole)) if ask.later else 0


def _on_few_nodes(room: Room, ask: Ask) -> dict[Slot, str] | None:
    """Return the layout with the fewest nodes and the least traffic between them.

    A member alone has no other layout than those on one node, which were tried before.
    """
    if len(ask.rigid) + ask.workers == 1:
        return None
    return min(
        _layouts(room, ask),
        key=lambda layout: (len(set(layout.values())), cross_node_pairs(layout), sorted(layout.items())),
        default=None,
    )


def _layouts(room: Room, ask: Ask) -> Iterator[dict[Slot, str]]:
    """Yield one layout for each of the nodes that are the likeliest for the rigid members."""
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
    """Return how many workers each node takes; of nodes that take equally many only as many as a layout could use."""
    enough = ask.workers + len(ask.rigid) + 1
    by_count: dict[int, list[str]] = defaultdict(list)
    for count, alike in takers:
        by_count[count] += islice(_open(room, alike, ask.worker_constraints, ask), enough)
    return {name: count for count, names in by_count.items() for name in sorted(names)[:enough]}


def _open(room: Room, alike: Alike, constraints: Constraints, ask: Ask) -> Iterator[str]:
    """Return those of these nodes that accept such a member."""
    return (name for name in alike.names if name not in ask.barred and accepts(room.nodes[name], constraints))


def _first_nodes(room: Room, ask: Ask) -> list[str]:
    """Return the nodes that take the first rigid member and the most workers.

    Among the likeliest the idlest come first.
    """
    _, requests, constraints = ask.rigid[0] if ask.rigid else (None, ask.worker, ask.worker_constraints)
    most = 2 * FIRST_NODES_TRIED
    groups: list[tuple[int, float, list[str]]] = []
    for alike in room.alike(requests):
        count = ask.worker.how_many(alike.free) if ask.worker.fits(alike.free) else 0
        takers = _open(room, alike, constraints, ask)
        if count and constraints != ask.worker_constraints:
            # Workers may not be taken where the rigid member is.
            both, alone = _parted(takers, lambda name: accepts(room.nodes[name], ask.worker_constraints), most)
            groups += [(-count, -alike.idleness(), both), (0, -alike.idleness(), alone)]
        else:
            groups.append((-count, -alike.idleness(), list(islice(takers, most))))
    likeliest = sorted((rank, name, idleness) for rank, idleness, names in groups for name in names)[:most]
    likeliest.sort(key=itemgetter(0, 2, 1))
    return [name for _, name, _ in likeliest[:FIRST_NODES_TRIED]]


def _parted(names: Iterator[str], holds: Callable[[str], bool], most: int) -> tuple[list[str], list[str]]:
    """Return the first names for which ``holds`` is true and the first for which it is false.

    There are up to ``most`` of each.
    """
    parts: tuple[list[str], list[str]] = [], []
    for name in names:
        part = parts[not holds(name)]
        if len(part) < most:
            part.append(name)
        elif len(parts[0]) == len(parts[1]):
            break
    return parts


def _rigid_from(trial: Room, ask: Ask, first: str) -> dict[Slot, str] | None:
    """Place the rigid members on ``first`` as far as they fit, the others on the idlest node that takes them."""
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
    """Place workers from index 0: on ``first``, then on the nodes that take most.

    The last ones go to the tightest node that suffices.
    """
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
    """Return how many ps-worker pairs have their ends on different nodes: their traffic crosses the network."""
    servers = [node for slot, node in nodes.items() if slot.role == PS]
    workers = [node for slot, node in nodes.items() if slot.role == WORKER]
    return sum(1 for server in servers for worker in workers if server != worker)

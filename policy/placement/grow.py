"""Room for one more worker of a running job, and what a shrink gives back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from policy.cluster.gang import Gang
from policy.cluster.kept import grouped, until_emptied_room_changes
from policy.cluster.kinds import leaves
from policy.cluster.model import ANYWHERE, PS, WORKER, Job, Node, Phase, Slot, worker_slots
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.snapshot import Snapshot, demand, is_over
from policy.cluster.sortedgroups import GroupEntry
from policy.placement.fit import accepts
from policy.placement.gang import Ask, ask_of, barred, takes_all, worker_demand
from policy.placement.room import Room, idlest


class Where(Enum):
    """Which nodes a job may grow on.

    ``ANYWHERE``: every node with room. ``TOGETHER``: only nodes that host the job, if one node could hold all of it.
    ``HOSTS``: only nodes that host the job. ``SERVERS``: only those that host its ps (its members, if it has none).
    A remote worker adds less than a local one, and the room it takes is the next job's home.
    """

    ANYWHERE = "anywhere"
    TOGETHER = "together"
    HOSTS = "hosts"
    SERVERS = "servers"


class FreedRoom(NamedTuple):
    """Room that will be given back: its node, its size, and the uid of the pod that holds it, where there is one."""

    node: str
    requests: Resources
    pod_uid: str = ""


def freed_rooms(snapshot: Snapshot, job: Job, gang: Gang) -> Iterator[FreedRoom]:
    """Yield what the job's workers give back, in the order in which its operator removes them.

    That is from the highest index down to the minimum. A worker that has succeeded gives nothing: its room is free
    already.
    """
    members, pods = snapshot.members.get(job.uid, {}), snapshot.pods
    for slot in reversed(worker_slots(gang.workers)[job.min_workers :]):
        pod = pods.get(members.get(slot, ""))
        if pod is None or not pod.holds_room:
            gone = is_over(job, slot, pod) or (pod is not None and pod.phase is Phase.SUCCEEDED)
            yield FreedRoom(gang.nodes.get(slot, ""), NOTHING if gone else demand(job, slot, pod))
        else:
            yield FreedRoom(pod.node, pod.requests, pod.uid)


def leaving(snapshot: Snapshot) -> list[FreedRoom]:
    """Return the room of Kohort's own pods that are on their way out and that no job waits for yet."""
    claimed = {uid for job_uid in snapshot.index.freeing for uid in snapshot.gang(job_uid).waits_for}
    going = [
        pod
        for uid in snapshot.index.leaving
        for pod in snapshot.every_pod_of(uid)
        if pod.uid not in claimed and leaves(pod, snapshot.jobs.get(uid), snapshot.gang(uid))
    ]
    return [FreedRoom(pod.node, pod.requests, pod.uid) for pod in sorted(going, key=lambda pod: pod.uid)]


def could_be_together(snapshot: Snapshot, room: Room, job: Job) -> bool:
    """Tell whether some node, if it were empty, would hold the job at its maximum."""
    ask = ask_of(snapshot, job, job.max_workers)
    if room.nodes is snapshot.index.room.nodes:
        return _some_usable_node_holds(snapshot, ask)
    return _some_node_holds(room.nodes.values(), ask)


@until_emptied_room_changes
def _some_usable_node_holds(snapshot: Snapshot, ask: Ask) -> bool:
    return _some_node_holds(snapshot.index.room.nodes.values(), ask)


def _some_node_holds(nodes: Iterable[Node], ask: Ask) -> bool:
    return any(ask.whole.fits(node.allocatable) and takes_all(node, ask) for node in nodes)


def could_grow(snapshot: Snapshot, room: Room, job: Job, gang: Gang, where: Where) -> bool:
    """Tell whether ``grow`` may add a worker.

    Where it is false now it stays so while room is only taken. It costs little.
    """
    requests = worker_demand(snapshot, job)
    if any(room.takes(node, requests) for node in dict.fromkeys(gang.nodes.values())):
        return True
    if not _stays_home(snapshot, room, job, where) and room.takes_anywhere(requests):
        return True
    return snapshot.member(job.uid, Slot(WORKER, gang.workers)) is not None


ROAMING = ""  # not a node's name: may grow on any
LINGERING = None  # has a pod in the place of its next worker


def growers(snapshot: Snapshot, room: Room, where: Where) -> set[str]:
    """Return the uids of the growing jobs of which ``could_grow`` may be true.

    These are all that are near a node with room for a worker.
    """
    if room.nodes is not snapshot.index.room.nodes:
        # Some nodes are closed in this pass: what would be found out now is not to be remembered.
        return set(snapshot.index.growing)

    def by_demand(uid: str) -> tuple[GroupEntry, ...]:
        return ((worker_demand(snapshot, snapshot.jobs[uid]), (uid,)),)

    def by_node(uid: str) -> tuple[GroupEntry, ...]:
        job, gang = snapshot.jobs[uid], snapshot.gang(uid)
        home = gang.nodes.values() if _stays_home(snapshot, room, job, where) else (ROAMING,)
        there = snapshot.member(uid, Slot(WORKER, gang.workers)) is not None
        return tuple((group, (uid,)) for group in dict.fromkeys((*home, LINGERING) if there else home))

    near = grouped(snapshot, "growing", ("by node", where), by_node)
    found = {*near.uids(LINGERING)}
    for requests in grouped(snapshot, "growing", "by demand", by_demand).groups:
        for node in _open_among(room, near.groups, requests):  # type: ignore[arg-type]
            found.update(near.uids(node))
    return found


def _open_among(room: Room, homes: Mapping[Hashable, object], requests: Resources) -> Iterator[Hashable]:
    """Yield those of the homes that take the request.

    They are found from the side that has fewer nodes to look at.
    """
    kinds = list(room.alike(requests))
    if not kinds:
        return
    yield ROAMING
    if sum(alike.most for alike in kinds) < len(homes):
        yield from (name for alike in kinds for name in alike.names if name in homes)
    else:
        yield from (name for name in homes if isinstance(name, str) and room.takes(name, requests))


def _stays_home(snapshot: Snapshot, room: Room, job: Job, where: Where) -> bool:
    if where is Where.TOGETHER:
        return could_be_together(snapshot, room, job)
    return where is not Where.ANYWHERE


def grow(
    snapshot: Snapshot, room: Room, job: Job, gang: Gang, where: Where, most: int | None = None
) -> dict[Slot, str]:
    """Return nodes for more workers, as far as there is room, and take their room.

    The job gets no more than its maximum, and at most ``most`` more.
    """
    requests, added = worker_demand(snapshot, job), _still_there(snapshot, job, gang)
    target = job.max_workers if most is None else min(job.max_workers, gang.workers + most)
    home, refused = _stays_home(snapshot, room, job, where), barred(snapshot, job)
    constraints = job.worker.constraints if job.worker else ANYWHERE

    def takes(name: str) -> bool:
        return room.takes(name, requests) and name not in refused and accepts(room.nodes[name], constraints)

    while gang.workers + len(added) < target:
        near = _near({**gang.nodes, **added}, servers_alone=home and where is Where.SERVERS)
        node = _idlest_of(room, ([name for name in names if takes(name)] for names in near))
        if node is None and not home:
            node = idlest(room, requests, constraints, refused)
        if node is None:
            break
        added[Slot(WORKER, gang.workers + len(added))] = node
        room.take(node, requests)
    return added


def _near(nodes: Mapping[Slot, str], *, servers_alone: bool) -> tuple[set[str], ...]:
    """Return the ps's nodes, then those that host the job (KOD2, Algorithm 3)."""
    servers = {node for slot, node in nodes.items() if slot.role == PS}
    return (servers,) if servers and servers_alone else (servers, set(nodes.values()))


def _idlest_of(room: Room, groups: Iterable[list[str]]) -> str | None:
    """Return the idlest node of the first of these groups that has any."""
    names = next(filter(None, groups), [])
    return names[0] if len(names) == 1 else min(names, key=lambda name: (-room.idleness(name), name), default=None)


def _still_there(snapshot: Snapshot, job: Job, gang: Gang) -> dict[Slot, str]:
    """Return workers of an earlier shrink that have not gone yet.

    They stay where they are, and need no more room.
    """
    there: dict[Slot, str] = {}
    for index in range(gang.workers, job.max_workers):
        pod = snapshot.member(job.uid, Slot(WORKER, index))
        if pod is None or not pod.holds_room or pod.terminating or pod.node not in snapshot.nodes:
            break
        there[Slot(WORKER, index)] = pod.node
    return there

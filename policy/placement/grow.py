"""Nodes for more workers of a running job, and the room that a shrink gives back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from policy.cluster.constraints import ANYWHERE
from policy.cluster.gang import Gang
from policy.cluster.job import PS, WORKER, Job, Slot, worker_slots
from policy.cluster.kept import grouped, until_emptied_room_changes
from policy.cluster.kinds import leaves
from policy.cluster.node import Node
from policy.cluster.pod import Phase
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.snapshot import Snapshot, demand, is_over
from policy.cluster.sortedgroups import GroupEntry
from policy.placement.ask import Ask
from policy.placement.fit import accepts
from policy.placement.gang import ask_of, barred, takes_all, worker_demand
from policy.placement.room import Room, idlest


class Where(Enum):
    """Which nodes a job may grow on.

    ANYWHERE: every node with room.
    TOGETHER: only nodes that host members of the job, if one empty node could hold the job at its maximum; else every
    node with room.
    HOSTS: only nodes that host members of the job.
    SERVERS: only nodes that host the job's ps, or its members if it has no ps.

    The restrictions exist because a worker far from its ps adds less speed than a near one, and takes room on a node
    that could host the next job whole.
    """

    ANYWHERE = "anywhere"
    TOGETHER = "together"
    HOSTS = "hosts"
    SERVERS = "servers"


class FreedRoom(NamedTuple):
    """Room that will become free: its node, its amounts, and the uid of the pod that holds it (empty without a pod)."""

    node: str
    requests: Resources
    pod_uid: str = ""


def freed_rooms(snapshot: Snapshot, job: Job, gang: Gang) -> Iterator[FreedRoom]:
    """Yield the room of each worker that may be taken from the job, in the order in which its operator removes them.

    The worker with the highest index comes first, and workers of the minimum are left out. A worker that has succeeded
    gives no amounts, because its room is free already.
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
    """Return the room of Kohort's own pods that will soon be free and that no plan waits for yet, by pod uid."""
    claimed = {uid for job_uid in snapshot.index.freeing for uid in snapshot.gang(job_uid).waits_for}
    going = [
        pod
        for uid in snapshot.index.leaving
        for pod in snapshot.every_pod_of(uid)
        if pod.uid not in claimed and leaves(pod, snapshot.jobs.get(uid), snapshot.gang(uid))
    ]
    return [FreedRoom(pod.node, pod.requests, pod.uid) for pod in sorted(going, key=lambda pod: pod.uid)]


def could_be_together(snapshot: Snapshot, room: Room, job: Job) -> bool:
    """Tell whether some node of ``room``, if it were empty, could hold the job with all its workers at the maximum."""
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
    """Tell, by a cheap test, whether ``grow`` may find a node for one more worker of the job.

    A false result is certain, and stays so as long as no room becomes free.
    """
    requests = worker_demand(snapshot, job)
    if any(room.takes(node, requests) for node in dict.fromkeys(gang.nodes.values())):
        return True
    if not _stays_home(snapshot, room, job, where) and room.takes_anywhere(requests):
        return True
    return snapshot.member(job.uid, Slot(WORKER, gang.workers)) is not None


ROAMING = ""  # ROAMING is the key of the group of jobs that may grow on any node.
LINGERING = None  # LINGERING is the key of the group of jobs that still have a pod in the slot of their next worker.


def growers(snapshot: Snapshot, room: Room, where: Where) -> set[str]:
    """Return the uids of the jobs below their maximum for which ``could_grow`` may be true.

    These are the jobs that may grow on a node with room for one of their workers, or that still have a pod in the slot
    of their next worker. No other job can grow now.
    """
    if room.nodes is not snapshot.index.room.nodes:
        # ``room`` leaves out some nodes here, so answers about it must not be cached for the whole snapshot.
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
    """Yield the keys of ``homes`` (names of nodes on which jobs may grow) that have room for the request.

    ``ROAMING`` is yielded, too, if any node has room. The function goes through the nodes with enough room or through
    the keys, whichever are fewer.
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
    """Return the slots and nodes of workers that the job can get now, and take their room from ``room``.

    The job grows at most to its maximum, and by at most ``most`` workers if that is not None.
    """
    requests, added = worker_demand(snapshot, job), _still_there(snapshot, job, gang)
    target = job.max_workers if most is None else min(job.max_workers, gang.workers + most)
    home, refused = _stays_home(snapshot, room, job, where), barred(snapshot, job)
    constraints = job.worker.constraints if job.worker else ANYWHERE

    def next_node(shut: frozenset[str]) -> str | None:
        def takes(name: str) -> bool:
            return room.takes(name, requests) and name not in shut and accepts(room.nodes[name], constraints)

        near = _near({**gang.nodes, **added}, servers_alone=home and where is Where.SERVERS)
        node = _idlest_of(room, ([name for name in names if takes(name)] for names in near))
        return idlest(room, requests, constraints, shut) if node is None and not home else node

    while gang.workers + len(added) < target:
        node = next_node(refused | room.wary)
        if node is None and room.wary:
            node = next_node(refused)
        if node is None:
            break
        added[Slot(WORKER, gang.workers + len(added))] = node
        room.take(node, requests)
    return added


def _near(nodes: Mapping[Slot, str], *, servers_alone: bool) -> tuple[set[str], ...]:
    """Return the groups of nodes to try in order: the ps's nodes, then all that host the job (KOD2, Algorithm 3).

    If ``servers_alone`` is true and the job has ps, only the first group is returned.
    """
    servers = {node for slot, node in nodes.items() if slot.role == PS}
    return (servers,) if servers and servers_alone else (servers, set(nodes.values()))


def _idlest_of(room: Room, groups: Iterable[list[str]]) -> str | None:
    """Return the idlest node of the first group that is not empty; None if all are empty."""
    names = next(filter(None, groups), [])
    return names[0] if len(names) == 1 else min(names, key=lambda name: (-room.idleness(name), name), default=None)


def _still_there(snapshot: Snapshot, job: Job, gang: Gang) -> dict[Slot, str]:
    """Return the slots and nodes of the workers that a shrink has taken from the job but that still run.

    If the job grows again, these workers stay where they are, and need no further room.
    """
    there: dict[Slot, str] = {}
    for index in range(gang.workers, job.max_workers):
        pod = snapshot.member(job.uid, Slot(WORKER, index))
        if pod is None or not pod.holds_room or pod.terminating or pod.node not in snapshot.nodes:
            break
        there[Slot(WORKER, index)] = pod.node
    return there

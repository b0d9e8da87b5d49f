"""Which workers to take from running jobs so that a gang fits: all of the plan or nothing of it.

The order of the victims is the caller's; within a job the operator removes the highest index first, so only the last
workers can be taken. Victims are chosen by node, unless the caller does not want that: the gang should end on one node
wherever one can be cleared, because victims that are chosen without a look at nodes cost two thirds of the gain
(measured with DRAGON's Table 1).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

from policy.cluster.kept import until_job_changes
from policy.cluster.model import Slot
from policy.cluster.resources import Resources, total
from policy.cluster.snapshot import Snapshot
from policy.placement.gang import Ask, fits, place, takes_all
from policy.placement.grow import FreedRoom, freed_rooms
from policy.placement.room import Room

NOBODY = ""
FEW = 32  # removals, or twice the members: tried before all, for of a large cluster a gang wants few, and all are dear


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """What one victim can give back, in the order in which its operator removes workers.

    ``job_uid`` is ``NOBODY`` for the room of one pod that leaves anyway. ``freed``: what all of it leaves free, by
    node; it is asked of every victim for every gang.
    """

    job_uid: str
    rooms: tuple[FreedRoom, ...]
    freed: Mapping[str, Resources]

    @classmethod
    def of(cls, job_uid: str, rooms: tuple[FreedRoom, ...]) -> Reclaimable:
        """Return these removals with their sum by node."""
        freed = dict[str, Resources]()
        for node, requests, _ in rooms:
            freed[node] = freed[node] + requests if node in freed else requests
        return cls(job_uid, rooms, freed)

    def first(self, count: int) -> Reclaimable:
        """Return so many of the removals."""
        return self if count == len(self.rooms) else Reclaimable.of(self.job_uid, self.rooms[:count])


@dataclass(frozen=True, slots=True)
class Shrink:
    """How many workers each job gives, where the gang goes, the pods to wait for, and the room afterwards."""

    taken: Mapping[str, int]
    nodes: Mapping[Slot, str]
    waits_for: tuple[str, ...]
    room: Room


Order = Callable[[Sequence[Reclaimable]], list[int]]  # the removals in turn, each as the index of the victim it is from
Counts = dict[int, int]  # index of a victim -> removals


@until_job_changes
def reclaimable_of(snapshot: Snapshot, job_uid: str) -> Reclaimable:
    """Return all that the job can give as it stands."""
    return Reclaimable.of(job_uid, tuple(freed_rooms(snapshot, snapshot.jobs[job_uid], snapshot.gang(job_uid))))


def one_by_one(victims: Sequence[Reclaimable]) -> list[int]:
    """Return the victims in turn, all workers of one before those of the next."""
    return [index for index, victim in enumerate(victims) for _ in victim.rooms]


def plan_shrink(
    room: Room, ask: Ask, victims: Sequence[Reclaimable], order: Order = one_by_one, *, by_node: bool = True
) -> Shrink | None:
    """Return the fewest removals that let the gang in, on one node if that can be; None if all do not suffice.

    Not ``by_node``: take as many in ``order`` as are needed, wherever they are.
    """
    kept = _on_one_node(room, ask, victims, order) if by_node else None
    kept = _on_several(room, ask, victims, order) if kept is None else kept
    left = _given(room, kept or ())
    nodes = place(left, ask) if kept is not None else None
    if kept is None or nodes is None:
        return None
    taken = {victim.job_uid: len(victim.rooms) for victim in kept if victim.job_uid != NOBODY and victim.rooms}
    pods = tuple(sorted(freed_room.pod_uid for victim in kept for freed_room in victim.rooms if freed_room.pod_uid))
    return Shrink(taken, nodes, pods, left)


def _given(room: Room, victims: Sequence[Reclaimable]) -> Room:
    trial, freed = room.branch(), dict[str, Resources]()
    for victim in victims:
        for node, given in victim.freed.items():
            freed[node] = freed[node] + given if node in freed else given
    for node, given in freed.items():
        trial.give(node, given)
    return trial


def _removals(victims: Sequence[Reclaimable]) -> int:
    return sum(len(victim.rooms) for victim in victims if victim.job_uid != NOBODY)


# -- one node ------------------------------------------------------------------------------------


def _on_one_node(room: Room, ask: Ask, victims: Sequence[Reclaimable], order: Order) -> list[Reclaimable] | None:
    """Return the plan with the fewest removals; among equals the one that takes from the first of the victims."""
    if not any(ask.whole.fits(node.allocatable) for node in room.nodes.values()):
        return None
    rank = {victim.job_uid: place for place, victim in enumerate(victims)}
    here, freed, firsts = dict[str, list[Reclaimable]](), dict[str, Resources](), dict[str, int]()
    for victim in victims:
        place = rank[victim.job_uid]
        for host, given in victim.freed.items():
            if host in here:
                here[host].append(victim)
                freed[host], firsts[host] = freed[host] + given, min(firsts[host], place)
            else:
                here[host], freed[host], firsts[host] = [victim], given, place
    best: tuple[int, list[int], str, list[Reclaimable]] | None = None
    for first, host in sorted((place, host) for host, place in firsts.items()):
        if best is None or _may_be_better(room, ask, here[host], host, (first, host), best):
            if not ask.whole.fits_both(room.free(host), freed[host]):
                continue
            plan = _clear(room, ask, here[host], order, host)
            if plan is not None:
                judged = (_removals(plan), [rank[victim.job_uid] for victim in plan], host, plan)
                best = judged if best is None or judged[:3] < best[:3] else best
    return best[3] if best is not None else None


def _rooms_at(host: str, victims: Sequence[Reclaimable]) -> list[FreedRoom]:
    return [freed_room for victim in victims for freed_room in victim.rooms if freed_room.node == host]


def _may_be_better(
    room: Room, ask: Ask, victims: Sequence[Reclaimable], host: str, first: tuple[int, str], best: tuple[Any, ...]
) -> bool:
    """Tell whether clearing ``host`` may take fewer workers than ``best``, or as many from earlier victims.

    It costs little.
    """
    if ask.whole.fits(room.free(host)):
        return True
    removals, ranks = best[:2]
    least: float = 0 if any(victim.job_uid == NOBODY for victim in victims) else 1
    if least and removals > 1:
        least = _least_removals(room, ask, _rooms_at(host, victims), host)
    return least < removals or (least == removals and (not ranks or first[0] <= ranks[0]))


def _least_removals(room: Room, ask: Ask, rooms: Sequence[FreedRoom], host: str) -> float:
    """Return a lower bound of the removals that make room there: as if each gave the most that any of them gives."""
    most = reduce(Resources.or_more, (freed_room.requests for freed_room in rooms))
    short = ask.whole.shortfall(room.free(host)).amounts
    return max(
        (math.ceil(amount / most[name]) if most[name] else math.inf for name, amount in short.items()), default=0
    )


def _clear(room: Room, ask: Ask, victims: Sequence[Reclaimable], order: Order, host: str) -> list[Reclaimable] | None:
    """Take from each victim down to its last worker there, until the gang fits on ``host``; give back what is over."""
    if host not in room.nodes or not ask.whole.fits(room.nodes[host].allocatable):
        return None
    if not takes_all(room.nodes[host], ask):
        return None
    whole, counts = ask.whole, Counts()
    useful = {
        index: 1 + max(place for place, freed_room in enumerate(victim.rooms) if freed_room.node == host)
        for index, victim in enumerate(victims)
    }
    if not whole.fits(_free_there(room, victims, useful, host)):
        return None
    turns = order(victims)
    for index in turns:
        if counts.get(index) == useful[index]:
            continue
        if whole.fits(_free_there(room, victims, counts, host)):
            break
        counts[index] = counts.get(index, 0) + 1
    free = _free_there(room, victims, counts, host)

    def spares(freed_room: FreedRoom) -> bool:
        nonlocal free
        less = free - freed_room.requests if freed_room.node == host else free
        enough = whole.fits(less)
        free = less if enough else free
        return enough

    return _cut(victims, _least(victims, counts, turns, spares))


def _least(
    victims: Sequence[Reclaimable], counts: Counts, turns: Sequence[int], spares: Callable[[FreedRoom], bool]
) -> Counts:
    """Give back each worker whose return leaves room enough, from the last turn on, and return what is left.

    ``spares``: whether the return of that room leaves enough; if so, it counts as given back from then on.
    """
    left, needed = dict(counts), set[int]()
    for index in reversed(turns):
        if left.get(index) and index not in needed:
            if spares(victims[index].rooms[left[index] - 1]):
                left[index] -= 1
            else:
                needed.add(index)
    return left


def _free_there(room: Room, victims: Sequence[Reclaimable], counts: Counts, host: str) -> Resources:
    taken = (freed_room for index, count in counts.items() for freed_room in victims[index].rooms[:count])
    return room.free(host) + total([freed_room.requests for freed_room in taken if freed_room.node == host])


def _cut(victims: Sequence[Reclaimable], counts: Counts) -> list[Reclaimable]:
    """Return what is taken of each victim, in their order."""
    return [victims[index].first(count) for index, count in sorted(counts.items()) if count]


# -- several nodes -------------------------------------------------------------------------------


def _on_several(room: Room, ask: Ask, victims: Sequence[Reclaimable], order: Order) -> list[Reclaimable] | None:
    """Return the shortest run of removals, in the victims' order, after which the gang fits, less needless ones."""
    turns = order(victims)

    @cache
    def suffices(length: int) -> bool:
        return fits(_given(room, _cut(victims, Counter(turns[:length]))), ask)

    low, high = 0, min(max(FEW, 2 * (len(ask.rigid) + ask.workers)), len(turns))
    if not suffices(high) and not suffices(len(turns)):
        return None
    while not suffices(high):
        low, high = high + 1, min(2 * high, len(turns))
    while low < high:
        middle = (low + high) // 2
        if suffices(middle):
            high = middle
        else:
            low = middle + 1
    counts = Counter(turns[:high])
    given = _given(room, _cut(victims, counts))

    def spares(freed_room: FreedRoom) -> bool:
        nonlocal given
        less = given.branch()
        less.take(freed_room.node, freed_room.requests)
        enough = fits(less, ask)
        given = less if enough else given
        return enough

    return _cut(victims, _least(victims, counts, turns[:high], spares))

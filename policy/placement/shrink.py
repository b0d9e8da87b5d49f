"""Which workers to take from running jobs (victims) so that a gang fits.

The caller gives the order of the victims. Within a job only the last workers can be taken, because the operator removes
the highest index first. If a node can be cleared for the whole gang, workers are taken from that node, unless the
caller asks otherwise. The choice by node matters: without it, two thirds of DRAGON's gain were lost on the jobs of its
paper's Table 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

from policy.cluster.job import Slot
from policy.cluster.kept import until_job_changes
from policy.cluster.resources import Resources, total
from policy.cluster.snapshot import Snapshot
from policy.placement.ask import Ask
from policy.placement.gang import fits, place, takes_all
from policy.placement.grow import FreedRoom, freed_rooms
from policy.placement.room import Room

NOBODY = ""
# At first FEW removals are tried (or twice the gang's members, if that is more), because few gangs need more.
FEW = 32


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """The workers that can be taken from one victim, as the room that each gives back.

    job_uid: uid of the job; ``NOBODY`` for the room of a pod that leaves anyway.
    rooms: the room of each worker, in the order in which the operator removes them (a removal each).
    freed: the sum of that room by node, kept here because it is needed for every gang.
    """

    job_uid: str
    rooms: tuple[FreedRoom, ...]
    freed: Mapping[str, Resources]

    @classmethod
    def of(cls, job_uid: str, rooms: tuple[FreedRoom, ...]) -> Reclaimable:
        """Return the Reclaimable of the job with these removals, and compute their sum by node."""
        freed = dict[str, Resources]()
        for node, requests, _ in rooms:
            freed[node] = freed[node] + requests if node in freed else requests
        return cls(job_uid, rooms, freed)

    def first(self, count: int) -> Reclaimable:
        """Return a Reclaimable of the same job with only the first ``count`` removals."""
        return self if count == len(self.rooms) else Reclaimable.of(self.job_uid, self.rooms[:count])


@dataclass(frozen=True, slots=True)
class Shrink:
    """A plan to let a gang in by taking workers from other jobs.

    taken: how many workers each job gives (job uid -> number). nodes: the node of each slot of the gang.
    waits_for: sorted uids of the pods that must be gone first. room: the free room once they are gone and before the
    gang is charged.
    """

    taken: Mapping[str, int]
    nodes: Mapping[Slot, str]
    waits_for: tuple[str, ...]
    room: Room


# An Order function returns all removals in order, each as the index of the victim that gives the worker.
Order = Callable[[Sequence[Reclaimable]], list[int]]
Counts = dict[int, int]  # Counts maps the index of a victim to the number of workers that are taken from it.


@until_job_changes
def reclaimable_of(snapshot: Snapshot, job_uid: str) -> Reclaimable:
    """Return all workers that can be taken from the job now."""
    return Reclaimable.of(job_uid, tuple(freed_rooms(snapshot, snapshot.jobs[job_uid], snapshot.gang(job_uid))))


def one_by_one(victims: Sequence[Reclaimable]) -> list[int]:
    """Return the removals in the order that takes all workers of one victim before those of the next (an ``Order``)."""
    return [index for index, victim in enumerate(victims) for _ in victim.rooms]


def plan_shrink(
    room: Room, ask: Ask, victims: Sequence[Reclaimable], order: Order = one_by_one, *, by_node: bool = True
) -> Shrink | None:
    """Return a plan to let the gang in by removing few workers; None if removing all that can be taken is not enough.

    ``victims`` are in the caller's order of preference, and ``order`` says in which order their workers are taken. If
    ``by_node`` is true and a node can be cleared for the whole gang, the plan clears the node that needs the fewest
    removals. Otherwise workers are taken in ``order``, whatever their nodes, until the gang fits.
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


# -- The functions below clear one node for the whole gang. ---------------------------------------


def _on_one_node(room: Room, ask: Ask, victims: Sequence[Reclaimable], order: Order) -> list[Reclaimable] | None:
    """Return what is taken from each victim to clear one node for the gang; None if no node can be cleared.

    The node that needs the fewest removals is cleared, and among equals the one whose victims come first.
    """
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
    """Tell whether ``host`` may be cleared with fewer removals than the best node, or as many from earlier victims.

    This is a cheap estimate before ``_clear``. ``victims`` are those with workers on ``host``. ``first`` has the place
    of the earliest of them. ``best`` has the removals, the victims' places, the name and the plan of the best node so
    far.
    """
    if ask.whole.fits(room.free(host)):
        return True
    removals, ranks = best[:2]
    least: float = 0 if any(victim.job_uid == NOBODY for victim in victims) else 1
    if least and removals > 1:
        least = _least_removals(room, ask, _rooms_at(host, victims), host)
    return least < removals or (least == removals and (not ranks or first[0] <= ranks[0]))


def _least_removals(room: Room, ask: Ask, rooms: Sequence[FreedRoom], host: str) -> float:
    """Return a lower bound of the number of removals that clear ``host`` for the gang; ``rooms`` is what each gives.

    The bound assumes that every removal gives, of each resource, as much as the largest one.
    """
    most = reduce(Resources.or_more, (freed_room.requests for freed_room in rooms))
    short = ask.whole.shortfall(room.free(host)).amounts
    return max(
        (math.ceil(amount / most[name]) if most[name] else math.inf for name, amount in short.items()), default=0
    )


def _clear(room: Room, ask: Ask, victims: Sequence[Reclaimable], order: Order, host: str) -> list[Reclaimable] | None:
    """Return what is taken from each victim so that the gang fits on ``host``; None if it cannot fit there.

    Workers are taken in ``order``, but none from a victim whose workers on ``host`` are all taken. Workers that turn
    out not to be needed are given back.
    """
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
    """Return how many workers must be taken from each victim, after giving back those that are not needed.

    The workers are tried from the last one in ``turns`` to the first. ``spares`` tells whether the gang still fits if
    the room of one worker is given back; if so, ``spares`` counts that room as given back in later calls.
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
    """Return what is taken from each victim if these numbers of workers are taken, in the victims' order."""
    return [victims[index].first(count) for index, count in sorted(counts.items()) if count]


# -- The function below frees room for the gang on several nodes. ----------------------------------


def _on_several(room: Room, ask: Ask, victims: Sequence[Reclaimable], order: Order) -> list[Reclaimable] | None:
    """Return what is taken from each victim so that the gang fits, on any nodes; None if all removals do not suffice.

    Workers are taken in ``order`` until the gang fits. Those that turn out not to be needed are then given back.
    """
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

"""Which workers to take from running jobs so that a gang fits: all of the plan or nothing of it.

The order of the victims is the caller's; within a job the operator removes the highest index first, so only a prefix
of its workers can be taken. Victims are chosen by node, unless the caller wants them blind: the gang should end on one
node wherever one can be cleared (finding 4 of the study: blind victims cost two thirds of the gain).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

from policy.cluster.kept import until_job_changes
from policy.cluster.model import Job, Slot
from policy.cluster.resources import Resources, total
from policy.cluster.snapshot import Snapshot
from policy.placement.gang import Ask, fits, place, takes_all
from policy.placement.grow import Shed, sheds
from policy.placement.room import Room

NOBODY = ""
FEW = 32  # removals, or twice the members: tried before all, for of a large cluster a gang wants few, and all are dear


@dataclass(frozen=True, slots=True)
class Offer:
    """What one victim can give, in its operator's order. ``NOBODY``: one pod that leaves anyway.

    ``freed``: what all of it leaves free, by node; asked of every victim for every gang.
    """

    job_uid: str
    sheds: tuple[Shed, ...]
    freed: Mapping[str, Resources]

    @classmethod
    def of(cls, job_uid: str, sheds: tuple[Shed, ...]) -> Offer:
        """These removals."""
        freed = dict[str, Resources]()
        for node, requests, _ in sheds:
            freed[node] = freed[node] + requests if node in freed else requests
        return cls(job_uid, sheds, freed)

    def first(self, count: int) -> Offer:
        """So many of the removals."""
        return self if count == len(self.sheds) else Offer.of(self.job_uid, self.sheds[:count])


@dataclass(frozen=True, slots=True)
class Shrink:
    """How many workers each job gives, where the gang goes, the pods to wait for, and the room afterwards."""

    taken: Mapping[str, int]
    nodes: Mapping[Slot, str]
    waits_for: tuple[str, ...]
    room: Room


Order = Callable[[Sequence[Offer]], list[int]]  # the removals in turn, each as the index of the offer it is from
Counts = dict[int, int]  # index of an offer -> removals


@until_job_changes
def offer_of(snapshot: Snapshot, job: Job) -> Offer:
    """Return all that the job can give as it stands."""
    return Offer.of(job.uid, tuple(sheds(snapshot, job, snapshot.gang(job.uid))))


def one_by_one(offers: Sequence[Offer]) -> list[int]:
    """All of a victim's workers before the next victim's."""
    return [index for index, offer in enumerate(offers) for _ in offer.sheds]


def plan_shrink(
    room: Room, ask: Ask, offers: Sequence[Offer], order: Order = one_by_one, *, by_node: bool = True
) -> Shrink | None:
    """The fewest removals that let the gang in on one node, else over several; None if all together do not suffice.

    Not ``by_node``: as many in ``order`` as it takes, wherever they are.
    """
    kept = _on_one_node(room, ask, offers, order) if by_node else None
    kept = _on_several(room, ask, offers, order) if kept is None else kept
    left = _given(room, kept or ())
    nodes = place(left, ask) if kept is not None else None
    if kept is None or nodes is None:
        return None
    taken = {offer.job_uid: len(offer.sheds) for offer in kept if offer.job_uid != NOBODY and offer.sheds}
    pods = tuple(sorted(shed.pod_uid for offer in kept for shed in offer.sheds if shed.pod_uid))
    return Shrink(taken, nodes, pods, left)


def _given(room: Room, offers: Sequence[Offer]) -> Room:
    trial, freed = room.branch(), dict[str, Resources]()
    for offer in offers:
        for node, given in offer.freed.items():
            freed[node] = freed[node] + given if node in freed else given
    for node, given in freed.items():
        trial.give(node, given)
    return trial


def _removals(offers: Sequence[Offer]) -> int:
    return sum(len(offer.sheds) for offer in offers if offer.job_uid != NOBODY)


# -- one node ------------------------------------------------------------------------------------


def _on_one_node(room: Room, ask: Ask, offers: Sequence[Offer], order: Order) -> list[Offer] | None:
    """The plan with the fewest removals, and among those the one that takes from the first of the victims."""
    if not any(ask.whole.fits(node.allocatable) for node in room.nodes.values()):
        return None
    rank = {offer.job_uid: place for place, offer in enumerate(offers)}
    here, freed, firsts = dict[str, list[Offer]](), dict[str, Resources](), dict[str, int]()
    for offer in offers:
        place = rank[offer.job_uid]
        for host, given in offer.freed.items():
            if host in here:
                here[host].append(offer)
                freed[host], firsts[host] = freed[host] + given, min(firsts[host], place)
            else:
                here[host], freed[host], firsts[host] = [offer], given, place
    best: tuple[int, list[int], str, list[Offer]] | None = None
    for first, host in sorted((place, host) for host, place in firsts.items()):
        if best is None or _may_be_better(room, ask, here[host], host, (first, host), best):
            if not ask.whole.fits_both(room.free(host), freed[host]):
                continue
            plan = _clear(room, ask, here[host], order, host)
            if plan is not None:
                judged = (_removals(plan), [rank[offer.job_uid] for offer in plan], host, plan)
                best = judged if best is None or judged[:3] < best[:3] else best
    return best[3] if best is not None else None


def _sheds_at(host: str, offers: Sequence[Offer]) -> list[Shed]:
    return [shed for offer in offers for shed in offer.sheds if shed.node == host]


def _may_be_better(
    room: Room, ask: Ask, offers: Sequence[Offer], host: str, first: tuple[int, str], best: tuple[Any, ...]
) -> bool:
    """Whether clearing ``host`` may take fewer workers than ``best``, or as many from earlier victims. Cheap."""
    if ask.whole.fits(room.free(host)):
        return True
    removals, ranks = best[:2]
    least: float = 0 if any(offer.job_uid == NOBODY for offer in offers) else 1
    if least and removals > 1:
        least = _least_removals(room, ask, _sheds_at(host, offers), host)
    return least < removals or (least == removals and (not ranks or first[0] <= ranks[0]))


def _least_removals(room: Room, ask: Ask, sheds: Sequence[Shed], host: str) -> float:
    """No fewer workers than this can make room there: as if each gave the most that any of them gives."""
    most = reduce(Resources.or_more, (shed.requests for shed in sheds))
    short = ask.whole.shortfall(room.free(host)).amounts
    return max(
        (math.ceil(amount / most[name]) if most[name] else math.inf for name, amount in short.items()), default=0
    )


def _clear(room: Room, ask: Ask, offers: Sequence[Offer], order: Order, host: str) -> list[Offer] | None:
    """Take from each victim down to its last worker there, until the gang fits on ``host``; give back what is over."""
    if host not in room.nodes or not ask.whole.fits(room.nodes[host].allocatable):
        return None
    if not takes_all(room.nodes[host], ask):
        return None
    whole, counts = ask.whole, Counts()
    useful = {
        index: 1 + max(place for place, shed in enumerate(offer.sheds) if shed.node == host)
        for index, offer in enumerate(offers)
    }
    if not whole.fits(_free_there(room, offers, useful, host)):
        return None
    turns = order(offers)
    for index in turns:
        if counts.get(index) == useful[index]:
            continue
        if whole.fits(_free_there(room, offers, counts, host)):
            break
        counts[index] = counts.get(index, 0) + 1
    free = _free_there(room, offers, counts, host)

    def spares(shed: Shed) -> bool:
        nonlocal free
        less = free - shed.requests if shed.node == host else free
        enough = whole.fits(less)
        free = less if enough else free
        return enough

    return _cut(offers, _least(offers, counts, turns, spares))


def _least(offers: Sequence[Offer], counts: Counts, turns: Sequence[int], spares: Callable[[Shed], bool]) -> Counts:
    """Without needless removals: from the last turn on, give back each worker whose return leaves room enough.

    ``spares``: whether it does; if so, it is given back from then on.
    """
    left, needed = dict(counts), set[int]()
    for index in reversed(turns):
        if left.get(index) and index not in needed:
            if spares(offers[index].sheds[left[index] - 1]):
                left[index] -= 1
            else:
                needed.add(index)
    return left


def _free_there(room: Room, offers: Sequence[Offer], counts: Counts, host: str) -> Resources:
    freed = [
        shed.requests for index, count in counts.items() for shed in offers[index].sheds[:count] if shed.node == host
    ]
    return room.free(host) + total(freed)


def _cut(offers: Sequence[Offer], counts: Counts) -> list[Offer]:
    """What is taken of each, in their order."""
    return [offers[index].first(count) for index, count in sorted(counts.items()) if count]


# -- several nodes -------------------------------------------------------------------------------


def _on_several(room: Room, ask: Ask, offers: Sequence[Offer], order: Order) -> list[Offer] | None:
    """The shortest run of removals, in the victims' order, after which the gang fits; then without needless ones."""
    turns = order(offers)

    @cache
    def suffices(length: int) -> bool:
        return fits(_given(room, _cut(offers, Counter(turns[:length]))), ask)

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
    given = _given(room, _cut(offers, counts))

    def spares(shed: Shed) -> bool:
        nonlocal given
        less = given.branch()
        less.take(shed.node, shed.requests)
        enough = fits(less, ask)
        given = less if enough else given
        return enough

    return _cut(offers, _least(offers, counts, turns[:high], spares))

"""Which workers to take from running jobs so that a gang fits: all of the plan or nothing of it.

The order of the victims is the caller's; within a job the operator removes the highest index first, so only a prefix
of its workers can be taken. Victims are chosen by node: the gang should end on one node wherever one can be cleared
(finding 4 of the study: blind victims cost two thirds of the gain).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from policy.cluster.model import Slot
from policy.cluster.resources import Resources, total
from policy.placement.gang import Ask, fits, place, takes_all
from policy.placement.grow import Shed
from policy.placement.room import Room

NOBODY = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """What one victim can give, in its operator's order. ``NOBODY``: one pod that leaves anyway."""

    job_uid: str
    sheds: tuple[Shed, ...]


@dataclass(frozen=True, slots=True)
class Shrink:
    """How many workers each job gives, where the gang goes, the pods to wait for, and the room afterwards."""

    taken: Mapping[str, int]
    nodes: Mapping[Slot, str]
    waits_for: tuple[str, ...]
    room: Room


def plan_shrink(room: Room, ask: Ask, offers: Sequence[Offer]) -> Shrink | None:
    """The fewest removals that let the gang in on one node, else over several; None if all together do not suffice."""
    if not fits(_given(room, offers), ask):
        return None
    kept = _on_one_node(room, ask, offers) or _on_several(room, ask, offers)
    nodes = place(_given(room, kept), ask)
    if nodes is None:
        return None
    taken = {offer.job_uid: len(offer.sheds) for offer in kept if offer.job_uid != NOBODY and offer.sheds}
    pods = tuple(sorted(shed.pod_uid for offer in kept for shed in offer.sheds if shed.pod_uid))
    return Shrink(taken, nodes, pods, _given(room, kept))


def _given(room: Room, offers: Sequence[Offer]) -> Room:
    trial = room.branch()
    for offer in offers:
        for shed in offer.sheds:
            trial.give(shed.node, shed.requests)
    return trial


def _removals(offers: Sequence[Offer]) -> int:
    return sum(len(offer.sheds) for offer in offers if offer.job_uid != NOBODY)


# -- one node ------------------------------------------------------------------------------------


def _on_one_node(room: Room, ask: Ask, offers: Sequence[Offer]) -> list[Offer] | None:
    here: dict[str, list[Offer]] = defaultdict(list)
    for offer in offers:
        for host in dict.fromkeys(shed.node for shed in offer.sheds):
            here[host].append(offer)
    plans = [plan for host in sorted(here) if (plan := _clear(room, ask, here[host], host)) is not None]
    rank = {offer.job_uid: place for place, offer in enumerate(offers)}
    return min(plans, key=lambda plan: (_removals(plan), [rank[offer.job_uid] for offer in plan]), default=None)


def _clear(room: Room, ask: Ask, offers: Sequence[Offer], host: str) -> list[Offer] | None:
    """Take from each victim down to its last worker there, until the gang fits on ``host``; give back what is over."""
    if host not in room.nodes or not takes_all(room.nodes[host], ask):
        return None
    whole, counts = ask.whole, [0] * len(offers)
    for index, offer in enumerate(offers):
        useful = 1 + max(place for place, shed in enumerate(offer.sheds) if shed.node == host)
        while counts[index] < useful and not _fits_there(room, offers, counts, host, whole):
            counts[index] += 1
    if not _fits_there(room, offers, counts, host, whole):
        return None
    for index in reversed(range(len(offers))):
        while counts[index]:
            counts[index] -= 1
            if not _fits_there(room, offers, counts, host, whole):
                counts[index] += 1
                break
    return _cut(offers, counts)


def _fits_there(room: Room, offers: Sequence[Offer], counts: Sequence[int], host: str, whole: Resources) -> bool:
    freed = [
        shed.requests
        for offer, count in zip(offers, counts, strict=True)
        for shed in offer.sheds[:count]
        if shed.node == host
    ]
    return whole.fits(room.free(host) + total(freed))


def _cut(offers: Sequence[Offer], counts: Sequence[int]) -> list[Offer]:
    return [Offer(offer.job_uid, offer.sheds[:count]) for offer, count in zip(offers, counts, strict=True) if count]


# -- several nodes -------------------------------------------------------------------------------


def _on_several(room: Room, ask: Ask, offers: Sequence[Offer]) -> list[Offer]:
    """The shortest run of removals, in the victims' order, after which the gang fits; then without needless ones."""
    order = [index for index, offer in enumerate(offers) for _ in offer.sheds]
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        if _fits(room, ask, offers, _counted(offers, order[:middle])):
            high = middle
        else:
            low = middle + 1
    return _cut(offers, _minimal(room, ask, offers, _counted(offers, order[:high])))


def _counted(offers: Sequence[Offer], order: Sequence[int]) -> list[int]:
    counts = [0] * len(offers)
    for index in order:
        counts[index] += 1
    return counts


def _fits(room: Room, ask: Ask, offers: Sequence[Offer], counts: Sequence[int]) -> bool:
    return fits(_given(room, _cut(offers, counts)), ask)


def _minimal(room: Room, ask: Ask, offers: Sequence[Offer], counts: list[int]) -> list[int]:
    """From the last victim on: give back each worker whose return still leaves room for the gang."""
    for index in reversed(range(len(offers))):
        while counts[index]:
            fewer = [count - (place == index) for place, count in enumerate(counts)]
            if not _fits(room, ask, offers, fewer):
                break
            counts = fewer
    return counts

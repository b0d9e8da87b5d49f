"""Pods of other schedulers that have a lower priority than a gang and hold room that it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from policy.cluster.pod import Pod
from policy.cluster.snapshot import Snapshot
from policy.cluster.words import listed
from policy.placement.ask import Ask
from policy.placement.binding import OTHERS, lift, needed_of
from policy.placement.gang import fits
from policy.placement.holders import Holders
from policy.placement.room import Room

MOST_NAMED: Final = 3


def outranked_in_words(snapshot: Snapshot, job_uid: str, ask: Ask) -> Iterator[str]:
    """Yield a sentence that names the pods of lower priority for which the gang waits, because Kohort does not preempt
    them.

    They are pods of other schedulers, bound and not terminating, without which the gang would fit. If the gang would
    not fit without them alone, they are those that must go beside other holders of room.
    """
    found = (
        pod for pod in snapshot.pods.values()
        if not pod.opted_in and pod.holds_room and not pod.terminating and pod.priority < ask.priority
    )  # fmt: skip
    lower = sorted(found, key=lambda pod: (pod.priority, pod.key))
    if not lower:
        return
    if alone := _needed(Room.of(snapshot), ask, lower):
        yield (
            f"it would fit without pods of other schedulers that have a lower priority ({_names(alone)}), "
            "which Kohort does not preempt"
        )
    elif beside := _beside_others(snapshot, job_uid, ask, lower):
        yield (
            f"pods of other schedulers that have a lower priority ({_names(beside)}) hold a part of the room, "
            "and Kohort does not preempt them"
        )


def _beside_others(snapshot: Snapshot, job_uid: str, ask: Ask, lower: Sequence[Pod]) -> Sequence[Pod]:
    """Return the pods among ``lower`` that must go although every other constraint that binds the gang were lifted."""
    holders = Holders(snapshot, job_uid)
    found = holders.binding(ask)
    if found is None or OTHERS not in found.names:
        return ()
    room = holders.without(frozenset(found.names)).branch()
    for pod in lower:
        room.take(pod.node, pod.requests)
    return _needed(room, lift(ask, found.names), lower)


def _needed(room: Room, ask: Ask, pods: Sequence[Pod]) -> Sequence[Pod]:
    """Return a smallest part of the pods without which the gang fits into the room; empty if it does not fit without
    any of them, or fits with all of them.
    """
    here = [pod for pod in pods if pod.node in room.nodes]

    def enough(some: Sequence[Pod]) -> bool:
        without = room.branch()
        for pod in some:
            without.give(pod.node, pod.requests)
        return fits(without, ask)

    return needed_of(here, enough)


def _names(pods: Sequence[Pod]) -> str:
    return listed(sorted(pod.key for pod in pods), MOST_NAMED)

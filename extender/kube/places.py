"""Assigns slots to pods that have no index of their own: one slot a pod, and the same slot that its binding
recorded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from extender.kube.family import Family
from policy.cluster.model import WORKER, Slot


def allot(family: Family, count: int) -> None:
    """Assign a slot to each pod of a job whose pods have no index: 0 to ``count`` - 1 once there are at most ``count``
    pods.
    """
    live = family.live()
    settle(family, live, dict.fromkeys(live, WORKER), {WORKER: count})
    if len(live) <= count:
        close_gaps(family, live, WORKER, count)


def settle(family: Family, uids: list[str], roles: Mapping[str, str], counts: Mapping[str, int]) -> None:
    """Assign a slot to each pod that has none: the slot in which it was bound, else the first that is free.

    A pod that holds a slot in which another was bound gives it up, as it would after a restart. A pod that was moved
    out of one of the first ``counts`` slots of its role gets that slot back where the pod that had taken it is gone.
    """
    wanted = {uid: wish for uid in uids if (wish := _bears(family, uid)) is not None and wish.role == roles[uid]}
    taken = {slot: uid for uid in uids if (slot := family.places.get(uid)) is not None}
    homeless = deque(
        uid
        for uid in uids
        if uid not in family.places or (uid in wanted and wanted[uid].index < counts.get(roles[uid], 0))
    )
    while homeless:
        uid = homeless.popleft()
        wish = wanted.get(uid)
        holder = taken.get(wish) if wish is not None else None
        if wish is None or holder == uid or (holder is not None and wanted.get(holder) == wish):
            continue
        if holder is not None:
            del family.places[holder]
            homeless.append(holder)
        if (before := family.places.get(uid)) is not None:
            del taken[before]
        family.places[uid], taken[wish] = wish, uid
    for uid in uids:
        if uid not in family.places:
            slot = _first_free(roles[uid], taken)
            family.places[uid], taken[slot] = slot, uid


def _bears(family: Family, uid: str) -> Slot | None:
    """Return the slot that the pod's binding has written on it."""
    return family.kin[uid].wish if family.kin[uid].pod.node else None


def close_gaps(family: Family, uids: list[str], role: str, count: int) -> None:
    """Move the last pods into slots of pods that are gone for good; the controller writes the new slot on the pod."""
    taken = {family.places[uid]: uid for uid in uids}
    for slot in sorted((slot for slot in taken if slot.index >= count), reverse=True):
        uid, free = taken.pop(slot), _first_free(role, taken)
        family.places[uid], taken[free] = free, uid


def _first_free(role: str, taken: Mapping[Slot, str]) -> Slot:
    return next(slot for index in range(len(taken) + 1) if (slot := Slot(role, index)) not in taken)

"""Assigns a slot to each pod that has no index of its own: the slot that was written on it when it was bound, or a free
one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from extender.kube.ownedpods import OwnedPods
from policy.cluster.model import WORKER, Slot


def assign_slots(owned: OwnedPods, count: int) -> None:
    """Assign a worker slot to each pod of a job whose pods have no index.

    ``count``: the job's number of workers. Once there are at most that many pods, their slots are below ``count``.
    """
    live = owned.live()
    keep_or_assign_slots(owned, live, dict.fromkeys(live, WORKER), {WORKER: count})
    if len(live) <= count:
        close_gaps(owned, live, WORKER, count)


def keep_or_assign_slots(
    owned: OwnedPods, uids: list[str], roles: Mapping[str, str], counts: Mapping[str, int]
) -> None:
    """Assign a slot to each pod that has none: the slot in which it was bound, or the first that is free.

    A pod gives up a slot in which another pod was bound, so that the result is the same as after a restart of Kohort.
    A pod returns to the slot in which it was bound if the job still asks for that slot. ``roles``: the role of each pod
    by uid. ``counts``: how many slots the job asks for by role; their indices begin at 0.
    """
    wanted = {
        uid: bound_slot
        for uid in uids
        if (bound_slot := _slot_of_binding(owned, uid)) is not None and bound_slot.role == roles[uid]
    }
    taken = {slot: uid for uid in uids if (slot := owned.slots.get(uid)) is not None}
    homeless = deque(
        uid
        for uid in uids
        if uid not in owned.slots or (uid in wanted and wanted[uid].index < counts.get(roles[uid], 0))
    )
    while homeless:
        uid = homeless.popleft()
        bound_slot = wanted.get(uid)
        holder = taken.get(bound_slot) if bound_slot is not None else None
        if bound_slot is None or holder == uid or (holder is not None and wanted.get(holder) == bound_slot):
            continue
        if holder is not None:
            del owned.slots[holder]
            homeless.append(holder)
        if (before := owned.slots.get(uid)) is not None:
            del taken[before]
        owned.slots[uid], taken[bound_slot] = bound_slot, uid
    for uid in uids:
        if uid not in owned.slots:
            slot = _first_free(roles[uid], taken)
            owned.slots[uid], taken[slot] = slot, uid


def _slot_of_binding(owned: OwnedPods, uid: str) -> Slot | None:
    """Return the slot that was written on the pod when it was bound; None for a pod that is not bound."""
    return owned.pods[uid].bound_slot if owned.pods[uid].pod.node else None


def close_gaps(owned: OwnedPods, uids: list[str], role: str, count: int) -> None:
    """Move the pods whose index is ``count`` or higher into lower slots of the role, which pods have left for good.

    Kohort's controller then writes the new slot on the pod.
    """
    taken = {owned.slots[uid]: uid for uid in uids}
    for slot in sorted((slot for slot in taken if slot.index >= count), reverse=True):
        uid, free = taken.pop(slot), _first_free(role, taken)
        owned.slots[uid], taken[free] = free, uid


def _first_free(role: str, taken: Mapping[Slot, str]) -> Slot:
    return next(slot for index in range(len(taken) + 1) if (slot := Slot(role, index)) not in taken)

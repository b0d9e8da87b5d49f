"""Places for pods that have no number of their own: each its own, none twice, and the one in which it was bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from extender.kube.family import Family
from policy.cluster.model import WORKER, Slot


def allot(family: Family, count: int) -> None:
    """A number for each pod of a job whose pods have none: 0 to ``count`` - 1 as soon as there are no more of them."""
    live = family.live()
    settle(family, live, dict.fromkeys(live, WORKER))
    if len(live) <= count:
        close_gaps(family, live, WORKER, count)


def settle(family: Family, uids: list[str], roles: Mapping[str, str]) -> None:
    """A place for each that has none: the one in which it was bound, else the first that is free.

    Whoever is there without having been bound in it gives way, as it would after a restart.
    """
    wanted = {uid: family.kin[uid].wish for uid in uids if family.kin[uid].pod.node and family.kin[uid].wish}
    taken = {slot: uid for uid in uids if (slot := family.places.get(uid)) is not None}
    homeless = deque(uid for uid in uids if uid not in family.places)
    while homeless:
        uid = homeless.popleft()
        wish = wanted.get(uid)
        if wish is None or wish.role != roles[uid]:
            continue
        holder = taken.get(wish)
        if holder is None or wanted.get(holder) != wish:
            if holder is not None:
                del family.places[holder]
                homeless.append(holder)
            family.places[uid], taken[wish] = wish, uid
    for uid in uids:
        if uid not in family.places:
            slot = _first_free(roles[uid], taken)
            family.places[uid], taken[slot] = slot, uid


def close_gaps(family: Family, uids: list[str], role: str, count: int) -> None:
    """Where a pod in the middle went for good, the last one takes its place; the controller writes it on the pod."""
    taken = {family.places[uid]: uid for uid in uids}
    for slot in sorted((slot for slot in taken if slot.index >= count), reverse=True):
        uid, free = taken.pop(slot), _first_free(role, taken)
        family.places[uid], taken[free] = free, uid


def _first_free(role: str, taken: Mapping[Slot, str]) -> Slot:
    return next(slot for index in range(len(taken) + 1) if (slot := Slot(role, index)) not in taken)

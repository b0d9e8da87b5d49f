"""Gangs that are known to find no room: a step in which the room is as it was asks nobody again."""

from __future__ import annotations

from collections.abc import Hashable

from policy.cluster.snapshot import Snapshot
from policy.placement.gang import Ask


def misfits(snapshot: Snapshot, placement: Hashable) -> set[Ask]:
    """Those that this way to place has not placed in the snapshot's free room; to be added to by whoever finds one.

    It begins anew with every change of the room. ``placement``: names the way, with all that it hangs on.
    """
    known, room = snapshot.index.memo.table(("misfits", placement), most=1), snapshot.index.room
    if "room" not in known or known["room"] is not room:
        known["room"], known["asks"] = room, set()
    found: set[Ask] = known["asks"]
    return found

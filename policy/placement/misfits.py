"""Gangs that are known to find no room: as long as the room stays as it is, they are not tried again."""

from __future__ import annotations

from collections.abc import Hashable

from policy.cluster.kept import until_room_changes
from policy.cluster.snapshot import Snapshot
from policy.placement.gang import Ask


@until_room_changes
def misfits(snapshot: Snapshot, placement: Hashable) -> set[Ask]:
    """Return the gangs that this way to place has not placed in the snapshot's free room; whoever finds one adds it.

    The set is a new one after every change of the room. ``placement``: names the way, with all its parameters.
    """
    del snapshot, placement
    return set()

"""A cache of the placement requests that found no room, so that they are not tried again until the room changes."""

from __future__ import annotations

from collections.abc import Hashable

from policy.cluster.kept import until_room_changes
from policy.cluster.snapshot import Snapshot
from policy.placement.gang import Ask


@until_room_changes
def misfits(snapshot: Snapshot, placement: Hashable) -> set[Ask]:
    """Return the set of requests for which no placement was found in the snapshot's free room by this way of placing.

    The caller adds each request that it cannot place. After every change of the room the set is a new, empty one.
    ``placement`` identifies the way of placing, with all its parameters.
    """
    del snapshot, placement
    return set()

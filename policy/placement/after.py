"""Free room once a list of actions is carried out: what a second look at the same snapshot may still hand out."""

from __future__ import annotations

from collections.abc import Iterable

from policy.cluster.actions import Action, Admit, Migrate, Resize
from policy.cluster.snapshot import Snapshot, demand
from policy.placement.room import Room


def room_after(snapshot: Snapshot, actions: Iterable[Action]) -> Room:
    """Return the ledger's room less what the actions give away.

    What a shrink will free is not counted before it is free.
    """
    room = Room.of(snapshot)
    for action in actions:
        if isinstance(action, Admit | Resize | Migrate):
            job, planned = snapshot.jobs[action.job_uid], snapshot.gang(action.job_uid).nodes
            for slot, node in action.nodes.items():
                if planned.get(slot) != node:
                    room.take(node, demand(job, slot, snapshot.member(job.uid, slot)))
    return room

"""The room that is left after a list of actions, for a policy that decides in several passes over one snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from policy.cluster.actions import Action, Admit, Migrate, Resize
from policy.cluster.snapshot import Snapshot, demand
from policy.placement.room import Room


def room_after(snapshot: Snapshot, actions: Iterable[Action]) -> Room:
    """Return the snapshot's free room less the room that the actions give to jobs.

    Room that a shrink among the actions will free does not count, because it is not free yet.
    """
    room = Room.of(snapshot)
    for action in actions:
        if isinstance(action, Admit | Resize | Migrate):
            job, planned = snapshot.jobs[action.job_uid], snapshot.gang(action.job_uid).nodes
            for slot, node in action.nodes.items():
                if planned.get(slot) != node:
                    room.take(node, demand(job, slot, snapshot.member(job.uid, slot)))
    return room

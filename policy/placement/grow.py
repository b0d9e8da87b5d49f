"""Room for one more worker of a running job, and what a shrink gives back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from policy.cluster.gang import Gang
from policy.cluster.model import PS, WORKER, Job, Slot
from policy.cluster.resources import Resources
from policy.cluster.snapshot import Snapshot, demand
from policy.placement.fit import accepts
from policy.placement.gang import barred, worker_demand
from policy.placement.room import Room


@dataclass(frozen=True, slots=True)
class Shed:
    """One worker that a shrink takes away: its slot, node, requests, and its pod, where it has one."""

    slot: Slot
    node: str
    requests: Resources
    pod_uid: str = ""


def sheds(snapshot: Snapshot, job: Job, gang: Gang) -> Iterator[Shed]:
    """The job's workers in the order in which its operator removes them: highest index first, down to the minimum."""
    for index in range(gang.workers - 1, job.min_workers - 1, -1):
        slot = Slot(WORKER, index)
        pod = snapshot.member(job.uid, slot)
        node = pod.node if pod is not None and pod.node else gang.nodes.get(slot, "")
        holds = pod is not None and pod.holds_room
        yield Shed(slot, node, demand(job, slot, pod), pod.uid if pod is not None and holds else "")


def node_for_worker(snapshot: Snapshot, room: Room, job: Job, gang: Gang) -> str | None:
    """The node for one more worker: the ps's, then those that host the job, then the idlest (KOD2 1b, Algorithm 3)."""
    worker = job.worker
    if worker is None:
        return None
    requests = worker_demand(snapshot, job)
    refused = barred(snapshot, job)
    fitting = [
        name
        for name in room
        if requests.fits(room.free(name)) and name not in refused and accepts(room.nodes[name], worker.constraints)
    ]
    servers = {node for slot, node in gang.nodes.items() if slot.role == PS}
    hosts = set(gang.nodes.values())
    return min(
        fitting, key=lambda name: (name not in servers, name not in hosts, -room.idleness(name), name), default=None
    )

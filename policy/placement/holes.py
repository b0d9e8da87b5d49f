"""Unplaced slots of an admitted gang (holes), and how nodes for them are found."""

from __future__ import annotations

from collections.abc import Mapping

from policy.cluster.constraints import ANYWHERE
from policy.cluster.failures import failed_on
from policy.cluster.gang import Gang
from policy.cluster.job import WORKER, Job, Slot
from policy.cluster.pod import Phase, Pod
from policy.cluster.snapshot import Snapshot, demand
from policy.placement.ask import Ask
from policy.placement.fit import accepts
from policy.placement.gang import ask_for, barred
from policy.placement.room import Room


def holes(snapshot: Snapshot, job: Job, gang: Gang) -> list[Slot]:
    """Return the unplaced slots of the gang: those without a usable node.

    A slot with a bound pod or a binding in flight is not among them. Nor is a slot whose pod is gone if the job's kind
    creates no new pods, because no pod would use a node that is found for it.
    """
    flying = {snapshot.pods[uid].slot for uid in gang.in_flight if uid in snapshot.pods}
    return [
        slot
        for slot in job.slots(gang.workers, gang.ps)
        if slot not in flying
        and not _usable(snapshot, gang.nodes.get(slot))
        and not _bound(snapshot, job, slot)
        and (job.replaced or is_there(snapshot.member(job.uid, slot)))
    ]


def is_there(pod: Pod | None) -> bool:
    """Tell whether there is a pod (``pod`` is not None) and it has not ended."""
    return pod is not None and not pod.ended


def _usable(snapshot: Snapshot, name: str | None) -> bool:
    node = snapshot.nodes.get(name) if name is not None else None
    return node is not None and node.usable


def _bound(snapshot: Snapshot, job: Job, slot: Slot) -> bool:
    """Tell whether the slot needs no node: it is done, or its pod is bound to a node that exists, ready or not."""
    pod = snapshot.member(job.uid, slot)
    if slot in job.over:
        return True
    if pod is None:
        return False
    return pod.phase is Phase.SUCCEEDED or (pod.holds_room and not pod.terminating and pod.node in snapshot.nodes)


def fill(snapshot: Snapshot, room: Room, job: Job, gang: Gang, missing: list[Slot]) -> dict[Slot, str]:
    """Return nodes for as many slots in ``missing`` as possible, and take their room from ``room``.

    Nodes that host the gang already come first, and then the one with the smallest free share. A node where members of
    this job, or of different jobs, have failed comes last.
    """
    found: dict[Slot, str] = {}
    refused = barred(snapshot, job)
    hosts, last = set(gang.nodes.values()), room.wary | failed_on(snapshot, job.uid)
    for slot in missing:
        role = job.role(slot.role)
        requests = demand(job, slot, snapshot.member(job.uid, slot))
        constraints = role.constraints if role else ANYWHERE
        fitting = [
            name
            for name in room
            if requests.fits(room.free(name)) and name not in refused and accepts(room.nodes[name], constraints)
        ]
        if fitting:
            found[slot] = min(fitting, key=lambda name: (name in last, name not in hosts, room.idleness(name), name))
            hosts.add(found[slot])
            room.take(found[slot], requests)
    return found


def ask_for_holes(snapshot: Snapshot, job: Job, gang: Gang, missing: list[Slot]) -> Ask | None:
    """Return the placement request for the members that the gang lacks of its minimum; None if it lacks none.

    They are the rigid members among ``missing``, and as many workers as are needed for the minimum.
    """
    rigid = tuple(slot for slot in missing if slot.role != WORKER)
    lacking = [slot for slot in missing if slot.role == WORKER]
    workers = max(0, min(gang.least, job.min_workers) - (gang.workers - len(lacking)))
    if not (rigid or workers):
        return None
    return ask_for(snapshot, job, [slot for slot in job.slots(0) if slot in rigid], workers, workers)


def into_holes(nodes: Mapping[Slot, str], missing: list[Slot]) -> dict[Slot, str]:
    """Return the nodes found for a request of ``ask_for_holes`` by the slots that the gang really lacks.

    The request numbers its workers from 0; in the result they have the worker slots in ``missing``, in order.
    """
    workers = iter(slot for slot in missing if slot.role == WORKER)
    return {next(workers) if slot.role == WORKER else slot: node for slot, node in sorted(nodes.items())}


def closed_for(room: Room, job: Job, missing: list[Slot]) -> list[str]:
    """Return the names of the nodes to keep from other jobs: those whose taints and labels suit a missing member."""
    wanted = {role.constraints for slot in missing if (role := job.role(slot.role)) is not None}
    return [name for name in room if any(accepts(room.nodes[name], constraints) for constraints in wanted)]

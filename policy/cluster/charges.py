"""What pods and plans take from the nodes: charged from the moment of planning until the pod is gone."""

from __future__ import annotations

from policy.cluster.gang import ADMITTED, Gang
from policy.cluster.model import Job, Phase, Pod, Slot
from policy.cluster.resources import Resources
from policy.cluster.snapshot import Charge, Snapshot, demand

NO_CHARGE: Charge = {}


def pod_charge(pod: Pod) -> Charge:
    """What a bound pod takes."""
    return {pod.uid: (pod.node, pod.requests)} if pod.holds_room else NO_CHARGE


def planned_charge(snapshot: Snapshot, job_uid: str) -> Charge:
    """What a gang takes beyond its bound pods: planned slots, and bindings whose outcome is not known."""
    job, gang = snapshot.jobs.get(job_uid), snapshot.gangs.get(job_uid)
    if job is None or gang is None:
        return NO_CHARGE
    charge = _slots_charge(snapshot, job, gang) if gang.state in ADMITTED else {}
    for uid, node in gang.in_flight.items():
        pod = snapshot.pods.get(uid)
        if pod is not None and not pod.node and not pod.ended and not _charged_on(charge, pod, node):
            charge[uid] = (node, pod.requests)
    return charge


def _slots_charge(snapshot: Snapshot, job: Job, gang: Gang) -> dict[object, tuple[str, Resources]]:
    members, pods = snapshot.members.get(gang.job_uid, {}), snapshot.pods
    handed_on = _handed_on(snapshot, gang.job_uid)
    charge: dict[object, tuple[str, Resources]] = {}
    for slot, node in gang.nodes.items():
        uid = members.get(slot)
        pod = pods[uid] if uid is not None else None
        if not (_takes_itself(pod, node) or (slot, node) in handed_on):
            charge[slot] = (node, demand(job, slot, pod))
    return charge


def _takes_itself(pod: Pod | None, node: str) -> bool:
    """A bound pod is charged as a pod; one that succeeded needs no room; one that failed is restarted there."""
    return pod is not None and (pod.phase is Phase.SUCCEEDED or (pod.holds_room and pod.node == node))


def _handed_on(snapshot: Snapshot, job_uid: str) -> frozenset[tuple[Slot | None, str]]:
    """Slots whose last pod still holds the room there that its successor will take."""
    pods = (snapshot.pods[uid] for uid in snapshot.strays.get(job_uid, ()))
    return frozenset((pod.slot, pod.node) for pod in pods if pod.holds_room)


def _charged_on(charge: Charge, pod: Pod, node: str) -> bool:
    planned = charge.get(pod.slot)
    return planned is not None and planned[0] == node

"""The charges: what bound pods, plans, and promises of other schedulers take from the nodes.

A member's room is charged from the moment when its plan is made until its pod is gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from policy.cluster.gang import Gang
from policy.cluster.index import Facts
from policy.cluster.job import Job, Slot
from policy.cluster.pod import Phase, Pod
from policy.cluster.preemption import Preemptions, taken_on
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.snapshot import Charge, demand, is_over

NO_CHARGE: Charge = {}


def pod_charge(pod: Pod) -> Charge:
    """Return the charge of one pod (uid -> node and requests); empty unless the pod is bound and has not ended."""
    return {pod.uid: (pod.node, pod.requests)} if pod.holds_room else NO_CHARGE


def promised_charge(promised: Preemptions, node: str) -> Charge:
    """Return the charge for the room on the node that is promised to foreign pods which are not bound yet."""
    taken = taken_on(promised, node)
    return {node: (node, taken)} if taken else NO_CHARGE


def key_of(node: str) -> str:
    """Return the key in ``Snapshot.charges`` for the room that is promised on the node; it differs from every uid."""
    return f"node/{node}"


def held_on(facts: Facts, nodes: Iterable[str]) -> dict[str, Resources]:
    """Return, for each of these nodes, the room that bound pods and bindings in flight take; plans do not count."""
    held = dict.fromkeys(nodes, NOTHING)
    for pod in facts.pods.values():
        if pod.holds_room and pod.node in held:
            held[pod.node] += pod.requests
    for gang in facts.gangs.values():
        for uid, node in gang.in_flight.items():
            flying = facts.pods.get(uid)
            if node in held and flying is not None and not (flying.node or flying.ended):
                held[node] += flying.requests
    return held


def planned_charge(facts: Facts, job_uid: str) -> Charge:
    """Return what the gang's planned slots and bindings in flight take, without what its bound pods are charged."""
    job, gang = facts.jobs.get(job_uid), facts.gangs.get(job_uid)
    if job is None or gang is None:
        return NO_CHARGE
    charge = _slots_charge(facts, job, gang) if gang.nodes else {}
    for uid, node in gang.in_flight.items():
        pod = facts.pods.get(uid)
        if pod is not None and not pod.node and not pod.ended and not _charged_on(charge, pod, node):
            charge[uid] = (node, pod.requests)
    return charge


def _slots_charge(facts: Facts, job: Job, gang: Gang) -> dict[object, tuple[str, Resources]]:
    members, pods = facts.members.get(gang.job_uid, {}), facts.pods
    handed_on = _handed_on(facts, gang.job_uid)
    charge: dict[object, tuple[str, Resources]] = {}
    for slot, node in gang.nodes.items():
        uid = members.get(slot)
        pod = pods[uid] if uid is not None else None
        if not (is_over(job, slot, pod) or _takes_itself(pod, node) or (slot, node) in handed_on):
            charge[slot] = (node, demand(job, slot, pod))
    return charge


def _takes_itself(pod: Pod | None, node: str) -> bool:
    """Tell whether the pod of a slot that is planned on ``node`` makes a charge for the slot unnecessary.

    That is so if the pod is bound to the node, because then the pod is charged, or if the pod has succeeded and needs
    no room any more. The slot of a failed pod stays charged, because the pod is restarted there.
    """
    return pod is not None and (pod.phase is Phase.SUCCEEDED or (pod.holds_room and pod.node == node))


def _handed_on(facts: Facts, job_uid: str) -> frozenset[tuple[Slot | None, str]]:
    """Return a pair (slot, node) for each replaced pod of the job that still holds room; its successor will use it."""
    pods = (facts.pods[uid] for uid in facts.strays.get(job_uid, ()))
    return frozenset((pod.slot, pod.node) for pod in pods if pod.holds_room)


def _charged_on(charge: Charge, pod: Pod, node: str) -> bool:
    planned = charge.get(pod.slot)
    return planned is not None and planned[0] == node

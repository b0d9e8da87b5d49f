"""Members of an admitted gang that have no usable node are given one: after a lost node, or beside the plan."""

from __future__ import annotations

from dataclasses import replace

from policy.cluster.actions import Effect
from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.model import ANYWHERE, Job, Node, Slot
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Draft, Snapshot, demand
from policy.placement.fit import accepts
from policy.placement.gang import barred
from policy.placement.room import Room
from policy.transitions.gangs import bound_slots, give_up, holding_pods, job_of


def repair(draft: Draft, now: float) -> list[Effect]:
    """Look at every gang with a member that needs a node. Runs before the policy: a running gang is completed first."""
    effects: list[Effect] = []
    for uid in sorted(_needing(draft)):
        job = job_of(draft, uid)
        if job is not None:
            effects += _mend(draft, job, now)
    return effects


def _needing(draft: Draft) -> list[str]:
    """Jobs whose plan has a hole or names an unusable node; a running gang below its target is looked at every time."""
    gangs = draft.read("gangs")
    return [uid for uid, gang in gangs.items() if gang.state in ADMITTED and _holes(draft, gang)]


def _holes(draft: Draft, gang: Gang) -> list[Slot]:
    job = job_of(draft, gang.job_uid)
    if job is None:
        return []
    if len(gang.nodes) >= _target(job, gang) and not _has_unusable(draft, gang):
        return []
    bound = bound_slots(draft, gang.job_uid)
    return [slot for slot in job.slots(gang.workers) if slot not in bound and not _usable(draft, gang.nodes.get(slot))]


def _target(job: Job, gang: Gang) -> int:
    return sum(role.replicas for role in job.rigid) + gang.workers


def _has_unusable(draft: Draft, gang: Gang) -> bool:
    return any(not _usable(draft, node) for node in set(gang.nodes.values()))


def _usable(draft: Draft, name: str | None) -> bool:
    node: Node | None = draft.read("nodes").get(name)
    return node is not None and node.ready and not node.unschedulable


def _mend(draft: Draft, job: Job, now: float) -> list[Effect]:
    gang = draft.gang(job.uid)
    if gang.state is State.PLANNED and not holding_pods(draft, job.uid) and _has_unusable(draft, gang):
        # Nothing is bound yet: the policy plans the gang anew, whole, in this very step.
        return give_up(draft, gang, now, Reason.NODE_NOT_OFFERED, back_off=False)
    holes = _holes(draft, gang)
    nodes = {slot: node for slot, node in gang.nodes.items() if slot not in holes}
    draft.put_gang(replace(gang, nodes=nodes))
    draft.settle()
    found = _find(draft.view(), job, replace(gang, nodes=nodes), holes)
    if found:
        plan = f"{draft.base.generation}-{int(now * 1000)}"
        draft.put_gang(replace(gang, nodes={**nodes, **found}, plan=plan))
        draft.settle()
    return []


def _find(snapshot: Snapshot, job: Job, gang: Gang, holes: list[Slot]) -> dict[Slot, str]:
    room, found = Room.of(snapshot), dict[Slot, str]()
    refused = barred(snapshot, job)
    for slot in holes:
        role = job.role(slot.role)
        requests = demand(job, slot, snapshot.member(job.uid, slot))
        constraints = role.constraints if role else ANYWHERE
        hosts = set(gang.nodes.values()) | set(found.values())
        fitting = [
            name
            for name in room
            if name not in refused and requests.fits(room.free(name)) and accepts(room.nodes[name], constraints)
        ]
        if fitting:
            found[slot] = min(fitting, key=lambda name: (name not in hosts, room.idleness(name), name))
            room.take(found[slot], requests)
    return found

"""Members of an admitted gang that have no usable node are given one: after a lost node, or beside the plan."""

from __future__ import annotations

from dataclasses import replace

from policy.cluster.actions import Effect, RefuseBind
from policy.cluster.draft import Draft
from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.model import Job, Node, Slot
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import queued
from policy.placement.holes import fill, holes
from policy.placement.room import Room
from policy.transitions.gangs import any_holds_room, give_up, let_go, plan_name


def repair(draft: Draft, now: float) -> list[Effect]:
    """Look at every gang with a member that needs a node. Runs before the policy: a running gang is completed first."""
    effects: list[Effect] = []
    nodes: dict[str, Node] = draft.read("nodes")
    usable = {name for name, node in nodes.items() if node.ready and not node.unschedulable}
    jobs: dict[str, Job] = draft.read("jobs")
    for uid, gang in sorted(draft.read("gangs").items()):
        job = jobs.get(uid)
        if job is not None and gang.whole and _needs(job, gang, usable) and queued(job) and gang.state in ADMITTED:
            effects += _mend(draft, job, gang, now)
    return effects


def _needs(job: Job, gang: Gang, usable: set[str]) -> bool:
    """Whether the plan has too few nodes or names one that nobody can be sent to."""
    target = len(job.slots(gang.workers, gang.ps))
    return len(gang.nodes) < target or not usable.issuperset(gang.nodes.values())


def _mend(draft: Draft, job: Job, gang: Gang, now: float) -> list[Effect]:
    missing = holes(draft.view(), job, gang)
    if not missing:
        return []
    if gang.state is State.PLANNED and not any_holds_room(draft, job.uid):
        # Nothing is bound yet: the policy plans the gang anew, whole, in this very step.
        return give_up(draft, gang, now, Reason.NODE_NOT_OFFERED, back_off=False)
    gang, effects = _forget(draft, gang, missing)
    draft.settle()
    view = draft.view()
    found = fill(view, Room.of(view), job, gang, missing)
    if found:
        draft.put_gang(replace(gang, nodes={**gang.nodes, **found}, plan=plan_name(draft, now)))
        draft.settle()
    return effects


def _forget(draft: Draft, gang: Gang, missing: list[Slot]) -> tuple[Gang, list[Effect]]:
    """Take the holes' old nodes from the plan; kube-scheduler's check of a held member was for the old node."""
    stale = sorted(uid for uid, slot in gang.held.items() if slot in missing)
    for uid in stale:
        gang = let_go(draft, gang, uid)
    kept = {slot: node for slot, node in gang.nodes.items() if slot not in missing}
    if len(kept) != len(gang.nodes):
        gang = replace(gang, nodes=kept)
        draft.put_gang(gang)
    return gang, [RefuseBind(uid, Reason.PLAN_CHANGED) for uid in stale]

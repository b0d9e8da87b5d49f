"""Finds nodes for the unplaced slots of admitted gangs, also for members that another scheduler has preempted.

The gang of a preempted member loses the room at once, and the preemption is reported. Otherwise the next pod of the
slot would be bound into the freed room before the preemptor. The preemptor would then preempt that pod, too, and so on,
or both would stay on an over-committed node.
"""

from __future__ import annotations

from policy.cluster.actions import Effect, Preempted, Resize
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.job import WORKER, Job, Slot
from policy.cluster.pod import Phase, Pod
from policy.cluster.preemption import preemptors
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import priority_of
from policy.placement.holes import fill, holes
from policy.placement.room import Room
from policy.transitions.gangs import any_bound, forget, plan_name, retarget
from policy.transitions.recovery.release import give_up


def repair(draft: Draft, now: float, *, gives_back: bool) -> list[Effect]:
    """Find nodes for the unplaced slots of every admitted gang, and return the effects.

    The step does this before the policy decides, so that running gangs are completed before other jobs start.
    gives_back: whether the policy grows jobs by itself. Only then may a running gang be shrunk by its last workers if
    another scheduler has preempted them.
    """
    effects: list[Effect] = []
    for uid in draft.index.lacking:
        job = draft.now.jobs.get(uid)
        if job is not None:
            effects += _mend(draft, job, draft.gang(uid), now)
            effects += shrink_to_rest(draft, job, draft.gang(uid), now) if gives_back else []
    return effects


def _mend(draft: Draft, job: Job, gang: Gang, now: float) -> list[Effect]:
    missing = holes(draft.view(), job, gang)
    if not missing:
        return []
    if gang.state is State.PLANNED and not any_bound(draft, job.uid):
        # No member of the gang is bound yet, so the policy may plan the whole gang on other nodes in this step.
        return give_up(draft, gang, now, Reason.NODE_NOT_OFFERED, back_off=False)
    gang, effects = forget(draft, gang, missing)
    draft.settle()
    view = draft.view()
    found = fill(view, Room.of(view).past(priority_of(view, job.uid)), job, gang, missing)
    if found:
        draft.put_gang(replace(gang, nodes={**gang.nodes, **found}, plan=plan_name(draft, now)))
        draft.settle()
    return effects


def lose_room(draft: Draft, pod: Pod) -> None:
    """Remove the planned node of a pod's slot if the pod was preempted, so that the slot gets another node.

    pod: a pod that is terminating, has ended or is gone.
    """
    if not pod.preempted or pod.slot is None or not pod.node or pod.phase is Phase.SUCCEEDED:
        return
    gang = draft.gang(pod.job_uid)
    if gang.state in ADMITTED and gang.nodes.get(pod.slot) == pod.node:
        left = {slot: node for slot, node in gang.nodes.items() if slot != pod.slot}
        draft.put_gang(replace(gang, nodes=left, lost={**gang.lost, pod.slot: pod.node}))


def report_preempted(draft: Draft) -> list[Effect]:
    """Return, for each job, a report of the members that it has lost to preemption in this step."""
    effects: list[Effect] = []
    for uid in sorted(draft.touched()):
        known, found = draft.base.gang(uid).lost, draft.gang(uid).lost
        if new := {slot: node for slot, node in found.items() if known.get(slot) != node}:
            effects.append(Preempted(uid, new, preemptors(draft.now.preemptions, draft.now.pods, new.values())))
    return effects


def shrink_to_rest(draft: Draft, job: Job, gang: Gang, now: float) -> list[Effect]:
    """Shrink a running elastic gang by its last workers if they were preempted and no other node has room for them.

    Only the workers with the highest indices can be left out, because the operator always removes the highest index
    first. Some operators remove workers one by one and fail at a gap among the indices (training-operator 1.8.1: index
    out of range). Under such an operator the gang is shrunk only once the pods of all these workers exist again.
    """
    left, preempted = gang.workers, gang.preempted
    while left > job.min_workers and Slot(WORKER, left - 1) in preempted:
        left -= 1
    if left == gang.workers or not job.elastic or gang.state is not State.RUNNING:
        return []
    if job.one_by_one and not all(_is_made(draft, job, index) for index in range(left, gang.workers)):
        return []
    retarget(draft, gang, left, {}, now)
    return [Resize(job.uid, left)]


def _is_made(draft: Draft, job: Job, index: int) -> bool:
    pod = draft.now.pods.get(draft.now.members.get(job.uid, {}).get(Slot(WORKER, index), ""))
    return pod is not None and not pod.terminating

"""Deals with plans that wait for room which other jobs should free, when that room is not free in time.

Terminating pods may take as long as their training needs to save. The waiting job loses nothing meanwhile: it is
planned again in the same step, before any job that comes after it, and perhaps on other nodes. If none of the awaited
pods is terminating, for instance because their operator is down, the plan is made once more; after that the other jobs
keep their workers.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from policy.cluster.actions import Effect, Resize, ShrinkStalled
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import Gang, State
from policy.cluster.job import WORKER
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason
from policy.transitions.deadlines.patience import Expired
from policy.transitions.gangs import retarget
from policy.transitions.recovery.release import give_up


def end_freeing(draft: Draft, expired: Expired) -> list[Effect]:
    """Give up a plan whose room is not free in time; the policy may plan the gang again in the same step.

    The gang does not back off while one of the awaited pods is terminating, or if this is its first plan to fail.
    Otherwise it backs off, and the jobs that were shrunk for it keep the workers that are still there.
    """
    gang, now = expired.gang, expired.now
    awaited = [pod for uid in gang.waits_for if (pod := draft.now.pods.get(uid)) is not None]
    if any(pod.terminating for pod in awaited):
        return give_up(draft, gang, now, Reason.ROOM_BEING_FREED, back_off=False)
    stalled: list[Effect] = [*stalled_shrinks(draft, gang)]
    if not gang.tries.attempts:
        tried = replace(gang, tries=replace(gang.tries, attempts=1))
        return stalled + give_up(draft, tried, now, Reason.ROOM_BEING_FREED, back_off=False)
    given_up = give_up(draft, gang, now, Reason.ROOM_BEING_FREED)
    return stalled + given_up + _give_back(draft, gang.job_uid, awaited, now)


def stalled_shrinks(draft: Draft, gang: Gang) -> list[ShrinkStalled]:
    """Return a report for each job whose workers should have gone for this gang's plan and are still there.

    The reports are sorted by the jobs' uids. A job's workers are deleted by its own operator. If the operator is down,
    or if a pod does not end because of a finalizer or a lost kubelet, the room stays taken; without the report users
    would only see that the job shrinks and grows again. Pods that their job may keep do not count, nor pods of jobs
    that hold no plan any more.
    """
    pods = draft.now.pods
    late = Counter[str]()
    for uid in gang.waits_for:
        pod = pods.get(uid)
        if pod is None or not pod.holds_room or pod.slot is None:
            continue
        victim = draft.gang(pod.job_uid)
        if victim.admitted and not victim.gives(pod.slot):
            late[pod.job_uid] += 1
    return [
        ShrinkStalled(victim, draft.gang(victim).workers, left, on_behalf_of=gang.job_uid)
        for victim, left in sorted(late.items())
    ]


def _give_back(draft: Draft, job_uid: str, pods: list[Pod], now: float) -> list[Effect]:
    """Give each running job that was shrunk for ``job_uid`` the workers back that still exist, and return the resizes.

    pods: the awaited pods that still exist.
    """
    kept: dict[str, int] = defaultdict(int)
    for pod in pods:
        if pod.slot is not None and pod.slot.role == WORKER:
            kept[pod.job_uid] = max(kept[pod.job_uid], pod.slot.index + 1)
    effects: list[Effect] = []
    for uid, workers in sorted(kept.items()):
        victim = draft.gang(uid)
        if victim.scaling.on_behalf_of == job_uid and victim.state is State.RUNNING and victim.workers < workers:
            nodes = {pod.slot: pod.node for pod in pods if pod.job_uid == uid and pod.slot is not None}
            kept_on = retarget(draft, victim, workers, nodes, now)
            draft.put_gang(replace(kept_on, scaling=replace(kept_on.scaling, kept_at=now)))
            effects.append(Resize(uid, workers, nodes))
    return effects

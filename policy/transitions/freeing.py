"""Room that others were told to give up for a plan, and that is late.

Pods that are on their way out may take as long as their training needs to save. Whoever the room was freed for keeps
its claim meanwhile: it is planned anew in the same step, before anybody that comes after it, and perhaps elsewhere.
Where none of the pods goes (an operator that is down), the claim is tried once more; then the workers are theirs again.
"""

from __future__ import annotations

from collections import defaultdict

from policy.cluster.actions import Effect, Resize
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import Gang, State
from policy.cluster.model import WORKER, Pod
from policy.cluster.reasons import Reason
from policy.transitions.gangs import give_up, pod_of, retarget
from policy.transitions.shrinks import stalled_shrinks


def end_freeing(draft: Draft, gang: Gang, now: float) -> list[Effect]:
    """The time of a plan is over whose room is not free yet."""
    awaited = [pod for uid in gang.waits_for if (pod := pod_of(draft, uid)) is not None]
    if any(pod.terminating for pod in awaited):
        return give_up(draft, gang, now, Reason.ROOM_BEING_FREED, back_off=False)
    told: list[Effect] = [*stalled_shrinks(draft, gang)]
    if not gang.attempts:
        tried = replace(gang, attempts=1)
        return told + give_up(draft, tried, now, Reason.ROOM_BEING_FREED, back_off=False)
    given_up = give_up(draft, gang, now, Reason.ROOM_BEING_FREED)
    return told + given_up + _give_back(draft, gang.job_uid, awaited, now)


def _give_back(draft: Draft, job_uid: str, pods: list[Pod], now: float) -> list[Effect]:
    """Who was shrunk for the job, and still has all of its workers, keeps them: nobody else is to wait for them."""
    kept: dict[str, int] = defaultdict(int)
    for pod in pods:
        if pod.slot is not None and pod.slot.role == WORKER:
            kept[pod.job_uid] = max(kept[pod.job_uid], pod.slot.index + 1)
    effects: list[Effect] = []
    for uid, workers in sorted(kept.items()):
        victim = draft.gang(uid)
        if victim.on_behalf_of == job_uid and victim.state is State.RUNNING and victim.workers < workers:
            nodes = {pod.slot: pod.node for pod in pods if pod.job_uid == uid and pod.slot is not None}
            draft.put_gang(replace(retarget(draft, victim, workers, nodes, now), kept_at=now))
            effects.append(Resize(uid, workers, nodes))
    return effects

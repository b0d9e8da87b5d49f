"""Workers beyond the minimum that a running gang was given or has lost: awaited, reported when late, then given back.

Their room is charged as soon as the policy gives it. Where nobody creates their pods (an operator that is down, a
quota), it would stay reserved for ever. So the job keeps the workers that are there, at least its minimum, and grows
again only after a back-off.
"""

from __future__ import annotations

from typing import Final

from policy.cluster.actions import Effect, Resize, Stalled
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import Gang, State, Tries
from policy.cluster.lifecycle import Awaits
from policy.cluster.model import WORKER, Job, Phase, Slot
from policy.transitions.deadlines.patience import Expired, until
from policy.transitions.gangs import nobody_awaited, plan_name, retarget, rules_of

MOST_DOUBLINGS: Final = 4  # of the back-off after a growth that was given back


def absent(draft: Draft, job: Job, gang: Gang) -> int:
    """Return how many workers are missing at the end of its indices, beyond its minimum.

    A worker is not missing where its pod holds room or has succeeded, or where its binding is in flight.
    """
    pods = draft.now.pods
    members = draft.now.members.get(job.uid, {})
    there: list[int] = [
        slot.index + 1
        for slot, uid in members.items()
        if slot.role == WORKER and (pods[uid].holds_room or pods[uid].phase is Phase.SUCCEEDED or uid in gang.in_flight)
    ]
    done = (slot.index + 1 for slot in job.over if slot.role == WORKER)
    kept: int = max(job.min_workers, *there, *done, 0)
    return max(0, gang.workers - kept)


def await_rest(draft: Draft, job: Job, now: float) -> None:
    """Await the missing workers of a gang whose minimum runs, as far as they have a node."""
    gang = draft.gang(job.uid)
    last = range(gang.workers - absent(draft, job, gang), gang.workers)
    left = sum(1 for index in last if Slot(WORKER, index) in gang.nodes)
    if left and gang.whole and gang.state is State.RUNNING:
        draft.put_gang(replace(gang, awaited=left, deadline=until(draft, Awaits.GROWTH, now)))


def follow_arrivals(draft: Draft, job: Job, gang: Gang, now: float) -> Gang:
    """Count the awaited workers; whenever one has come, the time of the others begins anew.

    When the last one has come, earlier failures are forgotten.
    """
    left = min(gang.awaited, absent(draft, job, gang)) if gang.awaited else 0
    if left == gang.awaited:
        return gang
    if left:
        once = replace(gang.tries, retried=False)
        gang = replace(gang, awaited=left, tries=once, deadline=until(draft, Awaits.GROWTH, now))
    else:
        gang = replace(gang, **nobody_awaited(draft, gang, now))  # type: ignore[arg-type]
        gang = replace(gang, tries=Tries(misses=gang.tries.misses))
    draft.put_gang(gang)
    return gang


def end_growth(draft: Draft, expired: Expired) -> list[Effect]:
    """Report workers that are late, and try once more under a new plan, so that pods which were refused are woken.

    The second time they are given back, where the policy grows jobs by itself and the kind can be resized.
    """
    job, gang, now = expired.job, expired.gang, expired.now
    left = min(gang.awaited, absent(draft, job, gang))
    if not left:
        draft.put_gang(replace(gang, **nobody_awaited(draft, gang, now)))  # type: ignore[arg-type]
        return []
    if not gang.tries.retried:
        deadline = until(draft, Awaits.GROWTH, now)
        again = replace(gang.tries, retried=True)
        draft.put_gang(replace(gang, awaited=left, tries=again, plan=plan_name(draft, now), deadline=deadline))
        return [Stalled(job.uid, gang.workers, left, given_back=False)]
    if not (expired.gives_back and job.elastic):
        draft.put_gang(replace(gang, awaited=left, deadline=None))
        return []
    return give_back(draft, replace(gang, awaited=left), now)


def give_back(draft: Draft, gang: Gang, now: float) -> list[Effect]:
    """Let the gang keep the workers that are there; the back-off before it may grow again doubles with each failure."""
    left, attempts = gang.awaited, gang.tries.attempts + 1
    fewer = retarget(draft, gang, gang.workers - left, {}, now)
    back_off = rules_of(draft).growing_seconds * 2.0 ** min(attempts, MOST_DOUBLINGS)
    tries = replace(fewer.tries, attempts=attempts, not_before=now + back_off)
    draft.put_gang(replace(fewer, tries=tries))
    return [Stalled(gang.job_uid, gang.workers, left, given_back=True), Resize(gang.job_uid, fewer.workers)]

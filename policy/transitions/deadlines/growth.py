"""Awaits workers beyond the minimum that a running gang was given or has lost, and gives them up if they do not come.

The room of such workers is charged as soon as the policy gives it. If their pods were never created (because the
operator is down, or because of a quota), the room would stay charged without end. So missing workers are first reported
and tried once more. Then the job keeps the workers that are there, at least its minimum, and grows again only after a
back-off.
"""

from __future__ import annotations

from typing import Final

from policy.cluster.actions import Effect, Resize, Stalled
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import Gang, State, Tries
from policy.cluster.job import WORKER, Job, Slot
from policy.cluster.lifecycle import Awaits
from policy.cluster.pod import Phase
from policy.transitions.deadlines.patience import Expired, until
from policy.transitions.gangs import nobody_awaited, plan_name, retarget

MOST_DOUBLINGS: Final = 4  # The back-off after failed growths doubles at most this many times.


def absent(draft: Draft, job: Job, gang: Gang) -> int:
    """Return how many of the gang's last workers, those with the highest indices, are missing.

    A worker is missing unless its pod holds room or has succeeded, or its binding is in flight. Workers of the minimum
    are not counted, nor missing workers with a lower index than one that is there.
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
    """Begin to await those missing last workers of a running gang that have a planned node; the deadline starts now."""
    gang = draft.gang(job.uid)
    last = range(gang.workers - absent(draft, job, gang), gang.workers)
    left = sum(1 for index in last if Slot(WORKER, index) in gang.nodes)
    if left and gang.whole and gang.state is State.RUNNING:
        draft.put_gang(replace(gang, awaited=left, deadline=until(draft, Awaits.GROWTH, now)))


def follow_arrivals(draft: Draft, job: Job, gang: Gang, now: float) -> Gang:
    """Update how many workers are still awaited, and return the gang.

    Whenever a worker has come, the deadline for the others starts again. When the last one has come, the failures of
    earlier growths are forgotten.
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
    """Handle the end of the deadline for a running gang's awaited workers, and return the effects.

    The first time, the missing workers are reported and tried once more. The plan gets a new name, so that the
    controller wakes pods which kube-scheduler has refused. The second time, the gang gives the missing workers back if
    the policy grows jobs by itself and the job is elastic; otherwise they are awaited without a limit.
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
    """Shrink the gang by the workers that it still awaits, so that their room is free, and return the reports.

    The back-off before the gang may grow again doubles with each failed growth.
    """
    left, attempts = gang.awaited, gang.tries.attempts + 1
    fewer = retarget(draft, gang, gang.workers - left, {}, now)
    back_off = draft.base.rules.growing_seconds * 2.0 ** min(attempts, MOST_DOUBLINGS)
    tries = replace(fewer.tries, attempts=attempts, not_before=now + back_off)
    draft.put_gang(replace(fewer, tries=tries))
    return [Stalled(gang.job_uid, gang.workers, left, given_back=True), Resize(gang.job_uid, fewer.workers)]

"""Workers beyond the minimum that a running gang was given or has lost: awaited, reported when late, then given back.

Their room is charged from the moment that they are given. Where nobody creates their pods (an operator that is down, a
quota) it would be nobody's for ever. The job keeps what is there, which is its minimum at least, and grows again only
after a back-off.
"""

from __future__ import annotations

from typing import Final

from policy.cluster.actions import Effect, Resize, Stalled
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import Gang, State
from policy.cluster.model import WORKER, Job, Phase, Slot
from policy.transitions.gangs import nobody_awaited, plan_name, retarget, rules_of

MOST_DOUBLINGS: Final = 4  # of the rest after a growth that was given back


def absent(draft: Draft, job: Job, gang: Gang) -> int:
    """Of the workers that it was given beyond its minimum, the last ones: neither there nor on their way, nor done."""
    pods = draft.read("pods")
    members = draft.read("members").get(job.uid, {})
    there: list[int] = [
        slot.index + 1
        for slot, uid in members.items()
        if slot.role == WORKER and (pods[uid].holds_room or pods[uid].phase is Phase.SUCCEEDED or uid in gang.in_flight)
    ]
    done = (slot.index + 1 for slot in job.over if slot.role == WORKER)
    kept: int = max(job.min_workers, *there, *done, 0)
    return max(0, gang.workers - kept)


def await_rest(draft: Draft, job: Job, now: float) -> None:
    """Its minimum runs: the others that have a node are given their time to come, too, or to come again."""
    gang = draft.gang(job.uid)
    last = range(gang.workers - absent(draft, job, gang), gang.workers)
    left = sum(1 for index in last if Slot(WORKER, index) in gang.nodes)
    if left and gang.whole and gang.state is State.RUNNING:
        draft.put_gang(replace(gang, awaited=left, deadline=now + rules_of(draft).growing_seconds))


def follow_arrivals(draft: Draft, job: Job, gang: Gang, now: float) -> Gang:
    """With each one that comes the others have their time anew; with the last one earlier failures are forgotten."""
    left = min(gang.awaited, absent(draft, job, gang)) if gang.awaited else 0
    if left == gang.awaited:
        return gang
    if left:
        gang = replace(gang, awaited=left, retried=False, deadline=now + rules_of(draft).growing_seconds)
    else:
        gang = replace(gang, **nobody_awaited(gang, now), attempts=0, not_before=0.0)  # type: ignore[arg-type]
    draft.put_gang(gang)
    return gang


def end_waiting(draft: Draft, job: Job, gang: Gang, now: float, *, gives_back: bool) -> list[Effect]:
    """They are late: reported, and tried once more under a new plan, so that pods which were refused are woken.

    The second time they are given back, where the policy gives workers again by itself and the kind can be resized.
    """
    left = min(gang.awaited, absent(draft, job, gang))
    if not left:
        # A binding whose answer was lost this long ago was either seen by the watch or never made.
        lost: dict[str, object] = {"in_flight": {}, "deadline": None}
        draft.put_gang(replace(gang, **(nobody_awaited(gang, now) if gang.awaited else lost)))  # type: ignore[arg-type]
        return []
    if not gang.retried:
        deadline = now + rules_of(draft).growing_seconds
        draft.put_gang(replace(gang, awaited=left, retried=True, plan=plan_name(draft, now), deadline=deadline))
        return [Stalled(job.uid, gang.workers, left, given_back=False)]
    if not (gives_back and job.elastic):
        draft.put_gang(replace(gang, awaited=left, deadline=None))
        return []
    return give_back(draft, replace(gang, awaited=left), now)


def give_back(draft: Draft, gang: Gang, now: float) -> list[Effect]:
    """The gang keeps what is there, and is not grown again before a rest that doubles with each failure."""
    left, attempts = gang.awaited, gang.attempts + 1
    fewer = retarget(draft, gang, gang.workers - left, {}, now)
    rest = rules_of(draft).growing_seconds * 2.0 ** min(attempts, MOST_DOUBLINGS)
    draft.put_gang(replace(fewer, attempts=attempts, not_before=now + rest))
    return [Stalled(gang.job_uid, gang.workers, left, given_back=True), Resize(gang.job_uid, fewer.workers)]

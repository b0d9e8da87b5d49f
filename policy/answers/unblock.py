"""What would admit a waiting job now: for each kind of change the smallest one, each proved by the policy itself.

A change is made to a copy of the snapshot and the policy decides on that copy; only one after which it admits the job
is told. So an answer is never a guess, and there is none where no such change is enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

from policy.answers.change import Change, Finer, Kind, smallest, with_job
from policy.answers.changes import candidates
from policy.answers.foresee import Course
from policy.answers.operated import forward
from policy.answers.refusals import backs_off_from_refusal
from policy.answers.worth import dearer, with_more_time
from policy.cluster.actions import Admit
from policy.cluster.gang import ADMITTED, State
from policy.cluster.model import Job
from policy.cluster.reasons import Concern
from policy.cluster.snapshot import Snapshot, queued, reason_of
from policy.systems.base import Policy

MOST_PROOFS = 64  # of each kind: every one is a decision about the whole cluster, beside a loop that answers verbs
MOST_PRICED = 12  # of each kind: a schedule is planned for every one of them


def unblock(snapshot: Snapshot, job_uid: str, policy: Policy, now: float) -> tuple[Change, ...]:
    """Return the smallest change of each kind after which the policy admits the job; empty where it waits for no room.

    ``now``: seconds since the epoch. The order of the kinds is that of ``Kind``: the least disturbing first.
    """
    job = snapshot.jobs.get(job_uid)
    if job is None or not queued(job) or snapshot.gang(job_uid).state not in (State.WAITING, State.PAUSED):
        return ()
    if backs_off_from_refusal(snapshot.gang(job_uid)):
        return ()  # to be admitted once more is no start: the API server has the last word
    proved = partial(admits, snapshot, job_uid, policy, now)
    tried = (islice(changes, MOST_PROOFS) for changes in _changes(snapshot, job, policy, now))
    found = (smallest(changes, proved) for changes in tried)
    return tuple(change for change in found if change is not None)


def admits(snapshot: Snapshot, job_uid: str, policy: Policy, now: float, change: Change) -> bool:
    """Tell whether the policy admits the job once the change is made; after a wait, at that moment, if not at once."""
    copy, at = change.apply(snapshot), now + change.wait
    if any(isinstance(action, Admit) and action.job_uid == job_uid for action in policy.decide(copy, at).actions):
        return True
    # Others' time has come, too: they pause, or start first, and what they do must be done before it is the job's turn.
    return change.wait > 0 and forward(copy, (), policy, at).gang(job_uid).state in ADMITTED


def _changes(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> Iterator[Iterable[Change]]:
    """Yield the changes of each kind, smallest first."""
    concern = reason_of(snapshot, job).reason.concern
    if policy.base.judges_once and concern in (Concern.ROOM, Concern.DECISION):
        yield _its_slot(snapshot, job, policy, now)
        yield from _anew(snapshot, job, policy, now)
    elif concern is Concern.ROOM:
        yield from candidates(snapshot, job, policy, now)


# -- what was decided once for all -----------------------------------------------------------------


def _its_slot(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> Iterator[Change]:
    """Yield the slot in which the job's own plan has it run, where the others end as they say."""
    course = Course(snapshot, policy, now)
    for at in course.moments():
        if course.snapshot.gang(job.uid).state in ADMITTED:
            yield Change(
                Kind.WAIT,
                f"wait {math.ceil(at - now)} s, for its slot",
                at - now,
                partial(_then, course.before),
                at - now,
            )
            return


def _then(then: Snapshot, _: Snapshot) -> Snapshot:
    """Return the cluster as time has left it."""
    return then


def _anew(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> Iterator[Iterable[Change]]:
    """Yield the job submitted again, as it is or with a change; it could start with the next slot."""
    at = policy.next_moment(now)
    if math.isinf(at):
        return
    wait = at - now

    def again(before: Snapshot) -> Snapshot:
        fresh = replace(before.jobs[job.uid], arrival=at)
        return with_job(fresh)(replace(before, memory=policy.base.forget(before.memory, job.uid)))

    def below(finer: Finer, at: int) -> Change:
        return over(finer.at(at))

    def over(change: Change) -> Change:
        return replace(
            change,
            apply=lambda s: change.apply(again(s)),
            wait=wait,
            finer=change.finer and Finer(change.finer.count, partial(below, change.finer)),
            text=f"{change.text}, and submit it anew, for the slot that begins in {wait:.0f} s",
        )

    as_it_is = Change(Kind.AGAIN, f"submit it anew, for the slot that begins in {wait:.0f} s", 1, again, wait)
    yield [as_it_is]
    if admits(snapshot, job.uid, policy, now, as_it_is):
        return  # whatever else is changed is of no account
    begun = again(snapshot)
    fresh = begun.jobs[job.uid]
    for kind in (dearer(fresh), with_more_time(fresh), *candidates(begun, fresh, policy, at)):
        yield (over(change) for change in islice(kind, MOST_PRICED) if change.kind is not Kind.WAIT)

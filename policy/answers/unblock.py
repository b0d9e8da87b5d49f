"""Finds what would admit a waiting job now: the smallest change of each kind after which the job starts.

Each change is tried on a copy of the snapshot, on which the policy decides. Only changes after which the policy admits
the job are shown, so the answer may be empty, but it is never a guess.
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
from policy.cluster.job import Job, queued
from policy.cluster.reasons import Concern
from policy.cluster.snapshot import Snapshot, reason_of
from policy.systems.base import Policy
from policy.systems.quotas import decide

# No more changes of each kind are tried than MOST_PROOFS, because a trial is a decision about the whole cluster, during
# which the service is slower. MOST_PRICED is the limit for policies whose trial plans a schedule, such as OASiS.
MOST_PROOFS = 64
MOST_PRICED = 12


def unblock(snapshot: Snapshot, job_uid: str, policy: Policy, now: float) -> tuple[Change, ...]:
    """Return the smallest change of each kind after which the job starts.

    It is empty if the job does not wait for room. The kinds are in the order of ``Kind``, the least disturbing first.
    ``now``: seconds since the epoch.
    """
    job = snapshot.jobs.get(job_uid)
    if job is None or not queued(job) or snapshot.gang(job_uid).state not in (State.WAITING, State.PAUSED):
        return ()
    if backs_off_from_refusal(snapshot.gang(job_uid)):
        return ()  # No change would start the job, because the API server refuses its bindings.
    proved = partial(starts, snapshot, job_uid, policy, now)
    tried = (islice(changes, MOST_PROOFS) for changes in _changes(snapshot, job, policy, now))
    found = (smallest(changes, proved) for changes in tried)
    return tuple(change for change in found if change is not None)


def starts(snapshot: Snapshot, job_uid: str, policy: Policy, now: float, change: Change) -> bool:
    """Tell whether the policy starts the job after the change, and after the wait if the change has one.

    A job whose plan waits for pods to go does not count as started if a finalizer keeps one of these pods.
    """
    copy, at = change.apply(snapshot), now + change.wait
    actions = decide(copy, policy, at).actions
    plan = next((one for one in actions if isinstance(one, Admit) and one.job_uid == job_uid), None)
    if plan is not None and not plan.waits_for:
        return True
    # Other jobs may have to shrink, pause or start before the job. So ``forward`` lets the copy of the snapshot run on,
    # as if each decision were carried out at once; the real cluster is not changed.
    gang = forward(copy, (), policy, at).gang(job_uid) if plan is not None or change.wait > 0 else None
    return gang is not None and gang.admitted and not gang.waits_for


def _changes(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> Iterator[Iterable[Change]]:
    """Yield, for each kind, the changes that may admit the job, smallest first.

    Under a policy that decides about each job only once, the changes are to wait for the job's time slot, or to submit
    the job again.
    """
    concern = reason_of(snapshot, job).reason.concern
    if policy.base.judges_once and concern in (Concern.ROOM, Concern.DECISION):
        yield _its_slot(snapshot, job, policy, now)
        yield from _anew(snapshot, job, policy, now)
    elif concern is Concern.ROOM:
        yield from candidates(snapshot, job, policy, now)


# -- The functions below are for policies that decide about a job only once. -----------------------


def _its_slot(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> Iterator[Change]:
    """Yield the wait until the time slot in which the job starts by its plan, if a simulation reaches such a time slot.

    Running jobs are assumed to end when they state.
    """
    course = Course(snapshot, policy, now)
    for at in course.moments():
        if course.snapshot.gang(job.uid).state in ADMITTED:
            yield Change(
                Kind.WAIT,
                f"wait {math.ceil(at - now)} s until its time slot begins",
                at - now,
                partial(_then, course.before),
                at - now,
            )
            return


def _then(then: Snapshot, _: Snapshot) -> Snapshot:
    """Return the snapshot ``then`` and ignore the other argument, as the ``apply`` of a change that only waits."""
    return then


def _anew(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> Iterator[Iterable[Change]]:
    """Yield, for each kind, the changes by which a user submits the job again so that it may start in the next time
    slot.

    First the job is submitted unchanged. If that does not suffice, the job or the cluster is changed as well.
    """
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
            text=f"{change.text}, and submit the job again, for the time slot that begins in {wait:.0f} s",
        )

    as_it_is = Change(
        Kind.AGAIN, f"submit the job again, for the time slot that begins in {wait:.0f} s", 1, again, wait
    )
    yield [as_it_is]
    if starts(snapshot, job.uid, policy, now, as_it_is):
        return  # To submit the job again suffices, so no change of the job has to be tried.
    begun = again(snapshot)
    fresh = begun.jobs[job.uid]
    for kind in (dearer(fresh), with_more_time(fresh), *candidates(begun, fresh, policy, at)):
        yield (over(change) for change in islice(kind, MOST_PRICED) if change.kind is not Kind.WAIT)

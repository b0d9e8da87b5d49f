"""What a look at a job and its pods finds; the table in ``settle.py`` says what follows from it."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from policy.cluster.draft import Draft
from policy.cluster.gang import Gang, State
from policy.cluster.model import Job, Slot, queued, releasing
from policy.transitions.gangs import any_stays, bound_slots, complete, least_workers


class Finding(Enum):
    """What a look at a job and its pods finds; the first that holds.

    FINISHED: the job has ended.
    WITHDRAWN: the job is suspended, being deleted, malformed, or asked by us to give its room up. A gang that is moved
    is not withdrawn by the suspension that moves it.
    ENOUGH: the minimum is bound or has succeeded, and a member is bound or being bound.
    ENDED: the minimum has succeeded or will never come again, and no member is bound or being bound.
    TOO_FEW: less than the minimum, and a member is bound or being bound.
    NOBODY: less than the minimum, and no member is bound or being bound.

    A member that is terminating, or whose node is gone, does not count as bound. A binding in flight does not count for
    a gang that waits: it was sent under an earlier plan.
    """

    FINISHED = "finished"
    WITHDRAWN = "withdrawn"
    ENOUGH = "enough"
    ENDED = "ended"
    TOO_FEW = "too few"
    NOBODY = "nobody"


class Look(NamedTuple):
    """One look at a job. bound: slots whose pod is bound or has succeeded, and those that are done for good."""

    job: Job
    finding: Finding
    bound: Collection[Slot]
    now: float

    @property
    def whole(self) -> bool:
        """Whether the minimum is complete."""
        return self.finding in (Finding.ENOUGH, Finding.ENDED)


def look_at(draft: Draft, job: Job, gang: Gang, now: float) -> Look:
    """Return what the job and its pods show now."""
    if job.finished:
        return Look(job, Finding.FINISHED, (), now)
    if not (queued(job) or (gang.state is State.MIGRATING and releasing(job))):
        return Look(job, Finding.WITHDRAWN, (), now)
    bound = bound_slots(draft, job.uid)
    there = any_stays(draft, job.uid) or bool(gang.in_flight and gang.state is not State.WAITING)
    if complete(job, bound, least_workers(job, gang), gang.ps):
        return Look(job, Finding.ENOUGH if there else Finding.ENDED, bound, now)
    return Look(job, Finding.TOO_FEW if there else Finding.NOBODY, bound, now)

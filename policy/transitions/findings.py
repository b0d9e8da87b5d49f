"""What a look at a job and its pods finds; the table in ``settle.py`` says what is done then."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from policy.cluster.draft import Draft
from policy.cluster.gang import Gang, State
from policy.cluster.job import Job, Slot, queued, releasing
from policy.transitions.gangs import any_stays, bound_slots, complete, least_workers


class Finding(Enum):
    """What a look at a job and its pods finds; if several findings are true, the first of them in this order counts.

    FINISHED: the job has ended.
    WITHDRAWN: the job must not run now: it is being deleted, malformed, or suspended by its user or by Kohort. A
    suspension by Kohort that is part of a migration does not count.
    ENOUGH: the minimum is bound or has succeeded, and a member is bound or being bound.
    ENDED: the minimum has succeeded or will never come again, and no member is bound or being bound.
    TOO_FEW: less than the minimum, and a member is bound or being bound.
    NOBODY: less than the minimum, and no member is bound or being bound.

    A member that is terminating, or whose node is gone, does not count as bound. The binding in flight of a gang that
    waits does not count as being bound, because it was sent under an earlier plan.
    """

    FINISHED = "finished"
    WITHDRAWN = "withdrawn"
    ENOUGH = "enough"
    ENDED = "ended"
    TOO_FEW = "too few"
    NOBODY = "nobody"


class Look(NamedTuple):
    """The result of one look at a job.

    bound: the slots whose pod is bound, has succeeded, or will never come again; empty if the finding is FINISHED or
    WITHDRAWN. now: the time of the look, in seconds since the epoch.
    """

    job: Job
    finding: Finding
    bound: Collection[Slot]
    now: float

    @property
    def whole(self) -> bool:
        """Whether every slot of the gang's minimum is bound, has succeeded, or will get no pod again."""
        return self.finding in (Finding.ENOUGH, Finding.ENDED)


def look_at(draft: Draft, job: Job, gang: Gang, now: float) -> Look:
    """Return what a look at the job and its pods finds now: whether the job has finished or must not run, and otherwise
    whether its minimum is bound.
    """
    if job.finished:
        return Look(job, Finding.FINISHED, (), now)
    if not (queued(job) or (gang.state is State.MIGRATING and releasing(job))):
        return Look(job, Finding.WITHDRAWN, (), now)
    bound = bound_slots(draft, job.uid)
    there = any_stays(draft, job.uid) or bool(gang.in_flight and gang.state is not State.WAITING)
    if complete(job, bound, least_workers(job, gang), gang.ps):
        return Look(job, Finding.ENOUGH if there else Finding.ENDED, bound, now)
    return Look(job, Finding.TOO_FEW if there else Finding.NOBODY, bound, now)

"""What follows when a user edits the bounds or the number of workers of a job."""

from __future__ import annotations

from collections.abc import Iterator

from policy.cluster.actions import Edited
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import ADMITTED
from policy.cluster.job import Job
from policy.transitions.gangs import retarget


def edited_bounds(old: Job, job: Job) -> Iterator[Edited]:
    """Yield a report for each bound of workers that the job object states differently than before.

    A bound that is not stated but follows from the replicas is not reported here.
    """
    # A user stops a job whose kind cannot be suspended by setting its replicas to 0. The bounds do not count then.
    if any(one.invalid or (one.suspended and not one.suspends) for one in (old, job)):
        return
    if job.min_stated and old.min_workers != job.min_workers:
        yield Edited(job.uid, "min-workers", old.min_workers, job.min_workers, kept=True)
    if job.max_stated and old.max_workers != job.max_workers:
        yield Edited(job.uid, "max-workers", old.max_workers, job.max_workers, kept=True)


def respect_edit(draft: Draft, old: Job, before: int, job: Job, asked: int, now: float) -> list[Edited]:
    """Take over a number of replicas that a user has set on the job object, and return a report of the edit.

    before, asked: the number in the old and in the new version of the object. A lower number is always taken over. A
    higher number is taken over only while this replica of Kohort does not lead: where it leads, only the policy grows
    jobs, and the controller sets the number back. A number that Kohort itself has ordered is no edit, even if it is
    seen late, after the target has changed again.
    """
    gang = draft.gang(job.uid)
    if gang.state not in ADMITTED or asked == before or job.invalid:
        return []
    if asked == gang.workers:
        draft.put_gang(replace(gang, scaling=replace(gang.scaling, targets=())))
        return []
    follows = not draft.now.leading
    wanted = _within(job, asked)
    lowered = wanted < gang.workers and asked not in gang.scaling.targets
    if follows or lowered:
        retarget(draft, gang, wanted, {}, now)
    # If Kohort takes workers one by one, the job object shows the numbers in between, which no user has set.
    ours = asked in gang.scaling.targets or gang.workers < asked < before
    return [] if ours else [_report(old, before, job, asked, gang.workers, taken=follows or lowered)]


def _report(old: Job, before: int, job: Job, asked: int, target: int, *, taken: bool) -> Edited:
    """Return the report that a user has changed the replicas from ``before`` to ``asked``.

    ``taken``: the number was taken over. Otherwise, if the job's maximum follows from the replicas, the report says
    that the user has raised the maximum.
    """
    # If ``asked`` is the target limited to the job's new bounds, it is in force as well, because settle.py resizes the
    # gang to that number.
    if taken or asked == _within(job, target):
        return Edited(job.uid, "workers", before, asked, kept=True)
    if not job.max_stated and old.max_workers < job.max_workers == asked:
        return Edited(job.uid, "max-workers", old.max_workers, asked, kept=True)
    return Edited(job.uid, "workers", before, asked, kept=False)


def _within(job: Job, workers: int) -> int:
    """Return the number within the job's bounds that is nearest to ``workers``."""
    return min(max(workers, job.min_workers), job.max_workers)

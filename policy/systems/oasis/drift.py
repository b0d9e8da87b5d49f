"""Computes how far a job is behind its schedule or ahead of it, by its own progress reports."""

from __future__ import annotations

import math

from policy.cluster.snapshot import Snapshot
from policy.systems.base import Drift
from policy.systems.oasis.schedule import MEMORY, Book, Plan
from policy.systems.oasis.workload import work_of


def drift_of(snapshot: Snapshot, uid: str, slot_seconds: float, tolerance: float, now: float) -> Drift | None:
    """Return how far the job is behind its plan or ahead of it, by its own progress reports.

    The result is None if the job has no plan, or no progress report from this time slot or the one before. The work
    that the job still needs is compared with the work that its plan has left at the time of the report. A report from
    the time slot before is projected to the beginning of this one, at this time slot's number of workers. tolerance:
    the share of its plan by which a job may be late before it is planned again.
    """
    book, slot = snapshot.memory.get(MEMORY), math.floor(now / slot_seconds)
    plan = book.plans_at(slot).get(uid) if isinstance(book, Book) else None
    told = next((one for one in reversed(snapshot.reports.get(uid, ())) if one.done is not None), None)
    begin = slot * slot_seconds
    if plan is None or uid not in snapshot.jobs or told is None or told.at < begin - slot_seconds:
        return None
    shift = plan.at(slot)
    # ``passed`` is the number of worker-slots in the plan between the beginning of the time slot and the report; it is
    # negative if the report is from the time slot before.
    passed = (told.at - begin) / slot_seconds * (shift.units if shift else 0)
    whole = work_of(snapshot.jobs[uid], slot_seconds).work
    needed = max(0.0, whole * (1.0 - (told.done or 0.0)) + min(0.0, passed))
    scheduled = max(0.0, plan.left(slot) - max(0.0, passed))
    return Drift(needed, scheduled, whole, told.at, _follows(plan, slot, needed, scheduled, tolerance))


def _follows(plan: Plan, slot: int, needed: float, scheduled: float, tolerance: float) -> str:
    """Return in words how the plan will be changed at the next time slot because of the drift; empty if it will not."""
    if needed > scheduled * (1.0 + tolerance):
        return "the rest is planned again at the next time slot"
    spare = plan.last > slot + 1 and scheduled - plan.shifts[-1].units >= needed
    return "its last time slots are given back at the next time slot" if spare else ""

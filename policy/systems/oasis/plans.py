"""The plans of all jobs during one decision, and when a job is planned again.

The paper plans a job once, on arrival. Kohort also follows nodes that come and go, bounds that a user changes, progress
reports, and jobs that run without a plan: docs/policies/oasis.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from policy.cluster.frozen import replace
from policy.cluster.job import WORKER, Job, queued
from policy.cluster.node import Node
from policy.cluster.resources import Resources
from policy.cluster.snapshot import Snapshot
from policy.placement.gang import barred
from policy.systems.oasis.execute import within
from policy.systems.oasis.planner import Planner, Window
from policy.systems.oasis.prices import Pricing
from policy.systems.oasis.schedule import Plan, Seen, Shift
from policy.systems.oasis.workload import Work, work_of


@dataclass
class Plans:
    """The plans of all jobs (``by_uid``), which one decision changes.

    seen: the jobs from which the bounds of the prices are computed before this decision's jobs are counted. slot: the
    present time slot. window: the time slots that may still be planned. works: by uid, the work of the jobs that are
    planned in this decision.
    """

    snapshot: Snapshot
    pricing: Pricing
    nodes: list[tuple[Node, Resources]]
    seen: Sequence[Seen]
    slot: int
    slot_seconds: float
    window: Window
    by_uid: dict[str, Plan]
    works: dict[str, Work] = field(default_factory=dict)
    _crowds: bool = False

    @cached_property
    def planner(self) -> Planner:
        """The planner with the prices and the room that the plans leave; made when the first job is planned."""
        return Planner(self.pricing, self.nodes, self.by_uid.values(), self.seen, self.works.values(), self.window)

    def forget_past(self) -> None:
        """Drop the time slots before the present one from each plan."""
        self.by_uid = {uid: plan.since(self.slot) for uid, plan in self.by_uid.items()}

    def adopt(self, job: Job, horizon: int) -> None:
        """Make a plan for a job that runs without one: the job runs on unchanged until its work is done.

        If the plans of others leave no room for that, the job runs on unchanged in this time slot only, and the rest of
        its work is planned like a new job's. A job that cannot be suspended keeps its room; ``make_room`` then plans
        the other jobs again. horizon: the most time slots for which the job is planned.
        """
        work = self.works[job.uid]
        plan = self._as_it_is(job, work, self.slot, horizon)
        self.planner.book(plan)
        if work.holds:
            self._crowds = True
        elif self.planner.overfull():
            self.planner.free(plan)
            self._force(job, work)
            self.planner.free(self.by_uid[job.uid])
            plan = replace(plan, shifts=(plan.shifts[0], *self.by_uid[job.uid].since(self.slot + 1).shifts))
            self.planner.book(plan)
        self.by_uid[job.uid] = plan

    def resume(self, job: Job) -> None:
        """Plan again for a job that was admitted before and that its user has resumed, whether or not that pays."""
        self._force(job, self.works[job.uid])

    def _as_it_is(self, job: Job, work: Work, first: int, most: int) -> Plan:
        """Return a plan in which the job's members stay where they are until its work is done.

        first: the time slot in which the plan starts. most: the most time slots that it has.
        """
        gang = self.snapshot.gang(job.uid)
        sized = {WORKER, *(part.role for part in work.parts)}
        there = Counter((slot.role, node) for slot, node in gang.nodes.items() if slot.role in sized)
        layout = tuple(sorted((role, node, count) for (role, node), count in there.items()))
        slots = min(most, math.ceil(work.work / max(1, gang.workers)))
        return Plan(work, tuple(Shift(first + later, layout) for later in range(slots)))

    def _holds_on(self, uid: str) -> bool:
        """Tell whether the job holds room that it cannot give up, because its kind cannot be suspended."""
        return self.by_uid[uid].work.holds and self.snapshot.gang(uid).admitted

    def _force(self, job: Job, work: Work, *, freed: bool = False) -> None:
        """Make a new plan for a job that was admitted before, even if the plan does not pay.

        If there is not enough room, as much of the work is planned as there is room for; the rest is planned when later
        time slots begin. A running job that cannot be suspended stays where it is: if the new plan would move it, it
        runs on unchanged, and the other jobs are planned again around it. ``freed``: the room of the job's old plan has
        been given back already.
        """
        old = self.by_uid.get(job.uid)
        if old is not None and not freed:
            self.planner.free(old)
        kept = tuple(shift for shift in old.shifts if shift.slot < self.window.first) if old else ()
        stays = work.holds and self.snapshot.gang(job.uid).admitted
        refused = barred(self.snapshot, job)
        quote = self.planner.quote(work, refused, whatever=True, part=not stays, at_once=stays)
        made = quote.plan or Plan(work, ())
        if stays and not self._stays_put(job, quote.plan):
            made, self._crowds = self._as_it_is(job, work, self.window.first, self.window.slots), True
        plan = replace(made, work=old.work if old else work, shifts=(*kept, *made.shifts))
        self.by_uid[job.uid] = plan
        self.planner.book(plan)

    def _stays_put(self, job: Job, plan: Plan | None) -> bool:
        """Tell whether the plan leaves the job's members where they are.

        It is also true if the user's new bounds forbid the number of workers that the job has now.
        """
        if plan is None:
            return False
        as_it_is = self._as_it_is(job, plan.work, plan.shifts[0].slot, 1).shifts[0]
        there, offered = (Counter({part[:2]: part[2] for part in one.layout}) for one in (as_it_is, plan.shifts[0]))
        return there <= offered or offered <= there or not within(job, as_it_is)

    def make_room(self) -> None:
        """Plan other jobs again if a job that cannot be suspended has been planned into the room of their plans."""
        if self._crowds:
            self.repair()

    def repair(self) -> None:
        """Make new plans for jobs whose plans use lost nodes or take more than a node has.

        Running jobs that cannot be suspended are planned first, and may take room that other plans have. The other jobs
        follow, those of the highest utility first.
        """
        names, first = {node.name for node, _ in self.nodes}, self.window.first
        broken = {uid for uid, plan in self.by_uid.items() if not plan.stands(names, first)}
        for uid in broken:
            self.planner.free(self.by_uid[uid])
        for uid in sorted(uid for uid in broken if self._holds_on(uid)):
            self._make_anew(uid)
            broken.remove(uid)
        while over := self.planner.overfull():
            victim = min(
                (
                    uid
                    for uid, plan in self.by_uid.items()
                    if uid not in broken and plan.touches(over) and not self._holds_on(uid)
                ),
                key=lambda uid: (self._stake(uid), uid),
                default=None,
            )
            if victim is None:
                break  # No plan can be changed any more, because foreign pods took the room.
            self.planner.free(self.by_uid[victim])
            broken.add(victim)
        for uid in sorted(broken, key=lambda uid: (-self._stake(uid), uid)):
            self._make_anew(uid)

    def _make_anew(self, uid: str) -> None:
        """Make a new plan for the rest of the job's work; the old plan's room has been given back already."""
        plan = self.by_uid[uid]
        rest = replace(plan.work, work=max(1, plan.left(self.window.first)))
        self._force(self.snapshot.jobs[uid], rest, freed=True)

    def _stake(self, uid: str) -> float:
        """Return the utility that the job has if it completes as planned."""
        return self.by_uid[uid].work.worth(self.by_uid[uid].last)

    def obey_edits(self) -> None:
        """Make new plans for jobs whose plans break the bounds of workers that the user has set since."""
        first = self.window.first
        for uid, plan in sorted(self.by_uid.items()):
            job = self.snapshot.jobs[uid]
            if not queued(job) or all(within(job, shift) for shift in plan.shifts if shift.slot >= first):
                continue
            now = work_of(job, self.slot_seconds)
            self.works[uid] = replace(plan.work, least=now.least, most=now.most, work=max(1, plan.left(first)))
            self._force(job, self.works[uid])

    def follow_reports(self, drift: float) -> None:
        """Plan jobs again that are behind their plan, and drop the last time slots of plans whose jobs are ahead.

        drift: the share of its plan by which a job may be late before it is planned again.
        """
        for uid, plan in sorted(self.by_uid.items()):
            need = self._need(uid, plan)
            if need is None:
                continue
            planned = plan.left(self.slot)
            if need > planned * (1.0 + drift):
                job = self.snapshot.jobs[uid]
                self.works[uid] = replace(plan.work, work=max(1, math.ceil(need - 1e-6)))
                self._go_on(job)
                self._force(job, self.works[uid])
            else:
                self._trim(uid, plan, need)

    def _need(self, uid: str, plan: Plan) -> float | None:
        """Return how many worker-slots of work remain by the job's own reports; None if its plan need not change.

        If the job has not reported its progress lately, `_overdue` estimates the work.
        """
        reports = [report for report in self.snapshot.reports.get(uid, ()) if report.done is not None]
        start = self.slot * self.slot_seconds
        if not reports or reports[-1].at < start - self.slot_seconds:
            return self._overdue(uid, plan) if not plan.left(self.slot) else None
        last = reports[-1]
        before = plan.at(self.slot - 1)
        since = max(0.0, start - last.at) / self.slot_seconds
        work = work_of(self.snapshot.jobs[uid], self.slot_seconds).work
        return work * (1.0 - (last.done or 0.0)) - since * (before.units if before else 0)

    def _overdue(self, uid: str, plan: Plan) -> float | None:
        """Return how many worker-slots to plan for a job whose plan is over; None if it is too early for that.

        A job that has run gets one more worker-slot at a time, but not yet at the very beginning of the time slot after
        its plan's end. A job that never started has missed its whole plan, and is planned for all of its work.
        """
        gang = self.snapshot.gang(uid)
        if not gang.admitted:
            return float(plan.work.work) if gang.admitted_at is None else 1.0
        if self._holds_on(uid):
            return 1.0  # A job that cannot be suspended keeps its room even if that was planned for others.
        late = plan.last < self.slot - 1 or self.window.first > self.slot
        return 1.0 if late else None

    def _go_on(self, job: Job) -> None:
        """Extend the plan of a running job to the end of the present time slot if that can no longer be planned.

        The job's members stay where they are.
        """
        plan, gang = self.by_uid[job.uid], self.snapshot.gang(job.uid)
        if gang.admitted and self.window.first > self.slot and plan.at(self.slot) is None:
            rest = self._as_it_is(job, plan.work, self.slot, 1)
            self.by_uid[job.uid] = replace(plan, shifts=(*plan.shifts, *rest.shifts))

    def _trim(self, uid: str, plan: Plan, need: float) -> None:
        shifts = list(plan.shifts)
        left = plan.left(self.slot)
        while shifts and shifts[-1].slot > self.slot and left - shifts[-1].units >= need:
            left -= shifts.pop().units
        if len(shifts) < len(plan.shifts):
            self.by_uid[uid] = replace(plan, shifts=tuple(shifts))

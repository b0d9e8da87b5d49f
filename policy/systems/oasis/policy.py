"""OASiS: on arrival a job's best schedule is found at the prices of the moment; it is admitted if it pays, or refused.

Section numbers are those of the paper; docs/policies/oasis.md says where we differ and why.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from policy.cluster.actions import Action, Decision, Reject, Remember
from policy.cluster.frozen import replace
from policy.cluster.gang import State
from policy.cluster.model import WORKER, Job, Node, lives
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import Resources
from policy.cluster.snapshot import Snapshot, queued
from policy.placement.gang import barred
from policy.systems.base import Drift, Parts
from policy.systems.oasis.drift import drift_of
from policy.systems.oasis.execute import Slotwork, within
from policy.systems.oasis.keep import read_book, write_book
from policy.systems.oasis.market import prices_now
from policy.systems.oasis.planner import Planner, Quote, Window, hopeless, seen_of
from policy.systems.oasis.prices import Floor, Pricing, usable
from policy.systems.oasis.schedule import MEMORY, Book, Plan, Refusal, Seen, Shift
from policy.systems.oasis.workload import Work, work_of
from policy.systems.queue import Feasible, bar


@dataclass(frozen=True, slots=True)
class Oasis:
    """OASiS's parameters.

    slot_seconds: length of a slot (the paper: an hour or more). horizon: slots that are planned ahead (T).
    end: end of the timespan, seconds since the epoch: nothing is planned beyond it; infinite: the window rolls.
    floor, price_ratio: L, the price of an idle resource; U / L where it is not the paper's (25, 26).
    u_scale, l_scale: U and L are estimated wrong by this factor (Figure 6).
    hopeless: a job whose best schedule is worth less than this share of theta1 is refused and sets no price.
    grace: share of a slot within which the slot counts as not begun. drift: by how much of its plan a job may be late.
    known: jobs that the bounds U and L take for granted; without them they come from the jobs seen in the last T slots.
    """

    slot_seconds: float = 600.0
    horizon: int = 100
    end: float = math.inf
    floor: Floor = Floor.RATIO
    price_ratio: float = 1e4
    u_scale: float = 1.0
    l_scale: float = 1.0
    hopeless: float = 0.01
    grace: float = 0.05
    drift: float = 0.05
    known: tuple[Seen, ...] = ()

    def __post_init__(self) -> None:
        for name in ("slot_seconds", "horizon", "price_ratio", "u_scale", "l_scale"):
            if not getattr(self, name) > 0:
                raise ValueError(f"oasis: {name} is {getattr(self, name)!r}, must be above 0")

    @property
    def name(self) -> str:
        """``oasis``."""
        return "oasis"

    @property
    def pricing(self) -> Pricing:
        """How prices are found."""
        return Pricing(self.floor, self.price_ratio, self.u_scale, self.l_scale)

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Mend the plans, decide about the new jobs in order of arrival, and give every job what its plan says."""
        return Pass(self, snapshot, now).run()

    def next_moment(self, now: float) -> float:
        """The beginning of the next slot; a rounding later where it would still be counted to this one."""
        slot = math.floor(now / self.slot_seconds)
        at = (slot + 1) * self.slot_seconds
        return at if math.floor(at / self.slot_seconds) > slot else math.nextafter(at, math.inf)

    def prices(self, snapshot: Snapshot, now: float) -> Mapping[str, float]:
        """What one unit of each resource costs in this slot, as the mean over the nodes."""
        book = snapshot.memory.get(MEMORY)
        slot = math.floor(now / self.slot_seconds)
        held = book if isinstance(book, Book) else Book()
        return prices_now(self.pricing, usable(snapshot), held, self.known, slot, self.horizon)

    def against_schedule(self, snapshot: Snapshot, job_uid: str, now: float) -> Drift | None:
        """How the job stands against its plan, by its own reports."""
        return drift_of(snapshot, job_uid, self.slot_seconds, self.drift, now)

    def parts(self, memory: Mapping[str, object]) -> Mapping[str, Parts]:
        """Each job's part of the book."""
        book = memory.get(MEMORY)
        return {uid: {self.name: part} for uid, part in write_book(book).items()} if isinstance(book, Book) else {}

    def recalled(self, snapshot: Snapshot, parts: Mapping[str, Parts]) -> Mapping[str, object]:
        """The book of these parts."""
        return {MEMORY: read_book(snapshot, parts, self.name)}

    def forget(self, memory: Mapping[str, object], job_uid: str) -> Mapping[str, object]:
        """The book without the job's plan or refusal; what it has done to the bounds of the prices stays."""
        book = memory.get(MEMORY)
        if not isinstance(book, Book):
            return memory
        plans = {uid: plan for uid, plan in book.plans.items() if uid != job_uid}
        rejected = {uid: one for uid, one in book.rejected.items() if uid != job_uid}
        return {**memory, MEMORY: replace(book, plans=plans, rejected=rejected)}

    def window(self, now: float) -> Window:
        """The slots that may still be planned; the one that has begun is not among them."""
        slot = math.floor(now / self.slot_seconds)
        begun = now - slot * self.slot_seconds > self.grace * self.slot_seconds
        first = slot + 1 if begun else slot
        left = self.end / self.slot_seconds - first if math.isfinite(self.end) else self.horizon
        return Window(first, max(0, min(self.horizon, math.floor(left + 1e-9))))


class Pass:
    """One decision. ``plans`` and ``rejected`` are the memory as it will be."""

    def __init__(self, policy: Oasis, snapshot: Snapshot, now: float) -> None:
        self.policy, self.snapshot, self.now = policy, snapshot, now
        remembered = snapshot.memory.get(MEMORY)
        self.book = remembered if isinstance(remembered, Book) else Book()
        self.slot = math.floor(now / policy.slot_seconds)
        self.window = policy.window(now)
        self.nodes: list[tuple[Node, Resources]] = usable(snapshot)
        self.plans = {uid: plan for uid, plan in self.book.plans_at(self.slot).items() if self._lives(uid)}
        self.rejected = {uid: one for uid, one in self.book.rejected_by(self.slot).items() if self._lives(uid)}
        self.seen = self.book.seen
        self.actions: list[Action] = []
        self.verdicts: dict[str, Verdict] = {}
        self._fresh: dict[str, Work] = {}

    def _lives(self, uid: str) -> bool:
        job = self.snapshot.jobs.get(uid)
        return job is not None and lives(job)

    def run(self) -> Decision:
        """Repairs first, then arrivals, then the slot's orders."""
        ground = tuple((node.name, room) for node, room in self.nodes)
        began = self.slot != self.book.slot
        arrivals, adopted = self._undecided(), self._adopted()
        self._fresh = {job.uid: work_of(job, self.policy.slot_seconds) for job in (*arrivals, *adopted)}
        if began:
            self._follow_reports()
        self._obey_edits()
        if ground != self.book.ground:
            self._repair()
        for job in adopted:
            self.rejected.pop(job.uid, None)  # somebody else has bound it: what runs is never refused
            self._adopt(job, self._fresh[job.uid])
        for job in arrivals:
            self._decide_about(job)
        if began:
            self.plans = {uid: plan.since(self.slot) for uid, plan in self.plans.items()}
        orders = Slotwork(
            self.snapshot, self.plans, {node.name: (node, room) for node, room in self.nodes}, self.slot,
            self.policy.slot_seconds, self.now, set() if began else set(self.book.righted),
        )  # fmt: skip
        orders.run()
        verdicts = {**self._told(), **self.verdicts, **orders.verdicts}
        righted = tuple(sorted(orders.righted))
        book = Book(self.plans, self.rejected, self.seen, self.slot, ground, righted)
        remember = [Remember(MEMORY, book)] if book != self.book else []
        return Decision((*self.actions, *orders.actions, *remember), verdicts)

    def _told(self) -> dict[str, Verdict]:
        return {uid: Verdict(Reason.REJECTED, one.why) for uid, one in self.rejected.items()}

    @cached_property
    def planner(self) -> Planner:
        """Prices and room; made only when somebody is to be planned."""
        seen = (*self.policy.known, *self.seen.values())
        works = self._fresh.values()
        return Planner(self.policy.pricing, self.nodes, self.plans.values(), seen, works, self.window)

    # -- arrivals --------------------------------------------------------------------------------

    def _undecided(self) -> list[Job]:
        """Waiting jobs that nothing was decided about and that may be considered, in order of arrival."""
        could, found = Feasible(self.snapshot), []
        for job in self.snapshot.waiting():
            if job.uid in self.plans or job.uid in self.rejected:
                continue
            verdict = bar(self.snapshot, job, self.now, could)
            if verdict is None:
                found.append(job)
            else:
                self.verdicts[job.uid] = verdict
        return sorted(found, key=lambda job: (job.arrival, job.uid))

    def _decide_about(self, job: Job) -> None:
        work = self._fresh[job.uid]
        if hopeless(work, self.window.first, self.policy.hopeless):
            best = work.worth(max(work.arrival, self.window.first) + work.shortest)
            self._reject(job, f"worth {best:.4g} at best, of {work.utility.value:.4g}")
            return
        oldest = self.slot - self.policy.horizon
        kept = {uid: one for uid, one in self.seen.items() if one.slot > oldest}
        self.seen = {**kept, job.uid: seen_of(work, self.window)}
        self.planner.see((*self.policy.known, *self.seen.values()))
        quote = self.planner.quote(work, barred(self.snapshot, job))
        if quote.plan is None:
            self._reject(job, self._why(quote))
            return
        self.planner.book(quote.plan)
        self.plans[job.uid] = quote.plan

    def _reject(self, job: Job, why: str) -> None:
        self.rejected[job.uid] = Refusal(why, self.slot)
        self.actions.append(Reject(job.uid, Reason.REJECTED, why))

    def _why(self, quote: Quote) -> str:
        """Payoff, price and worth, and the slot in which the job's workers are cheapest."""
        if quote.best is None:
            return f"it does not fit into the {self.window.slots} slots that are planned"
        best = quote.best
        text = f"payoff {best.payoff:.4g}: worth {best.worth:.4g}, price {best.cost:.4g}"
        if quote.cheapest is not None:
            slot, price = quote.cheapest
            text += f"; cheapest slot is {slot}, {price:.4g} for its fewest workers"
        return text

    # -- plans that have to change ---------------------------------------------------------------

    def _adopted(self) -> list[Job]:
        """Running jobs without a plan: found after a restart, or begun under another policy."""
        states = (State.RUNNING, State.REPAIRING)
        jobs = (job for job in self.snapshot.running() if job.uid not in self.plans and queued(job))
        return [job for job in jobs if self.snapshot.gang(job.uid).state in states]

    def _adopt(self, job: Job, work: Work) -> None:
        """What runs without a plan goes on as it is until its work is done.

        Where others' plans leave no room for that, only in this slot: then it is planned like anybody.
        """
        gang = self.snapshot.gang(job.uid)
        sized = {WORKER, *(part.role for part in work.parts)}
        there = Counter((slot.role, node) for slot, node in gang.nodes.items() if slot.role in sized)
        layout = tuple(sorted((role, node, count) for (role, node), count in there.items()))
        slots = min(self.policy.horizon, math.ceil(work.work / max(1, gang.workers)))
        plan = Plan(work, tuple(Shift(self.slot + later, layout) for later in range(slots)))
        self.planner.book(plan)
        if self.planner.overfull():
            self.planner.free(plan)
            self._force(job, work)
            self.planner.free(self.plans[job.uid])
            plan = replace(plan, shifts=(plan.shifts[0], *self.plans[job.uid].since(self.slot + 1).shifts))
            self.planner.book(plan)
        self.plans[job.uid] = plan

    def _force(self, job: Job, work: Work, *, freed: bool = False) -> None:
        """A new plan from now on, whether or not it pays: who was admitted is never refused (payoff test off).

        Where there is not room enough, as much of the work as there is room for; the rest is planned in later slots.
        ``freed``: the old plan's room has been given back.
        """
        old = self.plans.get(job.uid)
        if old is not None and not freed:
            self.planner.free(old)
        kept = tuple(shift for shift in old.shifts if shift.slot < self.window.first) if old else ()
        quote = self.planner.quote(work, barred(self.snapshot, job), whatever=True, part=True)
        made = quote.plan or Plan(work, ())
        plan = replace(made, work=old.work if old else work, shifts=(*kept, *made.shifts))
        self.plans[job.uid] = plan
        self.planner.book(plan)

    def _repair(self) -> None:
        """Nodes came or went: plans that no longer fit are made anew, the most valuable first."""
        names, first = {node.name for node, _ in self.nodes}, self.window.first
        broken = {uid for uid, plan in self.plans.items() if not plan.stands(names, first)}
        for uid in broken:
            self.planner.free(self.plans[uid])
        while over := self.planner.overfull():
            victim = min(
                (uid for uid, plan in self.plans.items() if uid not in broken and plan.touches(over)),
                key=lambda uid: (self._stake(uid), uid),
                default=None,
            )
            if victim is None:
                break  # pods that are no job's of ours took the room of this very slot
            self.planner.free(self.plans[victim])
            broken.add(victim)
        for uid in sorted(broken, key=lambda uid: (-self._stake(uid), uid)):
            plan = self.plans[uid]
            self._force(self.snapshot.jobs[uid], replace(plan.work, work=max(1, plan.left(first))), freed=True)

    def _stake(self, uid: str) -> float:
        """What the job is worth if it completes as planned."""
        return self.plans[uid].work.worth(self.plans[uid].last)

    def _obey_edits(self) -> None:
        """Plans that stand against bounds which the user has changed since are made anew, from the next slot on."""
        first = self.window.first
        for uid, plan in sorted(self.plans.items()):
            job = self.snapshot.jobs[uid]
            if not queued(job) or all(within(job, shift) for shift in plan.shifts if shift.slot >= first):
                continue
            now = work_of(job, self.policy.slot_seconds)
            self._fresh[uid] = replace(plan.work, least=now.least, most=now.most, work=max(1, plan.left(first)))
            self._force(job, self._fresh[uid])

    def _follow_reports(self) -> None:
        """At the beginning of a slot: jobs that are behind their plan are planned anew, those ahead give slots back."""
        for uid, plan in sorted(self.plans.items()):
            need = self._need(uid, plan)
            if need is None:
                continue
            planned = plan.left(self.slot)
            if need > planned * (1.0 + self.policy.drift):
                job = self.snapshot.jobs[uid]
                self._fresh[uid] = replace(plan.work, work=max(1, math.ceil(need - 1e-6)))
                self._force(job, self._fresh[uid])
            else:
                self._trim(uid, plan, need)

    def _need(self, uid: str, plan: Plan) -> float | None:
        """Worker-slots that are left by the job's own account; None where it has not said."""
        reports = [report for report in self.snapshot.reports.get(uid, ()) if report.done is not None]
        start = self.slot * self.policy.slot_seconds
        if not reports or reports[-1].at < start - self.policy.slot_seconds:
            return self._overdue(uid, plan) if not plan.left(self.slot) else None
        last = reports[-1]
        before = plan.at(self.slot - 1)
        since = max(0.0, start - last.at) / self.policy.slot_seconds
        work = work_of(self.snapshot.jobs[uid], self.policy.slot_seconds).work
        return work * (1.0 - (last.done or 0.0)) - since * (before.workers if before else 0)

    def _overdue(self, uid: str, plan: Plan) -> float | None:
        """Worker-slots of a job that is past its plan, which it is the end of a slot at the soonest.

        One that runs is given one after another; one that never started has missed its plan, all of it.
        """
        gang = self.snapshot.gang(uid)
        if not gang.admitted:
            return float(plan.work.work) if gang.admitted_at is None else 1.0
        late = plan.last < self.slot - 1 or self.window.first > self.slot
        return 1.0 if late else None

    def _trim(self, uid: str, plan: Plan, need: float) -> None:
        shifts = list(plan.shifts)
        left = plan.left(self.slot)
        while shifts and shifts[-1].slot > self.slot and left - shifts[-1].workers >= need:
            left -= shifts.pop().workers
        if len(shifts) < len(plan.shifts):
            self.plans[uid] = replace(plan, shifts=tuple(shifts))

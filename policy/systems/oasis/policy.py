"""OASiS: when a job arrives, its best schedule at the present prices is found, and it is admitted if that pays.

Algorithm and section numbers are those of the paper: its Algorithm 1 admits or refuses a job, and its Algorithm 2 finds
the job's best schedule. docs/policies/oasis.md says where Kohort differs and why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from policy.cluster.actions import Action, Decision, Reject, Remember
from policy.cluster.frozen import replace
from policy.cluster.gang import State
from policy.cluster.job import Job, lives, queued
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import Resources
from policy.cluster.snapshot import Snapshot
from policy.cluster.training import SLOT_SECONDS
from policy.placement.gang import as_its_pods, barred
from policy.systems.base import Drift, Parts, Policy, Promised, above_0, from_0, share, up_to
from policy.systems.oasis.ahead import PlansAhead
from policy.systems.oasis.drift import drift_of
from policy.systems.oasis.execute import Slotwork
from policy.systems.oasis.keep import read_book, write_book
from policy.systems.oasis.market import prices_now
from policy.systems.oasis.planner import Window, hopeless, seen_of, why_refused
from policy.systems.oasis.plans import Plans
from policy.systems.oasis.prices import Floor, Pricing, usable
from policy.systems.oasis.schedule import MEMORY, Book, Plan, Postponed, Refusal, Seen
from policy.systems.oasis.workload import Work, work_of
from policy.systems.queue import bar


@dataclass(frozen=True, slots=True)
class Oasis(Policy):
    """OASiS's parameters.

    slot_seconds: length of a time slot (the paper: an hour or more). horizon: time slots that are planned ahead (T).
    end: end of the timespan, seconds since the epoch: nothing is planned beyond it; infinite: the window moves with
    time. floor: how L, the price of an idle resource, is found; U is the price of a full one. price_ratio: U / L where
    L is not the paper's (25, 26). u_scale, l_scale: U and L are estimated wrong by this factor (Figure 6). hopeless: a
    job whose best schedule is worth no more than this share of theta1, the value of its utility curve, is refused and
    does not change U and L. switching_cost: what each worker more or fewer than in the time slot before costs a job, as
    a share of its theta1; 0: nothing, as in the paper. offer_again: a refused job is offered again after so many time
    slots, then after twice as many, and so on, until it is hopeless; 0: never, as in the paper. grace: share of a time
    slot within which it counts as not begun. drift: the share of its plan by which a job may be late before it is
    planned again. known: jobs that set the bounds U and L in advance; the others are those seen in the last T time
    slots.
    """

    name: ClassVar[str] = "oasis"
    keeps: ClassVar[bool] = True
    judges_once: ClassVar[bool] = True

    slot_seconds: float = SLOT_SECONDS
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
    switching_cost: float = 0.0
    offer_again: int = 0

    def __post_init__(self) -> None:
        above_0(self, "slot_seconds", "horizon", "u_scale", "l_scale")
        from_0(self, "drift")
        up_to(self, 10, "switching_cost")
        up_to(self, 1_000_000, "offer_again")
        share(self, "hopeless", "grace")
        if not 1.0 <= self.price_ratio < math.inf:
            raise ValueError(f"oasis: price_ratio is {self.price_ratio!r}, must be 1 or more, and finite")
        if math.isnan(self.end):
            raise ValueError(f"oasis: end is {self.end!r}, must be seconds since the epoch, or infinite")

    @property
    def pricing(self) -> Pricing:
        """The parameters from which the prices are computed."""
        return Pricing(self.floor, self.price_ratio, self.u_scale, self.l_scale, self.switching_cost)

    def again(self, refusal: Refusal) -> float:
        """Return the time slot in which a job with that refusal is offered again; infinite: never."""
        if not (self.offer_again and isinstance(refusal, Postponed)) or refusal.slot is None:
            return math.inf
        return refusal.slot + (self.offer_again << refusal.times - 1)

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Repair the plans, decide about new jobs in order of arrival, and give every job what its plan says."""
        return OasisCycle(self, snapshot, now).run()

    def next_moment(self, now: float) -> float:
        """Return when the next time slot begins, in seconds since the epoch.

        If rounding would count that moment to the present time slot, the next larger float is returned.
        """
        slot = math.floor(now / self.slot_seconds)
        at = (slot + 1) * self.slot_seconds
        return at if math.floor(at / self.slot_seconds) > slot else math.nextafter(at, math.inf)

    @property
    def ahead_seconds(self) -> float:
        """The length in seconds of all time slots that may be planned ahead."""
        return self.horizon * self.slot_seconds

    def prices(self, snapshot: Snapshot, now: float) -> Mapping[str, float]:
        """Return the price of one unit of each resource in the present time slot, as the mean over the nodes."""
        book = snapshot.memory.get(MEMORY)
        slot = math.floor(now / self.slot_seconds)
        held = book if isinstance(book, Book) else Book()
        return prices_now(self.pricing, usable(snapshot), held, self.known, slot, self.horizon)

    def against_schedule(self, snapshot: Snapshot, job_uid: str, now: float) -> Drift | None:
        """Return how far the job is behind its plan or ahead of it, by its own reports."""
        return drift_of(snapshot, job_uid, self.slot_seconds, self.drift, now)

    def promised(self, snapshot: Snapshot, decided: Decision, now: float) -> Promised:
        """Return the room that the plans need in later time slots, after the decision ``decided``."""
        told = [one.value for one in decided.actions if isinstance(one, Remember) and one.key == MEMORY]
        book = told[-1] if told else snapshot.memory.get(MEMORY)
        slot = math.floor(now / self.slot_seconds)
        return PlansAhead(snapshot, book, slot, usable(snapshot)) if isinstance(book, Book) else Promised()

    def parts(self, memory: Mapping[str, object]) -> Mapping[str, Parts]:
        """Return by uid the part of OASiS's memory that is written to each job's object."""
        book = memory.get(MEMORY)
        return {uid: {self.name: part} for uid, part in write_book(book).items()} if isinstance(book, Book) else {}

    def recalled(self, snapshot: Snapshot, parts: Mapping[str, Parts]) -> Mapping[str, object]:
        """Return the policy's memory, restored from the parts that were written on the job objects."""
        return {MEMORY: read_book(snapshot, parts, self.name, self.slot_seconds)}

    def forget(self, memory: Mapping[str, object], job_uid: str) -> Mapping[str, object]:
        """Return the memory without the job's plan or refusal; the job still counts for the bounds of the prices."""
        book = memory.get(MEMORY)
        if not isinstance(book, Book):
            return memory
        plans = {uid: plan for uid, plan in book.plans.items() if uid != job_uid}
        rejected = {uid: one for uid, one in book.rejected.items() if uid != job_uid}
        shelved = {uid: plan for uid, plan in book.shelved.items() if uid != job_uid}
        return {**memory, MEMORY: replace(book, plans=plans, rejected=rejected, shelved=shelved)}

    def window(self, now: float) -> Window:
        """Return the time slots that may still be planned.

        The present time slot is among them only at its very beginning, within the share ``grace`` of its length.
        """
        slot = math.floor(now / self.slot_seconds)
        begun = now - slot * self.slot_seconds > self.grace * self.slot_seconds
        first = slot + 1 if begun else slot
        left = self.end / self.slot_seconds - first if math.isfinite(self.end) else self.horizon
        return Window(first, max(0, min(self.horizon, math.floor(left + 1e-9))))


class OasisCycle:
    """One cycle of OASiS. ``plans``, ``rejected`` and ``seen`` are its memory, as the cycle changes it."""

    def __init__(self, policy: Oasis, snapshot: Snapshot, now: float) -> None:
        self.policy, self.snapshot, self.now = policy, snapshot, now
        remembered = snapshot.memory.get(MEMORY)
        book = remembered if isinstance(remembered, Book) else Book()
        self.book = book.in_slots_of(policy.slot_seconds)
        self.slot = math.floor(now / policy.slot_seconds)
        self.window = policy.window(now)
        oldest = self.slot - policy.horizon
        self.seen = {uid: one for uid, one in self.book.seen.items() if one.slot > oldest}
        self.plans = Plans(
            snapshot, policy.pricing, usable(snapshot), (*policy.known, *self.seen.values()), self.slot,
            policy.slot_seconds, self.window,
            {uid: plan for uid, plan in self.book.plans_at(self.slot).items() if self._lives(uid)},
        )  # fmt: skip
        self.shelved = self._shelved()
        self.rejected = {uid: one for uid, one in self.book.rejected_by(self.slot).items() if self._lives(uid)}
        self.actions: list[Action] = []
        self.verdicts: dict[str, Verdict] = {}

    def _lives(self, uid: str) -> bool:
        job = self.snapshot.jobs.get(uid)
        return job is not None and lives(job)

    def _shelved(self) -> dict[str, Plan]:
        """Return by uid what is left of the plans of jobs that their users have suspended and may resume."""
        jobs = self.snapshot.jobs
        left = {uid: plan.since(self.slot) for uid, plan in self.book.plans_at(self.slot).items()}
        found = {**left, **self.book.shelved}
        return {
            uid: plan
            for uid, plan in found.items()
            if uid not in self.plans.by_uid and uid in jobs and not (jobs[uid].finished or jobs[uid].deleting)
        }

    def _work(self, job: Job) -> Work:
        """Return the job's work that is still to be planned: all of it, or the rest if the job was admitted before.

        The requests are those of the job's pods, not of its template, because admission may have added to them
        (LimitRange, sidecars, overhead).
        """
        seconds, plan, job = self.policy.slot_seconds, self.shelved.get(job.uid), as_its_pods(self.snapshot, job)
        if plan is None:
            return work_of(job, seconds)
        done = [one.done for one in self.snapshot.reports.get(job.uid, ()) if one.done is not None]
        if done:
            return work_of(job, seconds, done[-1])
        return replace(work_of(job, seconds), work=max(1, plan.left(0)))

    def run(self) -> Decision:
        """Repair the plans, carry out Algorithm 1 for each new job, and give every job what its plan says."""
        began, ground = self.slot != self.book.slot, tuple((node.name, room) for node, room in self.plans.nodes)
        arrivals, adopted = self._undecided(), self._adopted()
        self.plans.works |= {job.uid: self._work(job) for job in (*arrivals, *adopted)}
        # 1. Not in the paper, where nodes, bounds and work never change: repair the plans where these have changed.
        self._mend_plans(adopted, began=began, nodes_changed=ground != self.book.ground)
        # 2. Algorithm 1: decide about each job that has come, in order of arrival.
        for job in arrivals:
            if job.uid in self.shelved:
                self.plans.resume(job)  # Not in the paper: the user has resumed a job that was admitted before.
            else:
                self._admit_or_reject(job)
        if began:
            self.plans.forget_past()
        # 3. Every job gets what its schedule says for this time slot, as far as room is really free.
        orders = self._carry_out(set() if began else set(self.book.righted))
        # 4. Not in the paper: remember the schedules.
        return self._decision(orders, ground)

    def _mend_plans(self, adopted: Sequence[Job], *, began: bool, nodes_changed: bool) -> None:
        """Make new plans for jobs whose plans can no longer be kept, and plans for jobs that run without one.

        adopted: the jobs that run without a plan. began: a new time slot has begun.
        """
        plans = self.plans
        if began:
            plans.follow_reports(self.policy.drift)
        plans.obey_edits()
        if nodes_changed:
            plans.repair()
        for job in adopted:
            # Another scheduler may have bound a job that OASiS refused. A running job does not count as refused.
            self.rejected.pop(job.uid, None)
            plans.adopt(job, self.policy.horizon)
        plans.make_room()

    def _carry_out(self, righted: set[str]) -> Slotwork:
        """Return the actions and verdicts by which the jobs get what their plans say for this time slot.

        righted: jobs that were paused in this time slot already, so that they start again on their planned nodes.
        """
        ground = {node.name: (node, room) for node, room in self.plans.nodes}
        seconds = self.policy.slot_seconds
        orders = Slotwork(self.snapshot, self.plans.by_uid, ground, self.slot, seconds, self.now, righted)
        orders.run()
        return orders

    def _decision(self, orders: Slotwork, ground: tuple[tuple[str, Resources], ...]) -> Decision:
        """Return the decision with all actions and verdicts; one action remembers the memory if that has changed."""
        plans = self.plans.by_uid
        righted = tuple(sorted(orders.righted))
        shelved = {uid: plan for uid, plan in self.shelved.items() if uid not in plans}
        book = Book(plans, self.rejected, self.seen, self.slot, ground, righted, shelved, self.policy.slot_seconds)
        remember = [Remember(MEMORY, book)] if book != self.snapshot.memory.get(MEMORY) else []
        refused = {uid: Verdict(Reason.REJECTED, self._refused(one)) for uid, one in self.rejected.items()}
        return Decision((*self.actions, *orders.actions, *remember), {**refused, **self.verdicts, **orders.verdicts})

    def _refused(self, one: Refusal) -> str:
        again = self.policy.again(one)
        return one.why if math.isinf(again) else f"{one.why}; it is offered again in time slot {again}"

    def _undecided(self) -> list[Job]:
        """Return the waiting jobs without plan or refusal that may be considered now, in order of arrival."""
        found = list[Job]()
        for job in self.snapshot.waiting():
            refusal = self.rejected.get(job.uid)
            if job.uid in self.plans.by_uid or (refusal is not None and self.slot < self.policy.again(refusal)):
                continue
            verdict = bar(self.snapshot, job, self.now)
            if verdict is None:
                found.append(job)
            else:
                self.verdicts[job.uid] = verdict
        return sorted(found, key=lambda job: (job.arrival, job.uid))

    def _admit_or_reject(self, job: Job) -> None:
        """Admit the job if its best schedule is worth more than it costs at the present prices."""
        work = self.plans.works[job.uid]
        # Not in the paper: a job that cannot be worth anything is refused at once, and sets no bounds of the prices.
        if hopeless(work, self.window.first, self.policy.hopeless):
            best = work.worth(max(work.arrival, self.window.first) + work.shortest)
            self._reject(job, f"even if it runs at once, its utility is only {best:.4g} of {work.utility.value:.4g}")
            return
        self.seen = {**self.seen, job.uid: seen_of(work, self.window)}
        planner = self.plans.planner
        planner.see((*self.policy.known, *self.seen.values()))
        # Line 5: the best schedule, by Algorithm 2.
        quote = planner.quote(work, barred(self.snapshot, job))
        if quote.plan is None:
            self._refuse(job, work, why_refused(quote, self.window))
            return
        # Lines 9-12: charge the schedule to its time slots, which raises their prices.
        planner.book(quote.plan)
        self.plans.by_uid[job.uid] = quote.plan
        self.rejected.pop(job.uid, None)

    def _refuse(self, job: Job, work: Work, why: str) -> None:
        """Refuse the job for good, or until it is offered again if it will still be worth something then."""
        before = self.rejected.get(job.uid)
        refusal = Postponed(why, self.slot, before.times + 1 if isinstance(before, Postponed) else 1)
        again = self.policy.again(refusal)
        if math.isinf(again) or hopeless(work, int(again), self.policy.hopeless):
            self._reject(job, why)
        else:
            self.rejected[job.uid] = refusal

    def _reject(self, job: Job, why: str) -> None:
        self.rejected[job.uid] = Refusal(why, self.slot)
        self.actions.append(Reject(job.uid, Reason.REJECTED, why))

    def _adopted(self) -> list[Job]:
        """Return the running jobs without a plan: they were found after a restart, or started under another policy."""
        states = (State.RUNNING, State.REPAIRING)
        jobs = (job for job in self.snapshot.running() if job.uid not in self.plans.by_uid and queued(job))
        return [job for job in jobs if self.snapshot.gang(job.uid).state in states]

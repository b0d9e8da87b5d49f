"""The plans of OASiS: how many members of each job run on which node in which time slot.

They are immutable and kept in the snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from policy.cluster.frozen import replace
from policy.cluster.model import WORKER
from policy.cluster.resources import Resources
from policy.cluster.training import DUST
from policy.systems.oasis.workload import Work

MEMORY = "oasis"
MOST_SLOTS = 10_000  # a plan that is converted to shorter time slots gets at most so many
Layout = tuple[tuple[str, str, int], ...]  # the entries of a layout: role, node, and how many members are there; sorted


@dataclass(frozen=True, slots=True)
class Shift:
    """The part of a plan for one time slot: how many members of each role run on which node."""

    slot: int
    layout: Layout

    def count(self, role: str) -> int:
        """Return the number of members of that role in this time slot."""
        return sum(count for name, _, count in self.layout if name == role)

    @property
    def workers(self) -> int:
        """The number of workers (y) in this time slot."""
        return self.count(WORKER)

    @property
    def units(self) -> int:
        """The worker-slots of the job's work that are done in this time slot; one for a job without workers."""
        return self.workers or 1

    def on(self, role: str) -> dict[str, int]:
        """Return how many members of that role run on each node."""
        return {node: count for name, node, count in self.layout if name == role}


@dataclass(frozen=True, slots=True)
class Plan:
    """A job's committed schedule: the time slots in which it runs, in order. payoff: its payoff at admission (u)."""

    work: Work
    shifts: tuple[Shift, ...]
    payoff: float = 0.0

    def at(self, slot: int) -> Shift | None:
        """Return what runs in that time slot; None if the job pauses then."""
        return next((shift for shift in self.shifts if shift.slot == slot), None)

    def after(self, slot: int) -> Shift | None:
        """Return the first shift of the plan after that time slot; None if there is none."""
        return next((shift for shift in self.shifts if shift.slot > slot), None)

    def left(self, slot: int) -> int:
        """Return how many worker-slots are planned from that time slot on."""
        return sum(shift.units for shift in self.shifts if shift.slot >= slot)

    @property
    def last(self) -> int:
        """The time slot in which the job completes."""
        return self.shifts[-1].slot if self.shifts else self.work.arrival

    def stands(self, names: Collection[str], first: int) -> bool:
        """Tell whether all nodes that the plan uses from time slot ``first`` on are among ``names``."""
        return all(node in names for shift in self.shifts if shift.slot >= first for _, node, _ in shift.layout)

    def touches(self, places: Collection[tuple[int, str]]) -> bool:
        """Tell whether the plan takes room at one of these places, each a time slot and a node."""
        return any((shift.slot, node) in places for shift in self.shifts for _, node, _ in shift.layout)

    def put(self, shift: Shift) -> Plan:
        """Return the plan with this shift in place of the old one for the same time slot."""
        return replace(self, shifts=tuple(shift if old.slot == shift.slot else old for old in self.shifts))

    def since(self, slot: int) -> Plan:
        """Return the plan without the time slots before that one."""
        return replace(self, shifts=tuple(shift for shift in self.shifts if shift.slot >= slot))

    def in_other_slots(self, factor: float) -> Plan:
        """Return the plan at the same times in time slots of another length, ``factor`` of them for each old one.

        A new time slot has the layout of the old one in which it begins. So no more room than before is promised at any
        time. The work planned may be a time slot too much or too little; progress reports correct that.
        """
        if not self.shifts:
            return replace(self, work=self.work.in_other_slots(factor))
        by_slot = {shift.slot: shift for shift in self.shifts}
        first, last = math.floor(self.shifts[0].slot * factor), math.ceil((self.last + 1) * factor)
        slots = range(first, min(last, first + MOST_SLOTS))
        found = [(slot, by_slot.get(math.floor(slot / factor + DUST))) for slot in slots]
        shifts = tuple(replace(shift, slot=slot) for slot, shift in found if shift is not None)
        return replace(
            self, work=self.work.in_other_slots(factor), shifts=shifts or (replace(self.shifts[0], slot=first),)
        )

    def moved(self, slots: int) -> Plan:
        """Return the plan with everything that many time slots later, or earlier if ``slots`` is negative."""
        return replace(self, shifts=tuple(replace(shift, slot=shift.slot + slots) for shift in self.shifts))


def sizes(plan: Plan) -> dict[str, Resources]:
    """Return the resources that one member of each role takes."""
    return {WORKER: plan.work.requests} | {part.role: part.requests for part in plan.work.parts}


def taken(plan: Plan, shift: Shift) -> Iterator[tuple[str, Resources]]:
    """Yield each node of the shift's layout with the resources that the job's members of one role take there."""
    requests = sizes(plan)
    for role, node, count in shift.layout:
        yield node, requests[role].times(count)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the bounds of the prices need to know of a job that was submitted.

    slot: the time slot of its arrival. best: its best utility. worker, server: what one worker and one ps ask for.
    work: its worker-slots. ln_worst: ln f(T - a).
    """

    slot: int
    best: float
    worker: Resources
    server: Resources
    work: int
    ln_worst: float

    def in_other_slots(self, factor: float) -> Seen:
        """Return the same facts in time slots of another length, ``factor`` for each old one; its utilities stay as
        computed.
        """
        return replace(self, slot=math.floor(self.slot * factor), work=max(1, math.ceil(self.work * factor)))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a job was rejected, and in which time slot; ``slot`` is None if the time slot is not known any more."""

    why: str
    slot: int | None = None

    def in_other_slots(self, factor: float) -> Refusal:
        """Return the refusal in time slots of another length, ``factor`` of them for each old one."""
        return self if self.slot is None else replace(self, slot=math.floor(self.slot * factor))


@dataclass(frozen=True, slots=True)
class Postponed(Refusal):
    """The refusal of a job that may be offered again. times: how often in a row it was refused."""

    times: int = 1


@dataclass(frozen=True, slots=True)
class Book:
    """OASiS's memory.

    plans, rejected, seen: by job uid; seen: the jobs submitted in the window, which set the bounds of the prices.
    slot: the last time slot whose beginning was dealt with. slot_seconds: the length of its time slots; 0: not known.
    ground: the usable nodes, each with what it had for jobs at that time.
    righted: jobs that were paused in this time slot to start again where their plan has them.
    shelved: what was left of the plans of jobs that their users have suspended; these plans take no room.
    """

    plans: Mapping[str, Plan] = field(default_factory=dict)
    rejected: Mapping[str, Refusal] = field(default_factory=dict)
    seen: Mapping[str, Seen] = field(default_factory=dict)
    slot: int = -1
    ground: tuple[tuple[str, Resources], ...] = ()
    righted: tuple[str, ...] = ()
    shelved: Mapping[str, Plan] = field(default_factory=dict)
    slot_seconds: float = 0.0

    def in_slots_of(self, seconds: float) -> Book:
        """Return the book at the same times, counted in time slots of that length."""
        if self.slot_seconds in (0.0, seconds):
            return self
        factor = self.slot_seconds / seconds
        return Book(
            {uid: plan.in_other_slots(factor) for uid, plan in self.plans.items()},
            {uid: one.in_other_slots(factor) for uid, one in self.rejected.items()},
            {uid: one.in_other_slots(factor) for uid, one in self.seen.items()},
            math.floor(self.slot * factor),
            self.ground,
            (),
            {uid: plan.in_other_slots(factor) for uid, plan in self.shelved.items()},
            seconds,
        )

    def rejected_by(self, slot: int) -> Mapping[str, Refusal]:
        """Return the refusals that stand in that time slot.

        A refusal from a later time slot was made before the clock was set back. The job's value was computed for too
        late a time, so the job is decided about again.
        """
        return {uid: one for uid, one in self.rejected.items() if one.slot is None or one.slot <= slot}

    def plans_at(self, slot: int) -> Mapping[str, Plan]:
        """Return the plans as they stand in that time slot.

        If it is before the book's time slot, the clock was set back, and all plans move back alike. So running jobs go
        on, waiting jobs wait for as many time slots as before, and no room is promised twice.
        """
        back = min(0, slot - self.slot)
        return {uid: plan.moved(back) for uid, plan in self.plans.items()} if back else self.plans

"""What OASiS has committed itself to: for each job, who runs where in which slot. Immutable; kept in the snapshot."""

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
MOST_SLOTS = 10_000  # of a plan that is counted in shorter slots
Layout = tuple[tuple[str, str, int], ...]  # role, node, how many members there; sorted


@dataclass(frozen=True, slots=True)
class Shift:
    """One slot of a plan."""

    slot: int
    layout: Layout

    def count(self, role: str) -> int:
        """Return the number of members of that role."""
        return sum(count for name, _, count in self.layout if name == role)

    @property
    def workers(self) -> int:
        """The number of workers (y)."""
        return self.count(WORKER)

    @property
    def units(self) -> int:
        """The worker-slots: what it does of the job's work. A job without workers is one unit."""
        return self.workers or 1

    def on(self, role: str) -> dict[str, int]:
        """Return the members of that role by node."""
        return {node: count for name, node, count in self.layout if name == role}


@dataclass(frozen=True, slots=True)
class Plan:
    """A job's committed schedule: its busy slots in order. payoff: what it was admitted with (u)."""

    work: Work
    shifts: tuple[Shift, ...]
    payoff: float = 0.0

    def at(self, slot: int) -> Shift | None:
        """Return what runs in that slot; None where it pauses."""
        return next((shift for shift in self.shifts if shift.slot == slot), None)

    def after(self, slot: int) -> Shift | None:
        """Return the next busy slot, or None."""
        return next((shift for shift in self.shifts if shift.slot > slot), None)

    def left(self, slot: int) -> int:
        """Return the worker-slots from that slot on."""
        return sum(shift.units for shift in self.shifts if shift.slot >= slot)

    @property
    def last(self) -> int:
        """The slot in which the job completes."""
        return self.shifts[-1].slot if self.shifts else self.work.arrival

    def stands(self, names: Collection[str], first: int) -> bool:
        """Tell whether every node that it names from that slot on is one of these."""
        return all(node in names for shift in self.shifts if shift.slot >= first for _, node, _ in shift.layout)

    def touches(self, places: Collection[tuple[int, str]]) -> bool:
        """Tell whether it takes room of one of these slots and nodes."""
        return any((shift.slot, node) in places for shift in self.shifts for _, node, _ in shift.layout)

    def put(self, shift: Shift) -> Plan:
        """Return the plan with this slot in the place of the old one."""
        return replace(self, shifts=tuple(shift if old.slot == shift.slot else old for old in self.shifts))

    def since(self, slot: int) -> Plan:
        """Return the plan without the slots that are past."""
        return replace(self, shifts=tuple(shift for shift in self.shifts if shift.slot >= slot))

    def in_other_slots(self, factor: float) -> Plan:
        """Return the plan at the same times, in ``factor`` slots for each of these.

        What a slot begins with is done in all of it. No more than before is promised at any time. Of its work a slot
        may be lost or won; reports mend that.
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
        """Return the plan with every slot so many later, or sooner where it is negative."""
        return replace(self, shifts=tuple(replace(shift, slot=shift.slot + slots) for shift in self.shifts))


def sizes(plan: Plan) -> dict[str, Resources]:
    """Return what a member of each role takes."""
    return {WORKER: plan.work.requests} | {part.role: part.requests for part in plan.work.parts}


def taken(plan: Plan, shift: Shift) -> Iterator[tuple[str, Resources]]:
    """Yield node and resources of each part of a slot."""
    requests = sizes(plan)
    for role, node, count in shift.layout:
        yield node, requests[role].times(count)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the price bounds keep of a job that was submitted: when, its best utility, demands, work and ln f(T - a)."""

    slot: int
    best: float
    worker: Resources
    server: Resources
    work: int
    ln_worst: float

    def in_other_slots(self, factor: float) -> Seen:
        """Return it in ``factor`` slots for each of these; what its delay is worth is left as it was seen."""
        return replace(self, slot=math.floor(self.slot * factor), work=max(1, math.ceil(self.work * factor)))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a job was rejected, and the slot in which; None where that is not known any more."""

    why: str
    slot: int | None = None

    def in_other_slots(self, factor: float) -> Refusal:
        """Return the refusal in ``factor`` slots for each of these."""
        return self if self.slot is None else replace(self, slot=math.floor(self.slot * factor))


@dataclass(frozen=True, slots=True)
class Postponed(Refusal):
    """The refusal of a job that may be offered again. times: how often in a row it was refused."""

    times: int = 1


@dataclass(frozen=True, slots=True)
class Book:
    """OASiS's memory.

    plans, rejected, seen: by job uid; seen: submitted jobs of the window, for the bounds of the prices.
    slot: whose beginning was dealt with last. slot_seconds: how long its slots are; 0: not known.
    ground: the usable nodes and what they had for jobs at that time.
    righted: jobs that were paused in this slot to start again where their plan has them.
    shelved: what was left of the plans of jobs that their users have suspended; it takes no room.
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
        """Return the book at the same times, counted in slots of that length."""
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
        """Return the refusals that stand in that slot.

        One of a later slot was made by a clock that has been set back since: the job's value was counted as of too late
        a time, so it is decided about anew.
        """
        return {uid: one for uid, one in self.rejected.items() if one.slot is None or one.slot <= slot}

    def plans_at(self, slot: int) -> Mapping[str, Plan]:
        """Return the plans in that slot.

        Where it is a slot before the book's, the clock was set back, and the plans move along. What runs goes on, who
        waits waits as many slots as before, and no slot is promised twice: all move alike.
        """
        back = min(0, slot - self.slot)
        return {uid: plan.moved(back) for uid, plan in self.plans.items()} if back else self.plans

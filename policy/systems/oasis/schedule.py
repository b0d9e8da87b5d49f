"""The plans of OASiS: how many members of each job run on which node in which time slot.

The plans are immutable, and are kept in the policy's memory in the snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from policy.cluster.frozen import replace
from policy.cluster.job import WORKER
from policy.cluster.resources import Resources
from policy.cluster.training import DUST
from policy.systems.oasis.workload import Work

MEMORY = "oasis"
MOST_SLOTS = 10_000  # A plan that is converted to shorter time slots gets at most MOST_SLOTS of them.
# An entry of a layout says how many members of a role are on a node: (role, node, number). The entries are sorted.
Layout = tuple[tuple[str, str, int], ...]


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
    """A job's schedule: the time slots in which it runs (``shifts``), in order of time.

    payoff: the utility less the price of the schedule when the job was admitted (u).
    """

    work: Work
    shifts: tuple[Shift, ...]
    payoff: float = 0.0

    def at(self, slot: int) -> Shift | None:
        """Return the part of the plan for that time slot; None if the job does not run then."""
        return next((shift for shift in self.shifts if shift.slot == slot), None)

    def after(self, slot: int) -> Shift | None:
        """Return the part of the plan for the next time slot after ``slot`` in which the job runs, if any."""
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
        """Tell whether the plan takes room at one of ``places``, which are pairs of a time slot and a node's name."""
        return any((shift.slot, node) in places for shift in self.shifts for _, node, _ in shift.layout)

    def put(self, shift: Shift) -> Plan:
        """Return the plan with this shift in place of the old one for the same time slot."""
        return replace(self, shifts=tuple(shift if old.slot == shift.slot else old for old in self.shifts))

    def since(self, slot: int) -> Plan:
        """Return the plan without the time slots before that one."""
        return replace(self, shifts=tuple(shift for shift in self.shifts if shift.slot >= slot))

    def in_other_slots(self, factor: float) -> Plan:
        """Return the plan converted to time slots of another length: ``factor`` new time slots for each old one.

        In a new time slot the job has the members that it had in the old time slot in which the new one begins, so that
        it has no more room than before at any time. The plan may then have a time slot too many or too few; the job's
        progress reports correct that.
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
        """Return the plan shifted by ``slots`` time slots: later, or earlier if the number is negative."""
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
    """The facts about a submitted job from which the bounds of the prices are computed.

    slot: the time slot of its arrival (a). best: its best possible utility. worker, server: the requests of one worker
    and of one ps. work: its worker-slots. ln_worst: the logarithm of its utility f(T - a) if it completes in the last
    time slot T.
    """

    slot: int
    best: float
    worker: Resources
    server: Resources
    work: int
    ln_worst: float

    def in_other_slots(self, factor: float) -> Seen:
        """Return the facts converted to time slots of another length: ``factor`` new time slots for each old one.

        The utilities are not computed again.
        """
        return replace(self, slot=math.floor(self.slot * factor), work=max(1, math.ceil(self.work * factor)))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a job was rejected, and in which time slot; ``slot`` is None if the time slot is not known any more."""

    why: str
    slot: int | None = None

    def in_other_slots(self, factor: float) -> Refusal:
        """Return the refusal converted to time slots of another length: ``factor`` new ones for each old one."""
        return self if self.slot is None else replace(self, slot=math.floor(self.slot * factor))


@dataclass(frozen=True, slots=True)
class Postponed(Refusal):
    """The refusal of a job that may be offered again. times: how often in a row it was refused."""

    times: int = 1


@dataclass(frozen=True, slots=True)
class Book:
    """OASiS's memory.

    plans: each job's plan by uid. rejected: each refused job's refusal by uid. seen: by uid, the jobs submitted in the
    last T time slots, from which the bounds of the prices are computed.
    slot: the last time slot that has begun. slot_seconds: the length of a time slot in seconds; 0: not known.
    ground: the usable nodes at the last decision, each with the resources that it had for jobs.
    righted: jobs that were paused in this time slot so that they start again on their planned nodes.
    shelved: the rest of the plans of jobs that their users have suspended, by uid; these plans take no room.
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
        """Return the memory converted to time slots of ``seconds`` seconds; the times themselves stay the same."""
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
        """Return by uid the refusals that are still valid in that time slot.

        A refusal from a later time slot was made before the clock was set back. It is left out, because the job's
        utility was computed for too late a time; so the job is decided about again.
        """
        return {uid: one for uid, one in self.rejected.items() if one.slot is None or one.slot <= slot}

    def plans_at(self, slot: int) -> Mapping[str, Plan]:
        """Return by uid the plans that are valid in that time slot.

        If ``slot`` is before the last time slot that has begun, the clock was set back, and all plans are moved back by
        the same number of time slots. So running jobs go on, waiting jobs wait for as many time slots as before, and no
        room is promised twice.
        """
        back = min(0, slot - self.slot)
        return {uid: plan.moved(back) for uid, plan in self.plans.items()} if back else self.plans

"""How OASiS's memory is written to the job objects, a part for each job in JSON's types, and read back.

Every value that is read is checked. Values that follow from the API objects are not written: the nodes, the placement
constraints in a job's pod template, and what follows from its kind and roles. The bounds of the prices are computed
again from the jobs seen; after a restart, jobs whose object has been deleted no longer count for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import groupby, pairwise
from typing import Any

from policy.cluster.constraints import ANYWHERE, Constraints
from policy.cluster.job import Job, lives
from policy.cluster.resources import Resources
from policy.cluster.snapshot import Snapshot
from policy.cluster.training import Utility
from policy.cluster.written import MOST_ROWS, SpoiltError, number, resources, rows, table, truth, whole, word
from policy.systems.base import Parts
from policy.systems.oasis.schedule import Book, Layout, Plan, Postponed, Refusal, Seen, Shift
from policy.systems.oasis.workload import Part, Work

MOST_SLOT = 10**10
MOST_COUNT = 10**6
LONGEST_SLOT = 10.0**8  # A time slot of more than LONGEST_SLOT seconds is not read back.
LONGEST_TEXT = 1000
# A number of refusals of one job above MOST_OFFERS is not read back. No job can have more, because the wait before a
# refused job is offered again doubles each time.
MOST_OFFERS = 60

Json = dict[str, Any]


def write_book(book: Book) -> Mapping[str, Json]:
    """Return by uid the part that is written to each job's object, in JSON's types.

    A part has the job's plan or refusal, the facts from which the bounds of the prices follow, and the time slot that
    began last.
    """
    return {uid: _write_entry(book, uid) for uid in {*book.plans, *book.shelved, *book.rejected, *book.seen}}


def read_book(snapshot: Snapshot, parts: Mapping[str, Parts], name: str, slot_seconds: float) -> Book:
    """Return OASiS's memory, read back from the parts on the job objects.

    A job whose part is invalid counts as not decided yet. name: the policy's key in a part. slot_seconds: the length of
    a time slot now; parts that were written for time slots of another length are converted.
    """
    plans, rejected, seen, shelved = dict[str, Plan](), dict[str, Refusal](), dict[str, Seen](), dict[str, Plan]()
    slot, righted = -1, set[str]()
    for uid, part in parts.items():
        if name not in part:
            continue
        try:
            found = _Entry(snapshot.jobs[uid], table(part[name]), slot_seconds)
        except SpoiltError:
            continue
        slot = max(slot, found.slot)
        if found.seen is not None:
            seen[uid] = found.seen
        job, plan = snapshot.jobs[uid], found.plan
        if plan is not None and (found.shelved or job.suspended):
            shelved[uid] = plan.since(found.slot)
        if not lives(job) or uid in shelved:
            continue
        if found.plan is not None:
            plans[uid] = found.plan
        elif found.refusal.why:
            rejected[uid] = found.refusal
        if found.righted == found.slot:
            righted.add(uid)
    return Book(plans, rejected, seen, slot, (), tuple(sorted(righted)), shelved, slot_seconds)


class _Entry:
    """One job's part, checked and converted to time slots of ``slot_seconds``. An invalid part raises SpoiltError."""

    def __init__(self, job: Job, part: Mapping[str, Any], slot_seconds: float) -> None:
        self.slot = whole(part.get("slot", -1), MOST_SLOT, -1)
        self.plan = _read_plan(job, rows(part["plan"], 4)) if "plan" in part else None
        refused_in = whole(part["refused"], MOST_SLOT) if "refused" in part else None
        why = word(part.get("rejected", ""), LONGEST_TEXT)
        times = whole(part.get("times", 0), MOST_OFFERS)
        self.refusal = Postponed(why, refused_in, times) if times else Refusal(why, refused_in)
        self.seen = _read_seen(rows(part["seen"], 6)) if "seen" in part else None
        self.shelved = truth(part.get("shelved", False))
        self.righted = self.slot if truth(part.get("righted", False)) else None
        written = number(part.get("slot_seconds", slot_seconds))
        if not 0.0 < written <= LONGEST_SLOT:
            raise SpoiltError(f"slot_seconds: {written:g} is not allowed; allowed: above 0, at most {LONGEST_SLOT:g}")
        if written != slot_seconds:
            self._count_in_others(written / slot_seconds)

    def _count_in_others(self, factor: float) -> None:
        self.slot = math.floor(self.slot * factor)
        self.plan = self.plan.in_other_slots(factor) if self.plan is not None else None
        self.refusal = self.refusal.in_other_slots(factor)
        self.seen = self.seen.in_other_slots(factor) if self.seen is not None else None
        self.righted = None


def _write_entry(book: Book, uid: str) -> Json:
    entry: Json = {}
    if uid in book.plans:
        entry |= {"slot": book.slot, "plan": _write_plan(book.plans[uid])}
    elif uid in book.shelved:
        entry |= {"slot": book.slot, "plan": _write_plan(book.shelved[uid]), "shelved": True}
    if refusal := book.rejected.get(uid):
        entry["rejected"] = refusal.why[:LONGEST_TEXT]
        if refusal.slot is not None:
            entry["refused"] = refusal.slot
        if isinstance(refusal, Postponed):
            entry["times"] = min(refusal.times, MOST_OFFERS)
    if uid in book.seen:
        entry["seen"] = _write_seen(book.seen[uid])
    if uid in book.righted:
        entry["righted"] = True
    if book.slot_seconds:
        entry["slot_seconds"] = book.slot_seconds
    return entry


# -- Plans are written below: equal consecutive time slots only once, and nodes as numbers. ------


def _write_plan(plan: Plan) -> list[Any]:
    names = sorted({node for shift in plan.shifts for _, node, _ in shift.layout})
    numbers = {node: at for at, node in enumerate(names)}
    runs = []
    for (_, layout), run in groupby(enumerate(plan.shifts), lambda one: (one[1].slot - one[0], one[1].layout)):
        shifts = list(run)
        runs.append([shifts[0][1].slot, len(shifts), [[role, numbers[node], count] for role, node, count in layout]])
    return [_write_work(plan.work), plan.payoff, names, runs]


def _read_plan(job: Job, written: list[Any]) -> Plan:
    work, payoff, names, runs = written
    nodes = [word(name) for name in rows(names)]
    shifts = tuple(_shifts(rows(runs), nodes))
    if any(shift.slot >= later.slot for shift, later in pairwise(shifts)):
        raise SpoiltError("the time slots of a kept plan are not in ascending order")
    return Plan(_read_work(job, rows(work, 8)), shifts, number(payoff))


def _shifts(runs: list[Any], nodes: list[str]) -> Iterator[Shift]:
    left = MOST_ROWS
    for run in runs:
        first, times, layout = rows(run, 3)
        placed = tuple(_places(rows(layout), nodes))
        left -= whole(times, left, 1)
        for slot in range(whole(first, MOST_SLOT), first + times):
            yield Shift(slot, placed)


def _places(layout: Layout | list[Any], nodes: list[str]) -> Iterator[tuple[str, str, int]]:
    for place in layout:
        role, node, count = rows(place, 3)
        yield word(role), nodes[whole(node, len(nodes) - 1)], whole(count, MOST_COUNT)


# -- The functions below write and read a job's work and its share in the prices. ----------------


def _write_work(work: Work) -> list[Any]:
    parts = [[part.role, part.fixed, _amounts(part.requests)] for part in work.parts]
    utility = work.utility
    return [
        work.arrival, work.least, work.most, work.work, _amounts(work.requests), parts, _finite(work.per_ps),
        [utility.value, utility.steepness, utility.target],
    ]  # fmt: skip


def _read_work(job: Job, written: list[Any]) -> Work:
    arrival, least, most, work, requests, parts, per_ps, utility = written
    worker = job.worker
    return Work(
        uid=job.uid,
        arrival=whole(arrival, MOST_SLOT),
        least=whole(least, MOST_COUNT, 1),
        most=whole(most, MOST_COUNT, whole(least, MOST_COUNT, 1)),
        work=whole(work, MOST_SLOT, 1),
        requests=resources(requests),
        constraints=worker.constraints if worker else ANYWHERE,
        parts=tuple(_read_part(job, rows(part, 3)) for part in rows(parts)),
        per_ps=math.inf if per_ps is None else number(per_ps),
        utility=Utility(*map(number, rows(utility, 3))),
        holds=not job.suspends,
        single=worker is None,
    )


def _read_part(job: Job, written: list[Any]) -> Part:
    name, fixed, requests = written
    found = Part(word(name), resources(requests), _constraints(job, name), None)
    return found if fixed is None else Part(found.role, found.requests, found.constraints, whole(fixed, MOST_COUNT))


def _constraints(job: Job, name: str) -> Constraints:
    role = job.role(name)
    return role.constraints if role else ANYWHERE


def _write_seen(seen: Seen) -> list[Any]:
    return [seen.slot, seen.best, _amounts(seen.worker), _amounts(seen.server), seen.work, _finite(seen.ln_worst)]


def _read_seen(written: list[Any]) -> Seen:
    slot, best, worker, server, work, worst = written
    ln_worst = -math.inf if worst is None else number(worst)
    return Seen(
        whole(slot, MOST_SLOT), number(best), resources(worker), resources(server), whole(work, MOST_SLOT, 1), ln_worst
    )


def _amounts(requests: Resources) -> dict[str, int]:
    return dict(sorted(requests.amounts.items()))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

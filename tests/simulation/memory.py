"""Check on the job objects that what a policy has decided for good survives every restart (S9).

The annotations are parsed here independently of the code that writes them. Jobs are not checked if another scheduler
has started them, if their user has suspended them, or if their bounds could not be read for a while, because the policy
may decide on such jobs again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from extender.kube.jobkinds import MEMORY
from lab.sim.objects import JobObject
from lab.virtual.clocks import loop_time
from tests.simulation.scenario import PARAMETERS

if TYPE_CHECKING:
    from tests.simulation.processes import ExtenderProcess

SLOT_SECONDS: Final = float(PARAMETERS["oasis"]["slot_seconds"])
HORIZON: Final = int(PARAMETERS["oasis"]["horizon"])
Part = Any
"""The part of a job's annotation that one policy has written: OASiS an object, SpeCon a list; None if it has written
none.
"""
PROGRESS: Final = (
    "since", "category", "first", "best", "value", "at", "growth", "converged", "moved", "balanced", "restart",
)  # fmt: skip
"""The names of the values in SpeCon's list. The seeds leave moves_per_job at 1."""
LAST_SAMPLE: Final = ("value", "at", "growth")


class Remembered:
    """Compares each new annotation of a job with the one before.

    ``jumped`` tells whether a process's wall clock was set in this run.
    """

    def __init__(self, violated: Callable[[str], None], jumped: Callable[[], bool]) -> None:
        self.schedules = 0  # number of OASiS's schedules that were compared across a restart
        # number of SpeCon's annotations that were compared across a restart, for jobs with a known growth and for moved
        # jobs
        self.texts = Counter[str]()
        # UIDs of jobs whose decisions are not stored, because their kind has no object for the annotation
        self.unkept = set[str]()
        self._violated = violated
        self._jumped = jumped
        # job's UID -> the parts of its annotation, as the API showed it last
        self._texts: dict[str, Mapping[str, Part]] = {}
        self._excepted: set[str] = set()
        self._led: dict[tuple[str, int], bool] = {}  # (process, incarnation) -> whether it led at its last step
        self._decides: tuple[str, int] | None = None  # the process and incarnation that began to lead last
        # the time slot and the free resources of the nodes at the last decision
        self._before: tuple[int, object] = (-1, None)
        self._wanted: Mapping[str, str] = {}  # job's UID -> the annotation that the last decision wanted to write
        # Whether every plan was in an annotation at the last decision. If not, the next leader may plan other jobs in
        # the room of the plans that were not written.
        self._all_kept = True
        self._term_at = 0.0
        # UIDs of jobs whose annotation was written after the process that leads now had listed the jobs
        self._unseen: set[str] = set()
        # job's UID -> every annotation that the process that leads now has wanted to write
        self._own: dict[str, set[str]] = {}
        # job's UID -> the annotation in the API, and the time of its write
        self._landed: dict[str, tuple[str, float]] = {}

    def see(self, job: JobObject, excepted: bool) -> None:
        """Compare the new annotation of a job with the old one; if ``excepted``, nothing is compared from now on,
        because the policy may decide on the job again.
        """
        if excepted or (job.suspended and not job.released) or job.phase.ended:
            self._excepted.add(job.uid)
        text = job.spec.annotations.get(MEMORY) or "{}"
        old, new, late = self._texts.get(job.uid, {}), json.loads(text), self._is_late(job.uid)
        self._texts[job.uid] = new
        if old == new:
            return
        _, before = self._landed.get(job.uid, ("", 0.0))
        self._landed[job.uid] = text, loop_time()
        if job.uid in self._excepted or late:
            return
        if "specon" in old and before < self._term_at:
            self._count(_told(old["specon"]))
        for policy, rule in RULES.items():
            if policy in old:
                for what in rule(old[policy], new.get(policy), self._jumped()):
                    self._violated(f"{job.key}: {what}")

    def _count(self, left: Mapping[str, Any]) -> None:
        """Count the annotation if it has a growth or a move, because only then would the check notice that it was
        forgotten.
        """
        self.texts["growth-kept"] += left["growth"] is not None
        self.texts["move-kept"] += _was_moved(left)

    def _is_late(self, uid: str) -> bool:
        """Tell whether an earlier leader wrote the job's annotation after the present leader had read the jobs.

        No job starts by a decision that is not written, so the present leader may decide as if there were no such
        annotation.
        """
        text, at = self._landed.get(uid, ("", 0.0))
        unknown = at >= self._term_at or uid in self._unseen
        return unknown and text not in self._own.get(uid, ())

    def stepped(self, extender: ExtenderProcess) -> None:
        """After a step of a process, record whether it leads and which annotations it wants to write."""
        who = extender.name, extender.incarnation
        began, self._led[who] = not self._led.get(who), extender.leads
        if not extender.leads:
            return
        if began:
            self._begin(extender)
        if self._decides == who:  # A process that is not the newest leader may still believe that it leads.
            for job_uid, text in extender.live.ledger.snapshot.texts.items():
                self._own.setdefault(job_uid.partition("/")[2], set()).add(text)
        self._plan(extender, began)

    def _begin(self, extender: ExtenderProcess) -> None:
        """Record that a process begins to lead, and which annotations it has read."""
        self._decides = extender.name, extender.incarnation
        self._term_at, self._own = loop_time(), {}
        listed = {job.uid.partition("/")[2]: job.memory for job in extender.live.ledger.snapshot.jobs.values()}
        self._unseen = {uid for uid, (text, _) in self._landed.items() if listed.get(uid) != text}

    def _plan(self, extender: ExtenderProcess, began: bool) -> None:
        """Check that the schedules of a process that has just begun to lead under OASiS are those in the annotations.

        This is required only in the same time slot, with the same room of the nodes as at the last decision, and if all
        plans were written: otherwise plans may change because they no longer fit. It also requires that no clock was
        set, because schedules move with the clock.
        """
        book: Any = extender.live.ledger.snapshot.memory.get("oasis")
        if book is None:
            return
        now = (book.slot, book.ground)
        same = now == self._before and not self._jumped()
        if began and same and self._all_kept and all(self._is_written(*wanted) for wanted in self._wanted.items()):
            self._compare(extender, book.slot)
        self._before, self._wanted = now, extender.live.ledger.snapshot.texts
        self._all_kept = not any(uid.partition("/")[2] in self.unkept for uid in book.plans)

    def _is_written(self, job_uid: str, text: str) -> bool:
        uid = job_uid.partition("/")[2]
        return uid in self._excepted or uid not in self._texts or json.loads(text) == self._texts[uid]

    def _compare(self, extender: ExtenderProcess, slot: int) -> None:
        snapshot = extender.live.ledger.snapshot
        known = {job.uid.partition("/")[2]: job for job in snapshot.jobs.values()}
        for uid in self._texts.keys() & known.keys() - self._excepted:
            job, remembered = known[uid], self._texts[uid].get("oasis", {})
            if (
                remembered.get("slot") != slot
                or "plan" not in remembered
                or json.loads(job.memory or "{}") != self._texts[uid]
            ):
                # the job was not admitted, its plan is from another time slot, or the process has not seen its newest
                # annotation yet
                continue
            planned = schedule(remembered["plan"], slot + 1)
            if not all(job.min_workers <= workers(layout) <= job.max_workers for layout in planned.values()):
                continue  # the user has changed the job's bounds, so that its plan may change
            self.schedules += 1
            kept = json.loads(snapshot.texts.get(job.uid, "{}")).get("oasis", {}).get("plan")
            if kept is None or (kept[1], schedule(kept, slot + 1)) != (remembered["plan"][1], planned):
                self._violated(f"{job.key}: {remembered['plan']} became {kept} at a restart in slot {slot}")


def schedule(plan: list[Any], first: int) -> dict[int, list[Any]]:
    """Return role, node and count of each entry by time slot, from that time slot on."""
    _, _, nodes, runs = plan
    return {
        slot: sorted((role, nodes[at], count) for role, at, count in layout)
        for start, times, layout in runs
        for slot in range(start, start + times)
        if slot >= first
    }


def workers(layout: list[Any]) -> int:
    """Return the number of workers in one time slot."""
    return sum(count for role, _, count in layout if role == "worker")


def oasis(old: Part, new: Part, jumped: bool) -> Iterator[str]:
    """Yield violations of OASiS's final decisions: a rejection with its payoff and price must not change, and an
    admitted job must stay admitted and counted in the prices.
    """
    new = new or {}
    if "rejected" in old:
        # A process whose clock was ahead, and has been set back since, may have rejected a job in a time slot that is
        # still to come.
        # since.
        set_back = jumped and new.get("refused", new.get("slot", 0)) < old.get("refused", 0)
        if not set_back and any(old.get(key) != new.get(key) for key in ("rejected", "refused")):
            yield f"its refusal {old['rejected']!r} became {new}"
        return
    if "plan" in old and "plan" not in new:
        yield f"it was admitted, and now is not: {new}"
    elif "plan" in old and old["plan"][0] != new["plan"][0]:
        yield f"it was admitted as {old['plan'][0]}, and now as {new['plan'][0]}"
    if "seen" in old and old["seen"] != new.get("seen") and not ("seen" not in new and (jumped or _aged(old["seen"]))):
        yield f"what the prices keep of it was {old['seen']}, and now is {new.get('seen')}"


def _aged(seen: list[Any]) -> bool:
    """Tell whether the job, of which ``seen`` was kept, is so old that it no longer sets the bounds of OASiS's
    prices.
    """
    return loop_time() // SLOT_SECONDS - float(seen[0]) >= HORIZON


def specon(old: Part, new: Part, jumped: bool) -> Iterator[str]:
    """Yield violations of SpeCon's memory: a job is moved only once, and its progress and growth are not forgotten.

    Growth is between two samples of one run of the job: it starts again after a move, and after a clock was set back so
    that the last sample lies in the future.
    """
    if new is None:
        yield f"its growth {old} is forgotten"
        return
    before, now = _told(old), _told(new)
    if any(was and not still for was, still in zip(_moves(before), _moves(now), strict=True)):
        yield f"that it was moved is forgotten: {old} became {new}"
    if _was_moved(before) and any(now[name] and not before[name] for name in ("moved", "balanced")):
        yield f"it was moved, and is decided about once more: {old} became {new}"
    if _came_less_far(before, now):
        yield f"how far its metric came is forgotten: {old} became {new}"
    if not jumped and (_goes_back(before, now) or _changed_unheard(before, now)):
        yield f"its growth {old} became {new}"


def _told(written: list[Any]) -> Mapping[str, Any]:
    return dict(zip(PROGRESS, written, strict=True))


def _moves(remembered: Mapping[str, Any]) -> tuple[bool, bool, bool]:
    """Return whether Algorithm 2 has decided about the job, Algorithm 3 has moved it, and either has moved it."""
    return remembered["moved"], remembered["balanced"], remembered["restart"] is not None


def _was_moved(remembered: Mapping[str, Any]) -> bool:
    """Tell whether the job was moved; if Algorithm 2 let it stay, Algorithm 3 may still move it."""
    return bool(remembered["balanced"]) or remembered["restart"] is not None


def _came_less_far(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Tell whether the annotation forgot how far the job's metric has come: its first value changed, or its least value
    rose.
    """
    worse = before["best"] is not None and (now["best"] is None or now["best"] > before["best"])
    return worse or (before["first"] is not None and before["first"] != now["first"])


def _goes_back(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Tell whether a job that was not moved has fewer or older samples of its metric than before, or an earlier
    restart.
    """
    if _moves(before) != _moves(now):
        return False
    lost = any(before[name] is not None and now[name] is None for name in LAST_SAMPLE)
    return lost or any(before[name] is not None and now[name] < before[name] for name in ("at", "restart"))


def _changed_unheard(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Tell whether the job's category or growth changed although it has neither reported nor been moved."""
    same = before["at"] == now["at"] and _moves(before) == _moves(now)
    return same and any(before[name] != now[name] for name in ("value", "growth", "category", "converged"))


RULES: Final[Mapping[str, Callable[[Part, Part, bool], Iterator[str]]]] = {"oasis": oasis, "specon": specon}

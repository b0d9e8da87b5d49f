"""What a policy has decided for good outlives every restart (S9), as far as the job objects tell.

The texts are read here anew, without the code that writes them. Excepted are jobs that somebody else has begun, that
their user has suspended, or whose bounds could not be read for a while: about these a policy may decide anew.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from extender.kube.jobkinds import MEMORY
from lab.sim.objects import JobObject
from tests.simulation.clocks import loop_time
from tests.simulation.scenario import PARAMETERS

if TYPE_CHECKING:
    from tests.simulation.processes import Extender

SLOT_SECONDS: Final = float(PARAMETERS["oasis"]["slot_seconds"])
HORIZON: Final = int(PARAMETERS["oasis"]["horizon"])
Part = Any
"""What one policy has written of a job: OASiS an object, SpeCon a list; None where it has written nothing."""
PROGRESS: Final = (
    "since", "category", "first", "best", "value", "at", "growth", "converged", "moved", "balanced", "restart",
)  # fmt: skip
"""SpeCon's list. The seeds leave moves_per_job at 1."""
LAST_SAMPLE: Final = ("value", "at", "growth")


class Remembered:
    """Compares each text with the one before it. ``jumped``: whether a wall clock has been set anew in this run."""

    def __init__(self, violated: Callable[[str], None], jumped: Callable[[], bool]) -> None:
        self.schedules = 0  # that were compared over a restart
        # SpeCon's texts that were compared over a restart: of jobs whose growth was known, and of moved ones
        self.texts = Counter[str]()
        # uids of jobs whose kind holds no notes: what is decided about them is written nowhere
        self.unkept = set[str]()
        self._violated = violated
        self._jumped = jumped
        self._texts: dict[str, Mapping[str, Part]] = {}  # by uid, as the API has them
        self._excepted: set[str] = set()
        self._led: dict[tuple[str, int], bool] = {}  # by process and incarnation
        self._decides: tuple[str, int] | None = None  # whose term is the newest
        self._before: tuple[int, object] = (-1, None)  # slot and room of the nodes at the last decision
        self._wanted: Mapping[str, str] = {}  # the texts as they were to be then
        self._all_kept = True  # whether every plan was in a text then: the room of another is planned for others
        self._term_at = 0.0
        self._unseen: set[str] = set()  # uids of jobs whose text had come after this term's list of them
        self._own: dict[str, set[str]] = {}  # by uid: every text that this term has wanted
        self._landed: dict[str, tuple[str, float]] = {}  # by uid: the text that the API has, and since when

    def see(self, job: JobObject, excepted: bool) -> None:
        """A job's object has changed. ``excepted``: it may be decided about anew."""
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
        """A text that holds neither could be forgotten, and nobody would see it."""
        self.texts["growth-kept"] += left["growth"] is not None
        self.texts["move-kept"] += _was_moved(left)

    def _is_late(self, uid: str) -> bool:
        """Whether the text that is there is an older term's that this one did not know when it began to decide.

        Nobody starts by a decision that is not written, so this term may decide as if the other had not.
        """
        text, at = self._landed.get(uid, ("", 0.0))
        unknown = at >= self._term_at or uid in self._unseen
        return unknown and text not in self._own.get(uid, ())

    def stepped(self, extender: Extender) -> None:
        """A process has made a step, whichever policy it has: what its term knows and wants is what it is judged by."""
        who = extender.name, extender.incarnation
        began, self._led[who] = not self._led.get(who), extender.leads
        if not extender.leads:
            return
        if began:
            self._begin(extender)
        if self._decides == who:  # another may not know yet that its term is over
            for job_uid, text in extender.live.ledger.snapshot.texts.items():
                self._own.setdefault(job_uid.partition("/")[2], set()).add(text)
        self._plan(extender, began)

    def _begin(self, extender: Extender) -> None:
        """A term begins with what its process has listed."""
        self._decides = extender.name, extender.incarnation
        self._term_at, self._own = loop_time(), {}
        listed = {job.uid.partition("/")[2]: job.memory for job in extender.live.ledger.snapshot.jobs.values()}
        self._unseen = {uid for uid, (text, _) in self._landed.items() if listed.get(uid) != text}

    def _plan(self, extender: Extender, began: bool) -> None:
        """OASiS's schedules of a process that has just begun to decide are those of the objects.

        Only where it is the same slot, the nodes have the same room as at the last decision, and all of that was
        written down: else plans may change, because they do not fit any more, or do not fit one another; and where no
        clock has been set anew, for schedules move with it.
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

    def _compare(self, extender: Extender, slot: int) -> None:
        snapshot = extender.live.ledger.snapshot
        known = {job.uid.partition("/")[2]: job for job in snapshot.jobs.values()}
        for uid in self._texts.keys() & known.keys() - self._excepted:
            job, told = known[uid], self._texts[uid].get("oasis", {})
            if told.get("slot") != slot or "plan" not in told or json.loads(job.memory or "{}") != self._texts[uid]:
                continue  # not admitted, or of another slot, or the newest text has not come to it yet
            planned = schedule(told["plan"], slot + 1)
            if not all(job.min_workers <= workers(layout) <= job.max_workers for layout in planned.values()):
                continue  # its user has changed the bounds
            self.schedules += 1
            kept = json.loads(snapshot.texts.get(job.uid, "{}")).get("oasis", {}).get("plan")
            if kept is None or (kept[1], schedule(kept, slot + 1)) != (told["plan"][1], planned):
                self._violated(f"{job.key}: {told['plan']} became {kept} at a restart in slot {slot}")


def schedule(plan: list[Any], first: int) -> dict[int, list[Any]]:
    """From that slot on, by slot: role, node and count of each part."""
    _, _, nodes, runs = plan
    return {
        slot: sorted((role, nodes[at], count) for role, at, count in layout)
        for start, times, layout in runs
        for slot in range(start, start + times)
        if slot >= first
    }


def workers(layout: list[Any]) -> int:
    """Of one slot."""
    return sum(count for role, _, count in layout if role == "worker")


def oasis(old: Part, new: Part, jumped: bool) -> Iterator[str]:
    """A refusal stands, word by word: its payoff, its price. Who was admitted stays so, and counts for the prices."""
    new = new or {}
    if "rejected" in old:
        # A refusal of a slot that has not come yet is of a clock that was ahead and was set back.
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
    """Whether the bounds of the prices need not count it any more."""
    return loop_time() // SLOT_SECONDS - float(seen[0]) >= HORIZON


def specon(old: Part, new: Part, jumped: bool) -> Iterator[str]:
    """A job is moved once in its life; how far its metric came is not forgotten, nor how fast it grows.

    The growth is between two samples of one run of the job: a move begins anew. So does a clock that is set back, for
    which the last sample has not been yet.
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


def _moves(told: Mapping[str, Any]) -> tuple[bool, bool, bool]:
    """Whether Algorithm 2 has decided about it, whether Algorithm 3 has moved it, and whether either has moved it."""
    return told["moved"], told["balanced"], told["restart"] is not None


def _was_moved(told: Mapping[str, Any]) -> bool:
    """Not where Algorithm 2 has let it stay: Algorithm 3 may still move it."""
    return bool(told["balanced"]) or told["restart"] is not None


def _came_less_far(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """E at first stays, and the least E only falls."""
    worse = before["best"] is not None and (now["best"] is None or now["best"] > before["best"])
    return worse or (before["first"] is not None and before["first"] != now["first"])


def _goes_back(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """To no sample or an earlier one, other than by a move; or to an earlier restart."""
    if _moves(before) != _moves(now):
        return False
    lost = any(before[name] is not None and now[name] is None for name in LAST_SAMPLE)
    return lost or any(before[name] is not None and now[name] < before[name] for name in ("at", "restart"))


def _changed_unheard(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether it is of another category, or grows otherwise, although it has neither told anything nor been moved."""
    same = before["at"] == now["at"] and _moves(before) == _moves(now)
    return same and any(before[name] != now[name] for name in ("value", "growth", "category", "converged"))


RULES: Final[Mapping[str, Callable[[Part, Part, bool], Iterator[str]]]] = {"oasis": oasis, "specon": specon}

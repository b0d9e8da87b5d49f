"""Define the kinds of faults, draw them at random, and count those that occurred.

A seed draws which kinds are switched on (swarm testing), and how often they occur. In a kept scenario, the faults come
from a list instead (`keptfaults.py`).
"""

from __future__ import annotations

import random
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from lab.virtual.clocks import loop_time

# These faults hit a call. Each kind that is switched on hits this share of the calls.
AT_CALLS: Final = {
    "bind-lost": 0.10, "bind-answer-lost": 0.10, "bind-conflict": 0.06, "bind-429": 0.10, "bind-500": 0.10,
    "bind-500-done": 0.10, "bind-forbidden": 0.08, "bind-slow": 0.10, "bind-lands-late": 0.05,
    "patch-lost": 0.15, "patch-answer-lost": 0.15, "patch-conflict": 0.15, "patch-429": 0.15, "patch-500": 0.15,
    "release-500": 0.40, "release-lost": 0.40, "release-answer-lost": 0.60,
    "renew-lost": 0.10, "renew-answer-lost": 0.10, "renew-500": 0.15,
    "get-500": 0.25, "get-lost": 0.10,
    "list-page-500": 0.20, "list-page-410": 0.15, "list-slow": 0.25, "list-late": 0.25,
    "watch-refused": 0.15, "watch-late": 0.05, "watch-duplicate": 0.05, "watch-reordered": 0.15,
    "watch-tail-lost": 0.02, "watch-410": 0.01, "watch-stalled": 0.006, "watch-closed": 0.03, "watch-undecodable": 0.01,
    "filter-request-lost": 0.03, "filter-answer-lost": 0.03, "filter-late": 0.02, "filter-twice": 0.06,
    "bind-call-lost": 0.03, "bind-call-answer-lost": 0.05, "bind-call-late": 0.03, "bind-call-twice": 0.05,
    "report-lost": 0.10, "report-late": 0.10, "report-frozen": 0.10, "report-absurd": 0.10, "report-forged": 0.10,
    "kill-in-move": 1.0, "leader-paused-in-move": 1.0,
    "hang-up-unseen": 0.5, "desired-lost": 0.03, "desired-late": 0.04,
}  # fmt: skip
# Crashes at a write to the API server: the process dies before it, after it, or after it without having seen the
# answer.
AT_WRITES: Final = {
    "kill-before-write": 0.02, "kill-after-write": 0.02, "kill-unanswered": 0.02,
}  # fmt: skip
# These faults occur by time; the numbers are their relative weights.
TIMED: Final = {
    "kill-extender": 2.0, "kill-controller": 1.0, "kill-scheduler": 1.0,
    "pause-extender": 1.0, "pause-controller": 0.7, "pause-scheduler": 0.5,
    "clock-jump-extender": 0.7, "clock-jump-controller": 0.4,
    "leader-killed": 0.7, "leader-paused": 1.0, "leader-paused-in-gang": 4.0, "leader-stopped-briefly": 0.5,
    "operator-restarted": 1.0, "compaction": 1.0, "lease-lost": 0.7, "lease-not-renewed": 0.5,
    "node-not-ready": 1.0, "node-cordoned": 1.0, "node-deleted": 0.7, "node-shrunk": 0.5, "node-back": 2.0,
    "pod-deleted": 2.0, "pod-failed": 1.0, "member-bound-by-another": 0.7, "room-stolen": 1.5, "room-given-back": 2.0,
    "job-bounds-edited": 1.0, "job-replicas-edited": 1.0, "job-suspended": 0.7, "job-resumed": 1.0, "job-deleted": 0.5,
    "kill-at-slot": 2.0, "pause-at-slot": 2.0,
    "gate-switched": 0.5, "bystander-created": 1.0, "annotation-forged": 0.5,
    "lone-pod-created": 1.0, "group-created": 1.5, "group-deleted": 0.8, "group-made-anew": 0.8,
    "worker-taken-out": 1.0, "index-done": 1.0,
}  # fmt: skip
# Faults by time that other clients of the cluster cause; they are drawn from a random stream of their own.
BY_OTHERS: Final = {
    "preemptor-created": 5.0, "volume-missing": 2.0, "writes-refused": 2.5,
    "refused-for-good": 1.0, "quota-set": 1.5,
}  # fmt: skip
BY_THE_STREAM: Final = (*AT_CALLS, *AT_WRITES, *TIMED)  # The seed's main random stream draws these kinds.
BY_TIME: Final = (*TIMED, *BY_OTHERS)
KINDS: Final = (*BY_THE_STREAM, *BY_OTHERS)
SHARE_OTHERS: Final = 0.5  # This share of the checks for faults by time also checks for a fault by other clients.
SHARE_ON: Final = 0.45
SHARE_ON_RARE: Final = 0.85
# In all seeds of a test together, each kind of fault has to occur this often (RARE) or 100 times. Faults of two
# replicas, of moves, of one kind of job, and of gangs that release their room have fewer chances. Moves have the
# fewest: a job must have converged, so most moves happen in the calm, without faults. Seeds 1 to 446 moved 105 jobs; at
# half of the present rate, the two faults of moves occurred 7 times and 2 times.
LEAST: Final = 100
RARE: Final = {
    "leader-paused-in-gang": 10, "hang-up-unseen": 10, "lease-lost": 20, "lease-not-renewed": 20, "job-resumed": 20,
    "leader-killed": 20, "leader-stopped-briefly": 20, "release-500": 6, "release-lost": 6, "release-answer-lost": 6,
    "kill-in-move": 2, "leader-paused-in-move": 2, "worker-taken-out": 20, "index-done": 20,
}  # fmt: skip
# Kinds of faults that can occur only under some policies; the others may occur under every policy.
AIMED: Final[dict[str, tuple[str, ...]]] = {
    "kill-in-move": ("specon", "kod2+specon"), "leader-paused-in-move": ("specon", "kod2+specon"),
    "kill-at-slot": ("oasis",), "pause-at-slot": ("oasis",),
}  # fmt: skip
# This fault also occurs in the calm, because jobs are short and its effect shows only there.
IN_CALM: Final = "worker-taken-out"
CHEAPEST: Final = -1000  # A user writes this deletion cost on a worker, so that the worker is removed first.
GENERATED: Final = re.compile(r"(-[bcdfghjklmnpqrstvwxz2456789]{9})?-[bcdfghjklmnpqrstvwxz2456789]{5}$")
LEAST_FAULTS: Final = 10  # A seed's storm is prolonged until this many faults have occurred.
ANY: Final = " (any)"  # This text ends a call's name in place of an object whose name differs from run to run.
T = TypeVar("T")


def kinds_for(policy: str) -> tuple[str, ...]:
    """Return the kinds of faults that a policy can meet."""
    return tuple(kind for kind in KINDS if policy in AIMED.get(kind, (policy,)))


def least(kind: str) -> int:
    """Return how often faults of this kind have to occur in all seeds of a test together."""
    return RARE.get(kind, LEAST)


class RunLog:
    """The log of a run, newest line last; the last lines are printed when the run fails."""

    def __init__(self) -> None:
        self._lines: deque[tuple[float, str]] = deque(maxlen=4000)

    def add(self, text: str) -> None:
        self._lines.append((loop_time(), text))

    def last(self, seconds: float, until: float) -> list[str]:
        return [f"{at:10.3f}  {text}" for at, text in self._lines if until - seconds <= at <= until]


@dataclass(slots=True)
class DrawnFault:
    """One fault; its truth value is False if it stands for no fault.

    ``at`` names the call that the fault hits; it is empty for a fault by time. ``nth`` says which of those calls is
    hit, or "*" for all. ``since``, in seconds since the start, is the time of a fault by time; for a call without an
    object, the first call from then on is hit. ``values`` has the values that were drawn for the fault, by name; values
    that a kept scenario lists are not drawn again.
    """

    chance: random.Random
    kind: str = ""
    at: str = ""
    nth: int | str = 0
    since: float | None = None
    values: dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.kind)

    def draw(self, name: str, how: Callable[[random.Random], T]) -> T:
        """Return the fault's value of that name; ``how`` draws it if a kept scenario does not list it."""
        if name not in self.values:
            self.values[name] = how(self.chance)
        found: T = self.values[name]
        return found

    def uniform(self, name: str, least: float, most: float) -> float:
        """Return the fault's value of that name, a number between ``least`` and ``most``."""
        return self.draw(name, lambda chance: chance.uniform(least, most))

    def choice(self, name: str, options: Sequence[T]) -> T:
        """Return the fault's value of that name, one of the options."""
        return self.draw(name, lambda chance: chance.choice(options))

    def pick(self, name: str, found: Iterable[T], called: Callable[[T], str]) -> T | None:
        """Return one of the objects ``found``, and record its name as the fault's value ``name``.

        If the recorded object is not among them, return None.
        """
        options = list(found)
        if name in self.values:
            return next((one for one in options if called(one) == self.values[name]), None)
        if not options:
            return None
        one = self.chance.choice(options)
        self.values[name] = called(one)
        return one


class FaultSource:
    """Draws the faults of one run; ``taken`` has those that occurred, in order."""

    def __init__(self, seed: int, run_log: RunLog, kinds: tuple[str, ...] | None = None, policy: str = "") -> None:
        self.counts: Counter[str] = Counter()
        self.taken: list[DrawnFault] = []
        self.active = False
        self.began = loop_time()
        self.chance = random.Random(f"faults {seed}")
        self._run_log = run_log
        self._calls: Counter[str] = Counter()
        drawn = [kind for kind in BY_THE_STREAM if self.chance.random() < (SHARE_ON_RARE if kind in RARE else SHARE_ON)]
        self._others = random.Random(f"others {seed}")
        drawn += [kind for kind in BY_OTHERS if self._others.random() < SHARE_ON]
        self.on = frozenset(drawn if kinds is None else kinds).intersection(kinds_for(policy))
        self._scale = self.chance.choice((0.3, 1.0, 1.0, 2.0))

    def fault_at(self, calls: Sequence[str], *kinds: str, chance: random.Random | None = None) -> DrawnFault:
        """Return the first fault of these kinds that hits this call; if there is none, a fault whose truth value is
        False.

        ``calls`` are the names of the call: a burst of events has one name for each event. ``chance`` draws the fault's
        values.
        """
        self._calls.update(calls)
        if not self.active:
            return self._nothing()
        found = self._hit(calls, kinds)
        if found:
            found.chance = chance or self.chance
            self.note(found)
        return found

    def _hit(self, calls: Sequence[str], kinds: Sequence[str]) -> DrawnFault:
        for kind in kinds:
            rate = AT_CALLS.get(kind) or AT_WRITES[kind]
            if kind in self.on and self.chance.random() < min(0.6, rate * self._scale):
                if calls[0].endswith(ANY):
                    return DrawnFault(self.chance, kind, calls[0], since=self.seconds)
                return DrawnFault(self.chance, kind, calls[0], self._calls[calls[0]])
        return self._nothing()

    def _nothing(self) -> DrawnFault:
        return DrawnFault(self.chance)

    @property
    def seconds(self) -> float:
        """Return the virtual seconds since the start of the run."""
        return loop_time() - self.began

    @property
    def enough(self) -> bool:
        """Tell whether there were enough faults for the storm to end on time."""
        return self.counts.total() >= LEAST_FAULTS

    def gap(self, mean: float, left: float) -> float:
        """Return the seconds, ``mean`` on average, until the next check for faults by time; ``left`` is the rest of the
        storm.
        """
        gap = self.chance.expovariate(1 / mean)
        return min(left, gap) if left > 0 else gap

    def due(self) -> list[DrawnFault]:
        """Return the faults by time that are due now and have something that they can hit."""
        by_others = self._drawn(BY_OTHERS, self._others) if self._others.random() < SHARE_OTHERS else []
        return self._drawn(TIMED, self.chance) + by_others

    def _drawn(self, weights: Mapping[str, float], chance: random.Random) -> list[DrawnFault]:
        """Return a list with one of these kinds of faults, drawn by weight; it is empty if none of them is switched
        on.
        """
        kinds = [kind for kind in weights if kind in self.on]
        if not kinds:
            return []
        kind = chance.choices(kinds, [weights[kind] for kind in kinds])[0]
        return [DrawnFault(chance, kind, since=self.seconds)]

    def due_in_calm(self) -> list[DrawnFault]:
        """Return the faults that should occur after the storm."""
        return [DrawnFault(self.chance, IN_CALM, since=self.seconds)] if IN_CALM in self.on else []

    def note(self, fault: DrawnFault, what: str = "") -> None:
        """Count a fault that occurred, and log ``what`` it has done."""
        self.counts[fault.kind] += 1
        self.taken.append(fault)
        self._run_log.add(f"fault {fault.kind} {fault.at} {what}".rstrip())


def plain(name: str) -> str:
    """Return an object's name without the part that its controller generated, which differs from run to run."""
    return GENERATED.sub("", name)

"""Give a kept scenario its faults, which come from a list and not from a random stream.

A fault at a call happens at the n-th call of that name ("*": at each). If a fault of its kind cannot hit that call, it
happens at the next one that it can hit. A fault at a call without an object happens at the first such call from the
fault's second on. A fault by time whose target does not exist yet waits for the target, up to PATIENCE seconds; then it
is dropped.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tests.simulation.faults import IN_CALM, DrawnFault, FaultSource, RunLog

PATIENCE: Final = 20.0
LOOK: Final = 1.0  # The list is checked again after this many seconds while no fault is due.
WAITING: Final = 0.04  # The list is checked again after this many seconds while a fault waits for its target.
EVERY: Final = "*"
Identity = tuple[str, str, int | str, float | None]


class KeptFaults(FaultSource):
    """Replays the faults of a list; a value that the list does not have is drawn at random."""

    def __init__(self, seed: int, run_log: RunLog, listed: Sequence[DrawnFault]) -> None:
        super().__init__(seed, run_log, kinds=())
        self._at: dict[str, list[DrawnFault]] = defaultdict(list)
        for fault in listed:
            if fault.at:
                self._at[fault.at].append(fault)
        self._timed = sorted((fault for fault in listed if not fault.at), key=_since)
        self._done: set[Identity] = set()

    def _hit(self, calls: Sequence[str], kinds: Sequence[str]) -> DrawnFault:
        for call in calls:
            for fault in self._at.get(call, ()):
                if fault.kind in kinds and self._is_now(fault):
                    return self._again(fault)
        return self._nothing()

    def _is_now(self, fault: DrawnFault) -> bool:
        if fault.nth == EVERY:
            return True
        if _identity(fault) in self._done:
            return False
        if fault.since is not None:
            return fault.since <= self.seconds
        return self._calls[fault.at] >= int(fault.nth)

    def _again(self, fault: DrawnFault) -> DrawnFault:
        """Return a copy of the fault, so that values drawn for one attempt do not affect the next."""
        return replace(fault, values=dict(fault.values), chance=random.Random(self.chance.random()))

    @property
    def enough(self) -> bool:
        return True

    def gap(self, mean: float, left: float) -> float:
        seconds = self.seconds
        following = next((_since(fault) - seconds for fault in self._timed), LOOK)
        return min(max(following, WAITING), LOOK, left)

    def due(self) -> list[DrawnFault]:
        seconds = self.seconds
        self._timed = [fault for fault in self._timed if seconds - _since(fault) < PATIENCE]
        return [self._again(fault) for fault in self._timed if _since(fault) <= seconds]

    def due_in_calm(self) -> list[DrawnFault]:
        return [self._again(fault) for fault in self._timed if fault.kind == IN_CALM]

    def note(self, fault: DrawnFault, what: str = "") -> None:
        done = _identity(fault)
        self._done.add(done)
        self._timed = [waiting for waiting in self._timed if _identity(waiting) != done]
        super().note(fault, what)


def _identity(fault: DrawnFault) -> Identity:
    return fault.kind, fault.at, fault.nth, fault.since


def _since(fault: DrawnFault) -> float:
    return fault.since or 0.0

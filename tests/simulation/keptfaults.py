"""The faults of a kept scenario, which come from its list instead of a random stream.

A fault at a call happens at the n-th call of that name ("*": at each); if a fault of its kind cannot hit that call, at
the next one that it can hit. A fault at a call without an object happens at the first such call from its second on. A
fault by time whose target does not exist yet waits for it, up to PATIENCE seconds; then it is dropped.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tests.simulation.faults import IN_CALM, DrawnFault, FaultSource, RunLog

PATIENCE: Final = 20.0
LOOK: Final = 1.0  # seconds between two checks while no fault is due
WAITING: Final = 0.04  # the same while a fault waits for its target
EVERY: Final = "*"
Identity = tuple[str, str, int | str, float | None]


class KeptFaults(FaultSource):
    """Does the faults of a list; values that the list does not give are drawn."""

    def __init__(self, seed: int, story: RunLog, listed: Sequence[DrawnFault]) -> None:
        super().__init__(seed, story, kinds=())
        self._at: dict[str, list[DrawnFault]] = defaultdict(list)
        for strike in listed:
            if strike.at:
                self._at[strike.at].append(strike)
        self._timed = sorted((strike for strike in listed if not strike.at), key=_since)
        self._done: set[Identity] = set()

    def _hit(self, calls: Sequence[str], kinds: Sequence[str]) -> DrawnFault:
        for call in calls:
            for strike in self._at.get(call, ()):
                if strike.kind in kinds and self._is_now(strike):
                    return self._again(strike)
        return self._nothing()

    def _is_now(self, strike: DrawnFault) -> bool:
        if strike.nth == EVERY:
            return True
        if _identity(strike) in self._done:
            return False
        if strike.since is not None:
            return strike.since <= self.seconds
        return self._calls[strike.at] >= int(strike.nth)

    def _again(self, strike: DrawnFault) -> DrawnFault:
        """Return the fault with its own copy of values, so that draws for one try do not affect the next."""
        return replace(strike, values=dict(strike.values), chance=random.Random(self.chance.random()))

    @property
    def enough(self) -> bool:
        return True

    def gap(self, mean: float, left: float) -> float:
        seconds = self.seconds
        following = next((_since(strike) - seconds for strike in self._timed), LOOK)
        return min(max(following, WAITING), LOOK, left)

    def due(self) -> list[DrawnFault]:
        seconds = self.seconds
        self._timed = [strike for strike in self._timed if seconds - _since(strike) < PATIENCE]
        return [self._again(strike) for strike in self._timed if _since(strike) <= seconds]

    def due_in_calm(self) -> list[DrawnFault]:
        return [self._again(strike) for strike in self._timed if strike.kind == IN_CALM]

    def note(self, strike: DrawnFault, what: str = "") -> None:
        done = _identity(strike)
        self._done.add(done)
        self._timed = [waiting for waiting in self._timed if _identity(waiting) != done]
        super().note(strike, what)


def _identity(strike: DrawnFault) -> Identity:
    return strike.kind, strike.at, strike.nth, strike.since


def _since(strike: DrawnFault) -> float:
    return strike.since or 0.0

"""The faults of a kept scenario: they come from its list, and not from a random stream.

A fault at a call is done at the n-th call of that name ("*": at each); where a fault of its kind cannot hit just that
one, at the next that it can. One at a call without an object is done at the first such call from its second on. A
fault by time whose target is not there yet waits for it, up to PATIENCE seconds; then it does not come.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tests.simulation.faults import IN_CALM, Faults, Story, Strike

PATIENCE: Final = 20.0
LOOK: Final = 1.0  # seconds between two looks where no fault is due
WAITING: Final = 0.04  # the same, while one waits for its target
EVERY: Final = "*"
Identity = tuple[str, str, int | str, float | None]


class KeptFaults(Faults):
    """Does the faults of a list. ``listed``: their values are taken, and what they do not say is drawn."""

    def __init__(self, seed: int, story: Story, listed: Sequence[Strike]) -> None:
        super().__init__(seed, story, kinds=())
        self._at: dict[str, list[Strike]] = defaultdict(list)
        for strike in listed:
            if strike.at:
                self._at[strike.at].append(strike)
        self._timed = sorted((strike for strike in listed if not strike.at), key=_since)
        self._done: set[Identity] = set()

    def _hit(self, calls: Sequence[str], kinds: Sequence[str]) -> Strike:
        for call in calls:
            for strike in self._at.get(call, ()):
                if strike.kind in kinds and self._is_now(strike):
                    return self._again(strike)
        return self._nothing()

    def _is_now(self, strike: Strike) -> bool:
        if strike.nth == EVERY:
            return True
        if _identity(strike) in self._done:
            return False
        if strike.since is not None:
            return strike.since <= self.seconds
        return self._calls[strike.at] >= int(strike.nth)

    def _again(self, strike: Strike) -> Strike:
        """It with values of its own: what is drawn for one try does not hold for the next."""
        return replace(strike, values=dict(strike.values), chance=random.Random(self.chance.random()))

    @property
    def enough(self) -> bool:
        return True

    def gap(self, mean: float, left: float) -> float:
        seconds = self.seconds
        following = next((_since(strike) - seconds for strike in self._timed), LOOK)
        return min(max(following, WAITING), LOOK, left)

    def due(self) -> list[Strike]:
        seconds = self.seconds
        self._timed = [strike for strike in self._timed if seconds - _since(strike) < PATIENCE]
        return [self._again(strike) for strike in self._timed if _since(strike) <= seconds]

    def due_in_calm(self) -> list[Strike]:
        return [self._again(strike) for strike in self._timed if strike.kind == IN_CALM]

    def note(self, strike: Strike, what: str = "") -> None:
        done = _identity(strike)
        self._done.add(done)
        self._timed = [waiting for waiting in self._timed if _identity(waiting) != done]
        super().note(strike, what)


def _identity(strike: Strike) -> Identity:
    return strike.kind, strike.at, strike.nth, strike.since


def _since(strike: Strike) -> float:
    return strike.since or 0.0

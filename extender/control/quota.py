"""How many Events of one job may be written: a job that is tried again and again is not told of each attempt."""

from __future__ import annotations

from collections import deque
from typing import Final

MOST: Final = 9
SECONDS: Final = 3600.0


class Quota:
    """At most `MOST` in any hour of each job."""

    def __init__(self) -> None:
        """Nothing was told yet."""
        self._told: dict[str, deque[float]] = {}
        self._swept = 0.0

    def take(self, uid: str, now: float) -> bool:
        """Whether one more may be told of that job; then it counts. now: seconds since the epoch."""
        self._sweep(now)
        told = self._told.setdefault(uid, deque())
        while told and told[0] <= now - SECONDS:
            told.popleft()
        if len(told) >= MOST:
            return False
        told.append(now)
        return True

    def _sweep(self, now: float) -> None:
        """Once an hour: forget jobs that nothing was told of since."""
        if now - self._swept >= SECONDS:
            self._swept = now
            self._told = {uid: told for uid, told in self._told.items() if told[-1] > now - SECONDS}

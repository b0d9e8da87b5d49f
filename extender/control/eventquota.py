"""Limits how many Events one job gets, so that a job that is tried repeatedly does not get one for each attempt."""

from __future__ import annotations

from collections import deque
from typing import Final

MOST: Final = 9
SECONDS: Final = 3600.0


class EventQuota:
    """Allows at most `MOST` Events of each job in any hour."""

    def __init__(self) -> None:
        self._written: dict[str, deque[float]] = {}
        self._swept = 0.0

    def take(self, uid: str, now: float) -> bool:
        """Tell whether one more Event of that job is allowed, and count it. ``now``: seconds since the epoch."""
        self._sweep(now)
        times = self._written.setdefault(uid, deque())
        while times and times[0] <= now - SECONDS:
            times.popleft()
        if len(times) >= MOST:
            return False
        times.append(now)
        return True

    def _sweep(self, now: float) -> None:
        """Once an hour, forget the jobs that had no Event in the last hour, so that memory does not grow."""
        if now - self._swept >= SECONDS:
            self._swept = now
            self._written = {uid: times for uid, times in self._written.items() if times[-1] > now - SECONDS}

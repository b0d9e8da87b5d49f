"""Limits the controller's writes: `RateLimit` the writes per second, `EventQuota` the Events of one job per hour.

Without the quota a job that is tried repeatedly would get an Event for each attempt.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from extender.clock import Clock

MOST: Final = 9
SECONDS: Final = 3600.0


class RateLimit:
    """Lets its callers go on at a limited rate, in the order in which they ask for a turn.

    After a pause, as many callers as the rate allows in one second may go on at once.
    """

    def __init__(self, per_second: float, clock: Clock) -> None:
        """Prepare a limit of ``per_second`` turns; at first, the turns of one second may be taken at once."""
        self._per_second = per_second
        self._clock = clock
        self._burst = max(1.0, per_second)
        self._in_hand = self._burst
        self._counted = clock.monotonic()

    async def turn(self) -> None:
        """Wait until the rate allows another turn; callers get their turns in the order of their calls."""
        now = self._clock.monotonic()
        self._in_hand = min(self._burst, self._in_hand + (now - self._counted) * self._per_second)
        self._counted = now
        self._in_hand -= 1.0
        if self._in_hand < 0:
            await self._clock.sleep(-self._in_hand / self._per_second)


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

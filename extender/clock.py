"""The clock of the service: no other module asks the system for the time.

All other modules get a `Clock`, or a time as a plain number. Durations are measured by `monotonic`, never by `now`,
because a wall clock may jump. A second of this clock passes in ``1 / speed`` real seconds; with a ``speed`` of 60 the
demo shows an hour in a minute.
"""

from __future__ import annotations

import asyncio
import time


class Clock:
    """Tells wall time and monotonic time, and waits, all in this clock's own seconds."""

    def __init__(self, speed: float = 1.0) -> None:
        """Start the clock. ``speed``: its seconds per real second. Raises ValueError where that is not above 0."""
        if not speed > 0:
            raise ValueError(f"speed: must be above 0, is {speed}")
        self.speed = speed
        self._wall_start = time.time()
        self._monotonic_start = time.monotonic()

    def now(self) -> float:
        """Return seconds since the epoch, for people and for API timestamps."""
        return self._wall_start + (time.time() - self._wall_start) * self.speed

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start; they never decrease. Use them for every duration and deadline."""
        return self._monotonic_start + (time.monotonic() - self._monotonic_start) * self.speed

    async def sleep(self, seconds: float) -> None:
        """Wait ``seconds`` of this clock; zero or less only yields to other tasks."""
        await asyncio.sleep(max(0.0, seconds) / self.speed)

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        """Return a context manager that raises TimeoutError after ``seconds`` of this clock; None sets no limit."""
        return asyncio.timeout(None if seconds is None else seconds / self.speed)

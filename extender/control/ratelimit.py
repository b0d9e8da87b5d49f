"""Limits how often something is done: to a number of turns per second, of which one second's worth may come at once."""

from __future__ import annotations

from extender.clock import Clock


class RateLimit:
    """Gives its callers turns, in the order in which they ask, at a limited rate."""

    def __init__(self, per_second: float, clock: Clock) -> None:
        """Start with one second's worth of turns available."""
        self._per_second = per_second
        self._clock = clock
        self._burst = max(1.0, per_second)
        self._in_hand = self._burst
        self._counted = clock.monotonic()

    async def turn(self) -> None:
        """Wait for a turn, which comes after all turns that were requested before."""
        now = self._clock.monotonic()
        self._in_hand = min(self._burst, self._in_hand + (now - self._counted) * self._per_second)
        self._counted = now
        self._in_hand -= 1.0
        if self._in_hand < 0:
            await self._clock.sleep(-self._in_hand / self._per_second)

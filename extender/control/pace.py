"""A rate limit: so many turns a second, and at most a second's worth at once."""

from __future__ import annotations

from extender.clock import Clock


class Pace:
    """Turns are given in the order in which they are asked for."""

    def __init__(self, per_second: float, clock: Clock) -> None:
        """Start with a second's worth in hand."""
        self._per_second = per_second
        self._clock = clock
        self._burst = max(1.0, per_second)
        self._in_hand = self._burst
        self._counted = clock.monotonic()

    async def turn(self) -> None:
        """Wait for a turn; the debt of those before is waited for as well."""
        now = self._clock.monotonic()
        self._in_hand = min(self._burst, self._in_hand + (now - self._counted) * self._per_second)
        self._counted = now
        self._in_hand -= 1.0
        if self._in_hand < 0:
            await self._clock.sleep(-self._in_hand / self._per_second)

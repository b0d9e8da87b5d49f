"""Holds the current snapshot: the single writer. It calls ``policy.step`` and tells those who carry out effects.

1. Only the event loop's thread may call it; readers take ``snapshot`` without a lock, it never changes.
2. ``post`` gathers facts for a moment, so that a burst makes one decision; ``step`` applies them and its own at once.
3. An effect's outcome comes back through ``post`` or ``step`` as an event, never by a call-back into the state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from extender.clock import Clock
from extender.journal import Journal
from policy.cluster.actions import Effect
from policy.cluster.events import Event, Tick
from policy.cluster.snapshot import Rules, Snapshot
from policy.step import step
from policy.systems.base import Policy

Carrier = Callable[[tuple[Effect, ...]], None]


class Ledger:
    """The state of one process. ``coalesce``: seconds for which ``post`` gathers."""

    def __init__(self, policy: Policy, rules: Rules, clock: Clock, journal: Journal, coalesce: float = 0.02) -> None:
        self.policy = policy
        self.snapshot = Snapshot(rules=rules)
        self.clock = clock
        self.journal = journal
        self._coalesce = coalesce
        self._queued: list[Event] = []
        self._timer: asyncio.TimerHandle | None = None
        self._carriers: list[Carrier] = []
        self._changed = asyncio.Event()

    def carry_with(self, carrier: Carrier) -> None:
        """Have ``carrier`` called with the effects of every step."""
        self._carriers.append(carrier)

    @property
    def dirty(self) -> bool:
        """Whether facts wait to be applied."""
        return bool(self._queued)

    def post(self, *events: Event) -> None:
        """Queue facts; they are applied within the coalescing time."""
        self._queued += events
        if self._timer is None and self._queued:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._coalesce / self.clock.speed, self.step)

    def step(self, *events: Event) -> tuple[Effect, ...]:
        """Apply what is queued and then ``events``, decide, and hand out the effects."""
        batch = [*self._queued, *events]
        self._queued = []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.snapshot, effects = step(self.snapshot, batch, self.policy, self.clock.now())
        self.journal.write(
            self.clock.now(), self.snapshot.generation, [type(event).__name__ for event in batch], effects
        )
        self._changed.set()
        self._changed = asyncio.Event()
        for carrier in self._carriers:
            carrier(effects)
        return effects

    async def changed(self, generation: int, timeout: float) -> Snapshot:
        """The first snapshot after ``generation``, or the current one when ``timeout`` (seconds) has passed."""
        if self.snapshot.generation <= generation:
            try:
                async with self.clock.timeout(timeout):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return self.snapshot

    async def tick(self, seconds: float) -> None:
        """Let time pass for ever: deadlines run out and waiting jobs starve without any event."""
        while True:
            await self.clock.sleep(self._until_next(seconds))
            self.step(Tick())

    def _until_next(self, seconds: float) -> float:
        """Seconds to the nearest deadline, at most ``seconds``."""
        gangs = self.snapshot.gangs.values()
        ends = [end for gang in gangs for end in (gang.window_ends, gang.deadline) if end is not None]
        ends += [gang.not_before for gang in gangs if gang.not_before > self.clock.now()]
        ends += self.snapshot.not_offered.values()
        return max(0.05, min([seconds, *(end - self.clock.now() for end in ends)]))

"""A clock per process, in virtual time, that can be paused or set wrongly."""

from __future__ import annotations

import asyncio
import weakref

from lab.virtual.clocks import VirtualClock


class ProcessClock(VirtualClock):
    """The clock of one simulated process, in virtual time.

    While the process is paused, none of its tasks wakes. Its wall clock may be wrong by ``offset`` seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.offset = 0.0
        self.paused_until = 0.0
        self._made = 0
        self._timeouts: weakref.WeakValueDictionary[int, asyncio.Timeout] = weakref.WeakValueDictionary()

    def now(self) -> float:
        return self._loop.time() + self.offset

    async def sleep(self, seconds: float) -> None:
        await (self._loop.sleep(seconds) if seconds > 0 else asyncio.sleep(0))
        if self.paused:
            await self.awake()

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        made = asyncio.timeout(seconds)
        self._made += 1
        self._timeouts[self._made] = made
        return made

    @property
    def paused(self) -> bool:
        return self._loop.time() < self.paused_until

    async def awake(self) -> None:
        """Wait until the process is not paused."""
        while (left := self.paused_until - self._loop.time()) > 0:
            await self._loop.sleep(left)

    def pause(self, seconds: float) -> None:
        """Pause the process for ``seconds`` seconds, as SIGSTOP does. Timers that are due meanwhile fire at the end of
        the pause.
        """
        self.paused_until = max(self.paused_until, self._loop.time() + seconds)
        for _, waiting in sorted(self._timeouts.items()):
            when = waiting.when()
            if when is not None and when < self.paused_until:
                try:
                    waiting.reschedule(self.paused_until + 1e-6)
                except (AssertionError, RuntimeError):
                    continue  # The time limit has not begun yet, or has ended.

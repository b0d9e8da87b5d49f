"""Virtual time: a loop whose clock jumps, and one clock per process that may be paused or set to another wall time."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from contextvars import Context
from typing import Any

from extender.clock import Clock

START = 10_000.0  # an hour back is still after the epoch
TIE = 4e-12  # one step of a float at that size: timers of one instant run in the order in which they were made


class SimLoop(asyncio.SelectorEventLoop):
    """No sockets, no waiting: time jumps to the next timer. Two runs of one program take the same way."""

    def __init__(self) -> None:
        super().__init__()
        self._now = START
        self._timers = 0
        self._selector.select = self._jump  # type: ignore[attr-defined]

    def _jump(self, timeout: float | None) -> list[Any]:
        assert timeout is not None, "everybody waits for ever"
        self._now += timeout
        return []

    def time(self) -> float:
        return self._now

    def call_at(  # type: ignore[override]  # its type variables are newer than our oldest Python
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._timers += 1
        return super().call_at(when + self._timers * TIE, callback, *args, context=context)


def loop_time() -> float:
    """The virtual time."""
    return asyncio.get_running_loop().time()


class ProcessClock(Clock):
    """One process's time. While it is paused nothing of it wakes; its wall clock may be off by ``offset`` seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = 0.0
        self.paused_until = 0.0
        self._made = 0
        self._timeouts: weakref.WeakValueDictionary[int, asyncio.Timeout] = weakref.WeakValueDictionary()

    def now(self) -> float:
        return loop_time() + self.offset

    def monotonic(self) -> float:
        return loop_time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
        await self.awake()

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        made = asyncio.timeout(seconds)
        self._made += 1
        self._timeouts[self._made] = made
        return made

    @property
    def paused(self) -> bool:
        return loop_time() < self.paused_until

    async def awake(self) -> None:
        """Return once the process runs."""
        while (left := self.paused_until - loop_time()) > 0:  # noqa: ASYNC110 - it may be paused again meanwhile
            await asyncio.sleep(left)

    def pause(self, seconds: float) -> None:
        """Stop the process, as a garbage collection or SIGSTOP does: what comes due meanwhile comes due at the end."""
        self.paused_until = max(self.paused_until, loop_time() + seconds)
        for _, waiting in sorted(self._timeouts.items()):
            when = waiting.when()
            if when is not None and when < self.paused_until:
                try:
                    waiting.reschedule(self.paused_until + 1e-6)
                except (AssertionError, RuntimeError):
                    continue  # not entered yet, or over

"""Virtual time: an event loop whose clock jumps, and a clock per process that can be paused or set wrongly."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context
from heapq import heappop, heappush
from typing import Any

from extender.clock import Clock

START = 10_000.0  # the wall clock at the start; large enough that an hour earlier is still after the epoch
Timer = tuple[float, int, "asyncio.TimerHandle | asyncio.Future[None]"]


class SimLoop(asyncio.SelectorEventLoop):
    """An event loop without sockets whose time jumps to the next timer, so that equal programs run equally.

    Timers of the same instant run in the order in which they were made.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now = START
        self._made = 0
        self._timers: list[Timer] = []
        self._waiting: deque[asyncio.Handle | asyncio.Future[None]] = self._ready  # type: ignore[attr-defined]

    def _run_once(self) -> None:
        """Run one iteration, like asyncio's own, without polling sockets."""
        timers, waiting = self._timers, self._waiting
        if not waiting and not self._stopping:  # type: ignore[attr-defined]
            while timers and timers[0][2].cancelled():
                heappop(timers)
            assert timers, "everybody waits for ever"
            self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            waiting.append(heappop(timers)[2])
        for _ in range(len(waiting)):
            handle = waiting.popleft()
            if isinstance(handle, asyncio.Future):
                if not handle.done():
                    handle.set_result(None)
            elif not handle._cancelled:
                handle._run()

    def time(self) -> float:
        return self._now

    def get_debug(self) -> bool:
        return False  # asyncio asks for debug mode at every callback

    def call_soon(  # type: ignore[override]  # its type variables are newer than our oldest Python
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        made = asyncio.Handle(callback, args, self, context)
        self._waiting.append(made)
        return made

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._made += 1
        made = asyncio.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, self._made, made))
        return made

    def run_in_executor(  # type: ignore[override]  # as call_soon
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run the function at once on this thread; real threads would end at arbitrary virtual times."""
        done: asyncio.Future[Any] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def sleep(self, seconds: float) -> asyncio.Future[None]:
        """Return a future like asyncio.sleep, but cheaper: half of all events here are wake-ups."""
        self._made += 1
        made: asyncio.Future[None] = self.create_future()
        heappush(self._timers, (self._now + seconds, self._made, made))
        return made

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is skipped when it is due."""


def sim_loop() -> SimLoop:
    """Return the running loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    return loop


def loop_time() -> float:
    """Return the virtual time."""
    return asyncio.get_running_loop().time()


async def sleep(seconds: float) -> None:
    """Wait so many seconds of virtual time; zero or less only yields to other tasks."""
    await (sim_loop().sleep(seconds) if seconds > 0 else asyncio.sleep(0))


class ProcessClock(Clock):
    """The clock of one process.

    While the process is paused, none of its tasks wakes. Its wall clock may be off by ``offset`` seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self._loop = sim_loop()
        self.offset = 0.0
        self.paused_until = 0.0
        self._made = 0
        self._timeouts: weakref.WeakValueDictionary[int, asyncio.Timeout] = weakref.WeakValueDictionary()

    def now(self) -> float:
        return self._loop.time() + self.offset

    def monotonic(self) -> float:
        return self._loop.time()

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
        """Pause the process like a garbage collection or SIGSTOP: timers due meanwhile fire at the end."""
        self.paused_until = max(self.paused_until, self._loop.time() + seconds)
        for _, waiting in sorted(self._timeouts.items()):
            when = waiting.when()
            if when is not None and when < self.paused_until:
                try:
                    waiting.reschedule(self.paused_until + 1e-6)
                except (AssertionError, RuntimeError):
                    continue  # the time limit was not entered yet, or has ended

"""Virtual time: an event loop whose clock jumps to the next timer, and the clock that shows its time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context
from heapq import heappop, heappush
from typing import Any

from extender.clock import Clock

# virtual time begins at this time in seconds since the epoch; an hour earlier is still after the epoch
START = 10_000.0
Timer = tuple[float, int, "asyncio.TimerHandle | asyncio.Future[None]"]


class SimLoop(asyncio.SelectorEventLoop):
    """An event loop without sockets whose time jumps to the next timer, so that a program gives the same result in each
    run.

    Timers of the same instant run in the order in which they were made. ``start``: the loop's first time, in seconds.
    """

    def __init__(self, start: float = START) -> None:
        super().__init__()
        self._now = start
        self._made = 0
        self._timers: list[Timer] = []
        self._waiting: deque[asyncio.Handle | asyncio.Future[None]] = self._ready  # type: ignore[attr-defined]

    def _run_once(self) -> None:
        """Run one iteration of the loop as asyncio does, but without polling sockets. If no task can run, move the time
        to the next timer.
        """
        timers, waiting = self._timers, self._waiting
        if not waiting and not self._stopping:  # type: ignore[attr-defined]
            while timers and timers[0][2].cancelled():
                heappop(timers)
            if not timers:
                raise RuntimeError("every task waits for another one, so time would stand still for ever")
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
        return False  # the method returns a constant, because asyncio calls it at every callback

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
        """Run the function at once on this thread, because a real thread would end at an arbitrary virtual time."""
        done: asyncio.Future[Any] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def sleep(self, seconds: float) -> asyncio.Future[None]:
        """Return a future that is done after ``seconds`` of virtual time. It costs less than asyncio.sleep, because
        half of all events in a run are such wake-ups.
        """
        self._made += 1
        made: asyncio.Future[None] = self.create_future()
        heappush(self._timers, (self._now + seconds, self._made, made))
        return made

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is skipped when it is due."""


def sim_loop() -> SimLoop:
    """Return the running event loop. Raises TypeError if it is not a `SimLoop`."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, SimLoop):
        raise TypeError(f"the running loop must be a SimLoop, is {type(loop).__name__}")
    return loop


def loop_time() -> float:
    """Return the running event loop's time in seconds, which is virtual under a `SimLoop`."""
    return asyncio.get_running_loop().time()


async def sleep(seconds: float) -> None:
    """Wait for ``seconds`` of virtual time; zero or less only yields to other tasks."""
    await (sim_loop().sleep(seconds) if seconds > 0 else asyncio.sleep(0))


class VirtualClock(Clock):
    """A clock whose wall time and monotonic time are both the running loop's virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = sim_loop()

    def now(self) -> float:
        return self._loop.time()

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await (self._loop.sleep(seconds) if seconds > 0 else asyncio.sleep(0))

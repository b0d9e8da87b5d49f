"""An event loop in virtual time, paced by the real clock: what runs in it gives the same result on any machine.

Time moves only while every task of the loop waits and nothing comes by a socket, and then straight to the next timer.
So whatever has no input from outside is a function of its seeds alone, also where its parts speak HTTP to one another;
the pace only makes it pleasant to watch.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeVar

from extender.clock import Clock

EPOCH: Final = 1_798_761_600.0  # 2027-01-01: some date, and always the same
_T = TypeVar("_T")


class Ask:
    """Runs a function inside the loop of another thread and brings its result back."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open: set[Future[Any]] = set()

    async def __call__(self, look: Callable[[], _T]) -> _T:
        """Return ``look()``; it must not wait and should change nothing. RuntimeError where the loop has ended."""
        answer: Future[_T] = Future()

        def there() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(look())
                except Exception as error:
                    answer.set_exception(error)

        self._open.add(answer)
        try:
            self._loop.call_soon_threadsafe(there)
            return await asyncio.wrap_future(answer)
        finally:
            self._open.discard(answer)

    def end(self) -> None:
        """Let nobody wait for the loop, which is closed: its thread says so."""
        for answer in list(self._open):
            if not answer.done() and answer.set_running_or_notify_cancel():
                answer.set_exception(RuntimeError("the loop has ended"))


class LoopClock(Clock):
    """The own time of the loop that runs where it is made; threads may ask, too."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()

    def now(self) -> float:
        """Return seconds since the epoch, from a fixed date on."""
        return EPOCH + self.monotonic()

    def monotonic(self) -> float:
        """Return seconds since the loop's start."""
        return self._loop.time()


class _Selector(selectors.SelectSelector):
    """Where the loop waits for its next timer, time jumps there, as soon as the pace allows."""

    def __init__(self, speed: float) -> None:
        super().__init__()
        self.virtual = 0.0
        self._speed = speed
        self._real = Clock()
        self._began = self._real.monotonic()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, Any]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        due = self.virtual + timeout
        # What has been sent over loopback is there at once, so also a look that may not wait sees it.
        woken = super().select(max(0.0, self._began + due / self._speed - self._real.monotonic()))
        if not woken:
            self.virtual = due
        return woken


class PacedLoop(asyncio.SelectorEventLoop):
    """``speed`` virtual seconds pass in one real second, at most."""

    def __init__(self, speed: float) -> None:
        self._pace = _Selector(speed)
        super().__init__(self._pace)

    def time(self) -> float:
        """Return virtual seconds since the start."""
        return self._pace.virtual


@asynccontextmanager
async def paced(
    speed: float, start: Callable[[Clock], AbstractAsyncContextManager[_T]]
) -> AsyncIterator[tuple[_T, Ask]]:
    """Enter ``start(clock)`` in a thread with a paced loop; yield what it gives, and the way to ask about it.

    Raises what the start, or later a task there, has failed with.
    """
    loop, stop = PacedLoop(speed), asyncio.Event()
    ask = Ask(loop)
    entered: Future[_T] = Future()
    ended: Future[None] = Future()

    async def body() -> None:
        async with start(LoopClock()) as value:
            if entered.set_running_or_notify_cancel():
                entered.set_result(value)
                await stop.wait()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(body())
        except BaseException as error:
            (ended if entered.done() else entered).set_exception(error)
        ask.end()
        if not ended.done():
            ended.set_result(None)

    threading.Thread(target=run, name="paced", daemon=True).start()
    try:
        yield await asyncio.wrap_future(entered), ask
    finally:
        with contextlib.suppress(RuntimeError):  # it has ended
            loop.call_soon_threadsafe(stop.set)
        await asyncio.wrap_future(ended)

"""An event loop in virtual time, paced by the real clock, so that a run has the same result on every machine.

Virtual time advances only while all tasks of the loop wait and no socket has data, and then directly to the next timer.
The result of a run without outside input therefore depends only on its seeds, even if its parts talk HTTP to one
another. The pace slows the run down so that people can watch it.
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

EPOCH: Final = 1_798_761_600.0  # virtual time begins on 2027-01-01, an arbitrary fixed date
_T = TypeVar("_T")


class LoopCaller:
    """Runs functions in the event loop of another thread, and returns their results."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open: set[Future[Any]] = set()

    async def __call__(self, look: Callable[[], _T]) -> _T:
        """Call ``look`` in the other loop and return its result; ``look`` must not wait and should not change anything.

        Raises RuntimeError if the loop has ended.
        """
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
        """Raise RuntimeError in all calls that still wait, because the loop has ended; the loop's thread calls this."""
        for answer in list(self._open):
            if not answer.done() and answer.set_running_or_notify_cancel():
                answer.set_exception(RuntimeError("the loop has ended"))


class PacedClock(Clock):
    """A clock that shows the virtual time of the running event loop; other threads may read it too."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()

    def now(self) -> float:
        """Return virtual seconds since the epoch; each run begins at the same date."""
        return EPOCH + self.monotonic()

    def monotonic(self) -> float:
        """Return virtual seconds since the loop's start."""
        return self._loop.time()


class _Selector(selectors.SelectSelector):
    """A selector that moves virtual time to the next timer if no socket has data before it is due in real time."""

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
        # Data that was sent over loopback arrives at once, so even a select that does not wait sees it.
        woken = super().select(max(0.0, self._began + due / self._speed - self._real.monotonic()))
        if not woken:
            self.virtual = due
        return woken


class PacedLoop(asyncio.SelectorEventLoop):
    """An event loop in which at most ``speed`` virtual seconds pass per real second."""

    def __init__(self, speed: float) -> None:
        self._pace = _Selector(speed)
        super().__init__(self._pace)

    def time(self) -> float:
        """Return virtual seconds since the start."""
        return self._pace.virtual


@asynccontextmanager
async def paced(
    speed: float, start: Callable[[Clock], AbstractAsyncContextManager[_T]]
) -> AsyncIterator[tuple[_T, LoopCaller]]:
    """Enter the context ``start(clock)`` in a new thread with a paced loop; yield the context's value and a
    `LoopCaller` for the loop.

    speed: the most virtual seconds per real second. Raises the error with which entering the context, or later a task
    in the loop, has failed.
    """
    loop, stop = PacedLoop(speed), asyncio.Event()
    ask = LoopCaller(loop)
    entered: Future[_T] = Future()
    ended: Future[None] = Future()

    async def body() -> None:
        async with start(PacedClock()) as value:
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
        with contextlib.suppress(RuntimeError):  # call_soon_threadsafe raises it if the loop has ended
            loop.call_soon_threadsafe(stop.set)
        await asyncio.wrap_future(ended)

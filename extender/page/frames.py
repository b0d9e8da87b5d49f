"""Frames: all that the page shows at one revision, as lists of rows, and the changes since a viewer's last frame.

Frames are made one at a time, on a thread beside the event loop, and shared by all viewers with the same rights. They
take at most a fixed share of the time, so that the verbs stay fast.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from extender.clock import Clock

SHARE: Final = 0.25  # SHARE is the share of the time that making frames may take.
AT_ONCE: Final = 0.2  # After a while without frames, making frames may take AT_ONCE seconds without a break.
# KEPT is the number of past frames that are kept. They take little memory, because equal rows are the same objects.
KEPT: Final = 32
T = TypeVar("T")
Lists = Mapping[str, Sequence[str]]


def let_loop_run() -> None:
    """Release the interpreter lock to the event loop's thread if that thread is waiting.

    Without this call the loop would wait for the interpreter's switch interval each time that it has work to do.
    """
    time.sleep(0)


@dataclass(frozen=True, slots=True)
class Frame:
    """All that the page shows at one revision: its lists of rows by name.

    number: the frame's number in this process. generation: the number of the snapshot. facts: small values beside the
    lists, such as the title and the density of the node map.
    """

    number: int
    instance: str
    generation: int
    lists: Lists
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the frame's name, which a viewer sends to say which frame it has."""
        return f"{self.instance}.{self.number}"

    def changes_since(self, had: Frame | None) -> dict[str, Any]:
        """Return what to send to a viewer that has the frame ``had``; None: it has no frame, so send everything.

        Lists that have not changed are left out.
        """
        known = had.lists if had is not None else {}
        lists = {
            name: row_changes(known.get(name, ()), rows)
            for name, rows in self.lists.items()
            if had is None or known.get(name) != rows
        }
        return {"frame": self.name, "revision": self.generation, "facts": dict(self.facts), "lists": lists}


RowChange = str | tuple[int, int]


def row_changes(old: Sequence[str], rows: Sequence[str]) -> list[RowChange]:
    """Return the list of parts that builds ``rows`` from ``old``: a text is the HTML of a new row, and (first, number)
    stands for that many old rows from the index ``first``.

    With a new row at the top, for example, only that row and one pair are sent.
    """
    places: dict[str, list[int]] = {}
    for at in range(len(old) - 1, -1, -1):
        places.setdefault(old[at], []).append(at)
    found: list[RowChange] = []
    for html in rows:
        left = places.get(html)
        if not left:
            found.append(html)
            continue
        at, last = left.pop(), found[-1] if found else ""
        if not isinstance(last, str) and sum(last) == at:
            found[-1] = last[0], last[1] + 1
        else:
            found.append((at, 1))
    return found


class PageThread:
    """The single thread that makes all pages, one after another, so the data that pages share needs no locks."""

    def __init__(self, clock: Clock) -> None:
        """Prepare the thread, which starts when the first page is made."""
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="page")
        # _left is how many seconds frames may still take, as of the monotonic time _at.
        self._left, self._at = AT_ONCE, clock.monotonic()

    async def __call__(self, make: Callable[[], T]) -> T:
        """Run ``make`` on the thread and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, make)

    def rest(self) -> float:
        """Return the seconds until the next frame may be made; 0: it may be made now. All viewers' frames share one
        limit.
        """
        now = self._clock.monotonic()
        self._left, self._at = min(AT_ONCE, self._left + (now - self._at) * SHARE), now
        return max(0.0, -self._left / SHARE)

    async def frame(self, make: Callable[[], T]) -> T:
        """Run ``make`` on the thread, and count the time that it takes against the share of time that frames may
        take.
        """
        began = self._clock.monotonic()
        try:
            return await self(make)
        finally:
            self._left -= self._clock.monotonic() - began


MakeLists = Callable[[], tuple[int, Lists, Mapping[str, str]]]
"""A function that reads the ledger and returns revision, lists and facts; it is called on a thread."""


class Frames:
    """The newest frame for viewers with the same rights, and some earlier frames.

    stale: tells whether a generation is no longer the ledger's current one.
    """

    def __init__(self, make: MakeLists, stale: Callable[[int], bool], clock: Clock, maker: PageThread) -> None:
        self._make = make
        self._maker = maker
        self._stale = stale
        self._clock = clock
        self._last = Frame(0, secrets.token_hex(4), -1, {})
        self._past: deque[Frame] = deque(maxlen=KEPT)
        self._lock = asyncio.Lock()

    async def newest(self, *, patient: bool = False) -> Frame:
        """Return the frame of the current revision, and make it if needed.

        If frames have used up their share of the time, return the last frame; with ``patient``, wait until a new frame
        may be made.
        """
        async with self._lock:
            if self._last.number and not self._stale(self._last.generation):
                return self._last
            rest = self._maker.rest()
            if self._last.number and rest > 0:
                if not patient:
                    return self._last
                await self._clock.sleep(rest)
            await self._draw()
            return self._last

    async def news(self, since: str) -> dict[str, Any]:
        """Return what has changed since the frame with the name ``since``.

        Return everything if that frame is no longer kept or belongs to another process.
        """
        frame = await self.newest(patient=True)
        return frame.changes_since(next((past for past in self._past if past.name == since), None))

    async def _draw(self) -> None:
        self._last = await self._maker.frame(self._frame)
        self._past.append(self._last)

    def _frame(self) -> Frame:
        return Frame(self._last.number + 1, self._last.instance, *self._make())

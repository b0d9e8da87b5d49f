"""What the page shows, as lists of rows, and what of it has changed since a viewer last asked.

One frame is made at a time, on a thread beside the event loop, for however many viewers there are; and never so often
that it takes more than a share of the time from the verbs.
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

SHARE: Final = 0.25  # of the time that frames may take
AT_ONCE: Final = 0.2  # seconds of frames that may follow one another after a quiet time
KEPT: Final = 32  # frames; they share their rows
T = TypeVar("T")
Lists = Mapping[str, Sequence[str]]


def breathe() -> None:
    """Let the event loop's thread run, if it wants to: without this it waits 5 ms for its turn, each time."""
    time.sleep(0)


@dataclass(frozen=True, slots=True)
class Frame:
    """Every list of the page at one revision. facts: small values beside the lists (title, density of the map)."""

    number: int
    instance: str
    generation: int
    lists: Lists
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What a viewer says it has."""
        return f"{self.instance}.{self.number}"

    def told(self, had: Frame | None) -> dict[str, Any]:
        """What a viewer of the frame ``had`` must change, without the lists that are the same; everything for None."""
        known = had.lists if had is not None else {}
        lists = {
            name: pieces(known.get(name, ()), rows)
            for name, rows in self.lists.items()
            if had is None or known.get(name) != rows
        }
        return {"frame": self.name, "revision": self.generation, "facts": dict(self.facts), "lists": lists}


Piece = str | tuple[int, int]


def pieces(old: Sequence[str], rows: Sequence[str]) -> list[Piece]:
    """``rows`` for somebody who has ``old``: HTML of the new ones, (first, number) for a run of old ones.

    A row that comes in at the top is one row to send, though all others have another place.
    """
    places: dict[str, list[int]] = {}
    for at in range(len(old) - 1, -1, -1):
        places.setdefault(old[at], []).append(at)
    found: list[Piece] = []
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


class Maker:
    """The one thread on which pages are made, one after another: what they share needs no locks."""

    def __init__(self, clock: Clock) -> None:
        """Start it with the first page."""
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="page")
        self._left, self._at = AT_ONCE, clock.monotonic()  # seconds that frames may take now

    async def __call__(self, make: Callable[[], T]) -> T:
        """Make something there."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, make)

    def rest(self) -> float:
        """Seconds until the next frame may be made; whoever looks at them."""
        now = self._clock.monotonic()
        self._left, self._at = min(AT_ONCE, self._left + (now - self._at) * SHARE), now
        return max(0.0, -self._left / SHARE)

    async def frame(self, make: Callable[[], T]) -> T:
        """Make a frame there, and count the time that it takes."""
        began = self._clock.monotonic()
        try:
            return await self(make)
        finally:
            self._left -= self._clock.monotonic() - began


Make = Callable[[], tuple[int, Lists, Mapping[str, str]]]
"""Reads what there is and gives revision, lists and facts; called on a thread."""


class Frames:
    """The newest frame. stale: tells whether what it was made from has changed."""

    def __init__(self, make: Make, stale: Callable[[int], bool], clock: Clock, maker: Maker) -> None:
        """Make nothing yet."""
        self._make = make
        self._maker = maker
        self._stale = stale
        self._clock = clock
        self._last = Frame(0, secrets.token_hex(4), -1, {})
        self._past: deque[Frame] = deque(maxlen=KEPT)
        self._lock = asyncio.Lock()

    async def newest(self, *, patient: bool = False) -> Frame:
        """The current revision; or one of a moment ago, where frames would take too much time and nobody waits."""
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
        """What has changed since the frame of that name; everything, where it is too old or another process's."""
        frame = await self.newest(patient=True)
        return frame.told(next((past for past in self._past if past.name == since), None))

    async def _draw(self) -> None:
        self._last = await self._maker.frame(self._frame)
        self._past.append(self._last)

    def _frame(self) -> Frame:
        return Frame(self._last.number + 1, self._last.instance, *self._make())

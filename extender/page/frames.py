"""What the page shows, as lists of rows, and what of it has changed since a viewer last asked.

One frame is made at a time, on a thread beside the event loop, for however many viewers there are; and never so often
that it takes more than a share of the time from the verbs.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from extender.clock import Clock

SHARE: Final = 0.25  # of the time that frames may take
T = TypeVar("T")
Lists = Mapping[str, Sequence[str]]


def breathe() -> None:
    """Let the event loop's thread run, if it wants to: without this it waits 5 ms for its turn, each time."""
    time.sleep(0)


@dataclass(frozen=True, slots=True)
class Row:
    """One row's HTML, and the number of the frame that changed it."""

    html: str
    changed: int


@dataclass(frozen=True, slots=True)
class Frame:
    """Every list of the page at one revision. facts: small values beside the lists (title, density of the map)."""

    number: int
    instance: str
    generation: int
    lists: Mapping[str, tuple[Row, ...]]
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What a viewer says it has."""
        return f"{self.instance}.{self.number}"

    def html(self, name: str) -> Sequence[str]:
        """The rows of a list."""
        return [row.html for row in self.lists.get(name, ())]

    def since(self, name: str) -> dict[str, Any]:
        """What a viewer that has the frame ``name`` must change; everything, where that was another process's."""
        instance, _, number = name.partition(".")
        had = int(number) if instance == self.instance and number.isdecimal() else -1
        lists = {
            key: {"count": len(rows), "rows": {at: row.html for at, row in enumerate(rows) if row.changed > had}}
            for key, rows in self.lists.items()
        }
        return {"frame": self.name, "revision": self.generation, "facts": dict(self.facts), "lists": lists}


def next_frame(last: Frame, generation: int, lists: Lists, facts: Mapping[str, str]) -> Frame:
    """The frame after ``last``: a row that is the same keeps its number."""
    number = last.number + 1
    found = {name: _rows(last.lists.get(name, ()), rows, number) for name, rows in lists.items()}
    return Frame(number, last.instance, generation, found, facts)


def _rows(old: Sequence[Row], rows: Sequence[str], number: int) -> tuple[Row, ...]:
    kept = len(old)
    return tuple(old[at] if at < kept and old[at].html == html else Row(html, number) for at, html in enumerate(rows))


class Maker:
    """The one thread on which pages are made, one after another: what they share needs no locks."""

    def __init__(self) -> None:
        """Start it with the first page."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="page")

    async def __call__(self, make: Callable[[], T]) -> T:
        """Make something there."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, make)


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
        self._rested = 0.0
        self._lock = asyncio.Lock()

    async def newest(self, *, patient: bool = False) -> Frame:
        """The current revision; or one of a moment ago, where frames would take too much time and nobody waits."""
        async with self._lock:
            if self._last.number and not self._stale(self._last.generation):
                return self._last
            rest = self._rested - self._clock.monotonic()
            if self._last.number and rest > 0:
                if not patient:
                    return self._last
                await self._clock.sleep(rest)
            await self._draw()
            return self._last

    async def _draw(self) -> None:
        began = self._clock.monotonic()
        self._last = await self._maker(self._frame)
        took = self._clock.monotonic() - began
        self._rested = self._clock.monotonic() + took * (1 / SHARE - 1)

    def _frame(self) -> Frame:
        return next_frame(self._last, *self._make())

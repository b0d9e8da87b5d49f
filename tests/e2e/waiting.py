"""Waiting for what must come, and watching that nothing comes: the clock of these tests, and no judge of speed.

A machine that others keep busy only makes a test longer: `PATIENCE` is for what will never come.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 120.0
TEST_LIMIT = 400  # seconds of one test: a guard for what waits in other ways


def until(
    look: Callable[[], object],
    what: str,
    limit: float = PATIENCE,
    seen: Callable[[], object] = str,
    pause: Callable[[], object] = lambda: time.sleep(0.1),
) -> float:
    """Wait until ``look()`` is true; return the seconds it took, to be told and not to be judged.

    ``seen()`` is shown where it does not come. ``pause()`` comes between two looks.
    """
    began = time.monotonic()
    while not (last := look()):
        assert time.monotonic() - began < limit, f"not {what} within {limit} s (last: {last!r}) {seen()}"
        pause()
    return time.monotonic() - began


def eventually(look: Callable[[], object], want: object) -> None:
    """Wait until ``look()`` gives ``want``."""
    until(lambda: look() == want, f"{want!r}", seen=look)


def never(look: Callable[[], object], what: str, seconds: float) -> None:
    """Watch for ``seconds`` that ``look()`` stays false: that something does not happen has no end to wait for."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen = look()
        assert not seen, f"{what}: {seen!r}"
        time.sleep(0.1)


def at_rest(look: Callable[[], T], seconds: float = 2.0, pause: float = 0.1) -> T:
    """Return what ``look()`` gives once it has given the same for ``seconds``."""
    end = time.monotonic() + PATIENCE
    last, since = look(), time.monotonic()
    while time.monotonic() - since < seconds:
        assert time.monotonic() < end, f"it never rests; last: {last!r}"
        time.sleep(pause)
        if (now := look()) != last:
            last, since = now, time.monotonic()
    return last

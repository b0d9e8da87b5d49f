"""Helpers that wait until a condition holds, or check for a while that it does not; no duration is judged.

A busy machine only makes a test longer. The limit `PATIENCE` ends a wait for a condition that will never hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 120.0
TEST_LIMIT = 400  # A test is ended after so many seconds, in case that it waits in another way.


def until(
    look: Callable[[], object],
    what: str,
    limit: float = PATIENCE,
    seen: Callable[[], object] = str,
    pause: Callable[[], object] = lambda: time.sleep(0.1),
) -> float:
    """Wait until ``look()`` is true; return the seconds that this took, for information only.

    If ``look()`` stays false, the test fails and shows ``seen()``. ``pause()`` is called between two looks.
    """
    began = time.monotonic()
    while not (last := look()):
        assert time.monotonic() - began < limit, f"not {what} within {limit} s (last: {last!r}) {seen()}"
        pause()
    return time.monotonic() - began


def eventually(look: Callable[[], object], want: object) -> None:
    """Wait until ``look()`` returns ``want``."""
    until(lambda: look() == want, f"{want!r}", seen=look)


def never(look: Callable[[], object], what: str, seconds: float) -> None:
    """Check for ``seconds`` that ``look()`` stays false, because there is no event to wait for."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen = look()
        assert not seen, f"{what}: {seen!r}"
        time.sleep(0.1)


def at_rest(look: Callable[[], T], seconds: float = 2.0, pause: float = 0.1) -> T:
    """Return the value of ``look()`` once it has not changed for ``seconds``."""
    end = time.monotonic() + PATIENCE
    last, since = look(), time.monotonic()
    while time.monotonic() - since < seconds:
        assert time.monotonic() < end, f"it never rests; last: {last!r}"
        time.sleep(pause)
        if (now := look()) != last:
            last, since = now, time.monotonic()
    return last

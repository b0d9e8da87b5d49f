"""Waiting in real time for a state that must come. The deadline is long: a fault misses it, a busy machine does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

DEADLINE_SECONDS = 90.0
PAUSE_SECONDS = 0.01


async def eventually(true: Callable[[], object], what: str = "") -> None:
    """Return once ``true`` holds; AssertionError where the deadline passes. In virtual time it is one of that."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not true():  # noqa: ASYNC110 - any state, and not only one with an event of its own
                await asyncio.sleep(PAUSE_SECONDS)
    except TimeoutError:
        raise AssertionError(f"not so after {DEADLINE_SECONDS:g} s: {what or true}") from None


def wait_until(true: Callable[[], object], what: str = "") -> None:
    """The same for tests without an event loop."""
    ends = time.monotonic() + DEADLINE_SECONDS
    while not true():
        if time.monotonic() > ends:
            raise AssertionError(f"not so after {DEADLINE_SECONDS:g} s: {what or true}")
        time.sleep(PAUSE_SECONDS)

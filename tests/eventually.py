"""Wait in real time for a state that must come, with a deadline so long that only a fault can miss it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

DEADLINE_SECONDS = 90.0
PAUSE_SECONDS = 0.01


async def eventually(true: Callable[[], object], what: str = "") -> None:
    """Wait until ``true()`` returns a true value; raise AssertionError after the deadline.

    The deadline is in the time of the event loop, which may be virtual; ``what`` names the awaited state in the
    message.
    """
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not true():  # noqa: ASYNC110 - any state can be awaited, not only one with an event
                await asyncio.sleep(PAUSE_SECONDS)
    except TimeoutError:
        raise AssertionError(f"not so after {DEADLINE_SECONDS:g} s: {what or true}") from None


def wait_until(true: Callable[[], object], what: str = "") -> None:
    """Wait, outside an event loop, until ``true()`` returns a true value; raise AssertionError after the deadline."""
    ends = time.monotonic() + DEADLINE_SECONDS
    while not true():
        if time.monotonic() > ends:
            raise AssertionError(f"not so after {DEADLINE_SECONDS:g} s: {what or true}")
        time.sleep(PAUSE_SECONDS)

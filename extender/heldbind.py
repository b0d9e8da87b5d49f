"""A bind call that waits for its answer, and a binding whose outcome is not known."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeldBind:
    """A bind call that waits for its answer, and the node that it names."""

    node: str
    answer: asyncio.Future[str]


@dataclass(slots=True)
class LostBinding:
    """Bindings of one pod for which the API server's answer was lost.

    ``at``: when the last answer was lost (clock.monotonic()). ``why``: the text of its error. ``asking``: the task that
    finds out the outcome.
    """

    at: float
    why: str
    asking: asyncio.Task[None]

"""The slots in which utility curves count a delay: those of the clock, and how long they are."""

from __future__ import annotations

import math

from lab.sim.traces.base import Trace
from policy.cluster.training import SLOT_SECONDS
from policy.systems.base import Policy

LATE = 1e-6  # slots: work that flows at a rate may end a rounding after its slot


def slot_of(told: float | None, trace: Trace, policy: Policy) -> float:
    """The slot of a run: as its settings say, else the trace's own, else the one that the policy plans in.

    Of a rebalanced policy the base counts.
    """
    planned: float | None = getattr(policy.base, "slot_seconds", None)
    return next((slot for slot in (told, trace.slot_seconds, planned) if slot is not None), SLOT_SECONDS)


def delay(arrived: float, ended: float, slot_seconds: float) -> int:
    """What OASiS's f is asked: the slot of the completion less that of the arrival; 0 within one slot."""
    return max(0, completion(ended, slot_seconds) - arrival(arrived, slot_seconds))


def arrival(at: float, slot_seconds: float) -> int:
    """The slot in which somebody comes who comes then; a slot begins with its first moment."""
    return math.floor(at / slot_seconds + LATE)


def completion(at: float, slot_seconds: float) -> int:
    """The slot of work that is done then; what is done as a slot ends is done in that slot."""
    return math.ceil(at / slot_seconds - LATE) - 1

"""The slots in which utility curves count a delay: slots of the clock, and their length."""

from __future__ import annotations

import math

from lab.sim.traces.trace import Trace
from policy.cluster.training import SLOT_SECONDS
from policy.systems.base import Policy

LATE = 1e-6  # slots; with fluid work, rounding may end a job just after its slot


def slot_of(given: float | None, trace: Trace, policy: Policy) -> float:
    """Return the slot length of a run: as its settings say, else the trace's, else the one that the policy plans in.

    For a rebalanced policy, the base policy counts.
    """
    planned: float | None = getattr(policy.base, "slot_seconds", None)
    return next((slot for slot in (given, trace.slot_seconds, planned) if slot is not None), SLOT_SECONDS)


def delay(arrived: float, ended: float, slot_seconds: float) -> int:
    """Return the delay that OASiS's f takes: completion slot less arrival slot, 0 within one slot."""
    return max(0, completion(ended, slot_seconds) - arrival(arrived, slot_seconds))


def arrival(at: float, slot_seconds: float) -> int:
    """Return the slot of an arrival at that time; a slot includes its first moment."""
    return math.floor(at / slot_seconds + LATE)


def completion(at: float, slot_seconds: float) -> int:
    """Return the slot of a completion at that time; a slot includes the moment at which it ends."""
    return math.ceil(at / slot_seconds - LATE) - 1

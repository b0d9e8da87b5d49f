"""The time slots in which utility curves count a delay: their length, and which of them a time is in."""

from __future__ import annotations

import math

from lab.sim.traces.trace import Trace
from policy.cluster.training import SLOT_SECONDS
from policy.systems.base import Policy

# A job that ends this share of a time slot after its time slot still counts as ended in it, because times are rounded.
LATE = 1e-6


def slot_of(given: float | None, trace: Trace, policy: Policy) -> float:
    """Return the length of a run's time slots in seconds: ``given``, or else the trace's, or else the policy's.

    For a rebalanced policy, the base policy counts.
    """
    planned: float | None = getattr(policy.base, "slot_seconds", None)
    return next((slot for slot in (given, trace.slot_seconds, planned) if slot is not None), SLOT_SECONDS)


def delay(arrived: float, ended: float, slot_seconds: float) -> int:
    """Return the argument of OASiS's utility function f: the time slot of completion less that of arrival."""
    return max(0, completion(ended, slot_seconds) - arrival(arrived, slot_seconds))


def arrival(at: float, slot_seconds: float) -> int:
    """Return the time slot of an arrival at that time; a time slot includes its first moment."""
    return math.floor(at / slot_seconds + LATE)


def completion(at: float, slot_seconds: float) -> int:
    """Return the time slot of a completion at that time; here a time slot includes the moment at which it ends."""
    return math.ceil(at / slot_seconds - LATE) - 1

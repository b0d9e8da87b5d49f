"""One step of a simulated run, as it is reported to an observer."""

from __future__ import annotations

from dataclasses import dataclass

from policy.cluster.actions import Effect
from policy.cluster.events import Event
from policy.cluster.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """A step's time (seconds since the epoch), the state after it, its events, and its effects."""

    at: float
    snapshot: Snapshot
    events: tuple[Event, ...] = ()
    effects: tuple[Effect, ...] = ()

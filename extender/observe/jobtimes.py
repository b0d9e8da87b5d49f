"""Measures from step to step how long jobs wait, how long they take to be bound and to complete, and how migrations
end.

It looks at a step's own events and effects, and at the few gangs that are planned, binding or migrating, never at every
job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from policy.cluster.actions import Admit, Effect, Migrate
from policy.cluster.events import Event, JobGone, JobSeen
from policy.cluster.gang import State
from policy.cluster.model import Slot
from policy.cluster.snapshot import Snapshot

ON_ITS_WAY = (State.PLANNED, State.BINDING)


class JobTimesObserver(Protocol):
    """Receives what `JobTimes` has measured; all times are in seconds."""

    def waited(self, seconds: float) -> None:
        """Record how long a job that is now admitted for the first time has waited since it was created."""

    def bound(self, seconds: float) -> None:
        """Record how long a gang that now runs has taken since it got its plan."""

    def completed(self, seconds: float) -> None:
        """Record how long a job that has now ended has taken since it was created."""

    def moved(self, arrived: bool) -> None:
        """Record that a migration has ended. ``arrived``: whether the gang runs on the new nodes."""


class JobTimes:
    """Remembers when jobs and gangs began to wait or move, and reports the times to the observer when they end."""

    def __init__(self, observer: JobTimesObserver) -> None:
        """Start without any job, so that a job that had ended before our start is not counted."""
        self._observer = observer
        self._open: dict[str, bool] = {}  # uid of an unfinished job -> whether it was admitted before
        self._planned: dict[str, float] = {}  # job uid -> when it got its plan
        self._moving: dict[str, Mapping[Slot, str]] = {}

    def __len__(self) -> int:
        return len(self._open) + len(self._planned) + len(self._moving)

    def follow(self, at: float, events: Iterable[Event], effects: Iterable[Effect], after: Snapshot) -> None:
        """Take in one step. ``at``: its time in seconds since the epoch; ``after``: the snapshot after it."""
        for event in events:
            self._see(at, event)
        for effect in effects:
            self._decide(at, effect, after)
        self._look(at, after)

    def _see(self, at: float, event: Event) -> None:
        match event:
            case JobSeen(job) if job.finished:
                if self._open.pop(job.uid, None) is not None:
                    self._observer.completed(max(0.0, at - job.arrival))
            case JobSeen(job):
                self._open.setdefault(job.uid, False)
            case JobGone(uid):
                self._open.pop(uid, None)
            case _:
                pass

    def _decide(self, at: float, effect: Effect, after: Snapshot) -> None:
        match effect:
            case Admit(uid):
                self._planned[uid] = at
                job = after.jobs.get(uid)
                if job is not None and self._open.get(uid) is False:
                    self._open[uid] = True
                    self._observer.waited(max(0.0, at - job.arrival))
            case Migrate(uid, nodes):
                self._moving[uid] = nodes
            case _:
                pass

    def _look(self, at: float, after: Snapshot) -> None:
        for uid, since in tuple(self._planned.items()):
            state = after.gang(uid).state
            if state is State.RUNNING:
                self._observer.bound(at - since)
            if state not in ON_ITS_WAY:
                del self._planned[uid]
        for uid, nodes in tuple(self._moving.items()):
            gang = after.gang(uid)
            if gang.state is not State.MIGRATING:
                del self._moving[uid]
                self._observer.moved(gang.state is State.RUNNING and nodes.items() <= gang.nodes.items())

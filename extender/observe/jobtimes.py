"""Measures from step to step how long jobs wait, how long they take to be bound and to complete, and how migrations
end.

To stay fast it looks only at a step's own events and effects, and at the few gangs that are planned, binding or
migrating.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from policy.cluster.actions import Admit, Effect, Migrate
from policy.cluster.events import Event, JobGone, JobSeen
from policy.cluster.gang import State
from policy.cluster.job import Slot
from policy.cluster.snapshot import Snapshot

GANG_SECONDS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0)
WAIT_SECONDS: Final = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
JOB_SECONDS: Final = (60, 300, 900, 1800, 3600, 7200, 14400, 28800, 86400, 259200, 604800)
ON_ITS_WAY = (State.PLANNED, State.BINDING)


class JobTimes:
    """The metrics of how long jobs take. It remembers each unfinished job, each gang that has a plan and each migration
    until it has been measured.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Start without any job, so that a job that had ended before our start is not counted."""
        text = "Time from a gang's plan to its minimum being bound."
        self._to_bound = Histogram(
            "kohort_gang_admission_to_bound_seconds", text, buckets=GANG_SECONDS, registry=registry
        )
        text = "Time from a job's creation to its first admission."
        self._waits = Histogram("kohort_job_wait_seconds", text, buckets=WAIT_SECONDS, registry=registry)
        text = "Time from a job's creation to its end, successful or not."
        self._completions = Histogram("kohort_job_completion_seconds", text, buckets=JOB_SECONDS, registry=registry)
        text = "Migrations that ended, by outcome."
        self._migrations = Counter("kohort_migrations", text, ["outcome"], registry=registry)
        # _open maps the UID of each unfinished job to whether its gang has been admitted at any time
        self._open: dict[str, bool] = {}
        self._planned: dict[str, float] = {}  # _planned maps a job's UID to the time of its plan
        self._moving: dict[str, Mapping[Slot, str]] = {}

    def __len__(self) -> int:
        return len(self._open) + len(self._planned) + len(self._moving)

    def follow(self, at: float, events: Iterable[Event], effects: Iterable[Effect], after: Snapshot) -> None:
        """Update the metrics with one step. ``at``: the step's time in seconds since the epoch; ``after``: the snapshot
        after it.
        """
        for event in events:
            self._see(at, event)
        for effect in effects:
            self._decide(at, effect, after)
        self._look(at, after)

    def _see(self, at: float, event: Event) -> None:
        match event:
            case JobSeen(job) if job.finished:
                if self._open.pop(job.uid, None) is not None:
                    self._completions.observe(max(0.0, at - job.arrival))
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
                    self._waits.observe(max(0.0, at - job.arrival))
            case Migrate(uid, nodes):
                self._moving[uid] = nodes
            case _:
                pass

    def _look(self, at: float, after: Snapshot) -> None:
        for uid, since in tuple(self._planned.items()):
            state = after.gang(uid).state
            if state is State.RUNNING:
                self._to_bound.observe(at - since)
            if state not in ON_ITS_WAY:
                del self._planned[uid]
        for uid, nodes in tuple(self._moving.items()):
            gang = after.gang(uid)
            if gang.state is not State.MIGRATING:
                del self._moving[uid]
                arrived = gang.state is State.RUNNING and nodes.items() <= gang.nodes.items()
                self._migrations.labels("arrived" if arrived else "given-up").inc()

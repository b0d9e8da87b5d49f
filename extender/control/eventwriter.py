"""Writes Kubernetes Events: for decisions as they are made, and from time to time for jobs that wait.

Nothing is written unless this replica leads at that moment. A read from the extender that failed is repeated; an Event
that could not be written is lost.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import quote

from extender.clock import Clock
from extender.config.sections import ControllerSettings
from extender.control.extenderrest import ExtenderError, Fetch, read_view
from extender.control.jobevents import DecisionEvents, WaitingEvents
from extender.control.ratelimit import EventQuota, RateLimit
from extender.kube.api import Api
from extender.leading.lease import Leads
from extender.observe.controllermetrics import ControllerMetrics
from extender.present.views.decisions import DecisionsView
from extender.present.views.explain import ExplainView
from extender.present.views.jobs import QueuedJob, QueueView
from policy.answers.explanation import ProvedChange

LOOK_SECONDS: Final = 10.0  # The queue is read every LOOK_SECONDS.
# If more than SHORT_QUEUE jobs wait, no Event has suggestions, because the extender would take too long to compute
# them.
SHORT_QUEUE: Final = 20
# Decisions of so many seconds before the first read get an Event too, because the controller may not have run yet.
MISSED_SECONDS: Final = 60.0
# At most MISSED decisions from before the first read get an Event, because writing Events delays other writes.
MISSED: Final = 100
# The first SUGGESTED jobs of the queue get suggestions of what would admit them. Each takes dozens of trial decisions.
SUGGESTED: Final = 5

Event = dict[str, Any]


class EventWriter:
    """Writes Events on job objects, within the controller's rate limit for all its writes."""

    def __init__(
        self,
        api: Api,
        fetch: Fetch,
        settings: ControllerSettings,
        clock: Clock,
        lease: Leads,
        pace: RateLimit,
        metrics: ControllerMetrics,
    ) -> None:
        """Prepare a writer that does nothing until `run` is called. ``pace``: the controller's rate limit."""
        self._api = api
        self._fetch = fetch
        self._settings = settings
        self._clock = clock
        self._lease = lease
        self._rate_limit = pace
        self._metrics = metrics
        self._host = socket.gethostname()
        self._quota = EventQuota()

    async def run(self) -> None:
        """Write Events about decisions and about waiting jobs, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._decisions())
            tasks.create_task(self._queue())

    async def _decisions(self) -> None:
        """Write Events for decisions until cancelled, beginning with those of the last minute before the first read.

        An Event's name follows from the decision, so the API server refuses an Event that is written a second time.
        """
        instance, since = await self._first_look()
        composer = DecisionEvents(instance, self._host, self._quota)
        while True:
            await self._clock.sleep(self._settings.interval_seconds)
            if not self._lease.leading():
                continue
            try:
                found = read_view(DecisionsView, await self._ask("/v1/decisions", {"since": str(since)}))
            except ExtenderError:
                continue
            # The extender has restarted and numbers its decisions from 1 again, so all of them must be read.
            if instance != found.instance:
                instance, since = found.instance, 0
                composer = DecisionEvents(instance, self._host, self._quota)
                continue
            since = found.latest
            await self._write(composer.events_of(found.decisions))

    async def _first_look(self) -> tuple[str, int]:
        """Return the extender's instance, and the sequence number after which decisions get an Event.

        Decisions up to that number are older than `MISSED_SECONDS` by the extender's clock. They are read even while
        another replica leads, so that this replica misses no decision when it becomes the leader.
        """
        while True:
            try:
                found = read_view(DecisionsView, await self._ask("/v1/decisions", {"limit": str(MISSED)}))
            except ExtenderError:
                await self._clock.sleep(self._settings.interval_seconds)
            else:
                missed = [one.sequence for one in found.decisions if found.at - one.at <= MISSED_SECONDS]
                return found.instance, min(missed) - 1 if missed else found.latest

    async def _queue(self) -> None:
        """Write Events that say why each job waits, until cancelled."""
        composer = WaitingEvents(self._host, self._quota)
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            if not self._lease.leading():
                continue
            try:
                found = read_view(QueueView, await self._ask("/v1/queue", {}))
            except ExtenderError:
                continue
            now = self._clock.now()
            await self._write(composer.starving(found, now))
            for job in composer.news(found, now):
                gets_suggestions = job.position <= SUGGESTED and len(found.jobs) <= SHORT_QUEUE
                changes = await self._changes(job) if gets_suggestions else ()
                await self._write([composer.queued(job, changes, now)])

    async def _changes(self, job: QueuedJob) -> Sequence[ProvedChange]:
        """Return the changes that would admit the job now, by the extender's answer; empty where there is no answer."""
        try:
            path = "/".join(["/v1/explain", quote(job.namespace, safe=""), quote(job.name, safe="")])
            return read_view(ExplainView, await self._ask(path, {"unblock": "true"})).unblock or ()
        except ExtenderError:
            return ()

    async def _ask(self, path: str, query: dict[str, str]) -> bytes:
        return await self._fetch(path, query, self._settings.request_timeout_seconds)

    async def _write(self, events: Iterable[Event]) -> None:
        for event in events:
            await self._rate_limit.turn()
            if self._lease.leading():
                outcome = await self._api.create_event(event["metadata"]["namespace"], event)
                self._metrics.wrote("Event", type(outcome).__name__.lower())

"""Writes Kubernetes Events: for decisions as they are made, and from time to time for jobs that wait.

This is best effort. Nothing is written unless this replica leads at that moment. A read that failed is repeated; an
Event that could not be written is lost.
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

LOOK_SECONDS: Final = 10.0  # seconds between two reads of the queue
# in a queue with more jobs no Event has suggestions, because the extender would take too long to compute them
SHORT_QUEUE: Final = 20
# decisions of the last minute before the first read get an Event too, because the controller may not have run yet
MISSED_SECONDS: Final = 60.0
MISSED: Final = 100  # at most so many of these decisions get an Event, because their Events delay other writes
# the first jobs of the queue get suggestions of what would admit them; each takes dozens of trial decisions
SUGGESTED: Final = 5

Event = dict[str, Any]


class EventWriter:
    """Writes Events on job objects; shares the controller's rate limit, so that Events never delay other writes for
    long.
    """

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

        If the same Event is written twice, the API server refuses the second one, because its name exists.
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
            # The extender has restarted: it numbers its decisions from 0 again, and all of them are to be read.
            if instance != found.instance:
                instance, since = found.instance, 0
                composer = DecisionEvents(instance, self._host, self._quota)
                continue
            since = found.latest
            await self._write(composer.events_of(found.decisions))

    async def _first_look(self) -> tuple[str, int]:
        """Return the extender's instance, and the sequence number of its last decision that is too old for an Event.

        The age is measured by the extender's clock. The decisions are read even while another replica leads, because
        this replica decides as soon as it becomes the leader.
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
        """Return the changes that would admit the job now; none where the extender does not answer in time."""
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

"""Writes Events: what was decided, as it is decided, and why a job waits, now and then.

Best effort. Nothing is written unless this replica leads at that moment; what could not be read is asked for again,
and what could not be written is lost.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import quote

from extender.clock import Clock
from extender.config.sections import Controller as Settings
from extender.control.pace import Pace
from extender.control.quota import Quota
from extender.control.source import Fetch, SourceError, read
from extender.control.story import DecisionStory, WaitingStory
from extender.kube.api import Api
from extender.leading.lease import Leads
from extender.observe.controllermetrics import ControllerMetrics
from extender.present.views.decisions import DecisionsView
from extender.present.views.explain import ChangeView, ExplainView
from extender.present.views.jobs import QueuedJob, QueueView

LOOK_SECONDS: Final = 10.0  # between two looks at the queue
SHORT_QUEUE: Final = 20  # with a longer one nobody is: the answers would take the extender too long
MISSED_SECONDS: Final = 60.0  # before our first look: what was decided while a controller was down or not up yet
MISSED: Final = 100  # decisions of those at most: their Events go before real writes
HELPED: Final = 5  # of the queue are told what would admit them, which takes dozens of decisions

Event = dict[str, Any]


class Announcer:
    """Tells people on their job objects; shares the controller's pace, so that it never outruns the real writes."""

    def __init__(
        self,
        api: Api,
        fetch: Fetch,
        settings: Settings,
        clock: Clock,
        lease: Leads,
        pace: Pace,
        metrics: ControllerMetrics,
    ) -> None:
        """Prepare only; `run` starts."""
        self._api = api
        self._fetch = fetch
        self._settings = settings
        self._clock = clock
        self._lease = lease
        self._pace = pace
        self._metrics = metrics
        self._host = socket.gethostname()
        self._quota = Quota()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._decisions())
            tasks.create_task(self._queue())

    async def _decisions(self) -> None:
        """What was decided since shortly before our first look; told twice, an Event is refused for its name."""
        instance, since = await self._first_look()
        story = DecisionStory(instance, self._host, self._quota)
        while True:
            await self._clock.sleep(self._settings.interval_seconds)
            if not self._lease.leading():
                continue
            try:
                found = read(DecisionsView, await self._ask("/v1/decisions", {"since": str(since)}))
            except SourceError:
                continue
            if instance != found.instance:  # its numbers begin anew, and all of them came after our start
                instance, since = found.instance, 0
                story = DecisionStory(instance, self._host, self._quota)
                continue
            since = found.latest
            await self._write(story.tell(found.decisions))

    async def _first_look(self) -> tuple[str, int]:
        """Which extender there is, and its last decision that is too old to be told, by its own clock.

        Also while we follow: a new leader decides at once.
        """
        while True:
            try:
                found = read(DecisionsView, await self._ask("/v1/decisions", {"limit": str(MISSED)}))
            except SourceError:
                await self._clock.sleep(self._settings.interval_seconds)
            else:
                missed = [one.sequence for one in found.decisions if found.at - one.at <= MISSED_SECONDS]
                return found.instance, min(missed) - 1 if missed else found.latest

    async def _queue(self) -> None:
        """Why each job waits."""
        story = WaitingStory(self._host, self._quota)
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            if not self._lease.leading():
                continue
            try:
                found = read(QueueView, await self._ask("/v1/queue", {}))
            except SourceError:
                continue
            now = self._clock.now()
            await self._write(story.starving(found, now))
            for job in story.news(found, now):
                helped = job.position <= HELPED and len(found.jobs) <= SHORT_QUEUE
                changes = await self._changes(job) if helped else ()
                await self._write([story.queued(job, changes, now)])

    async def _changes(self, job: QueuedJob) -> Sequence[ChangeView]:
        """What would admit the job now; nothing where that is not told in time."""
        try:
            path = "/".join(["/v1/explain", quote(job.namespace, safe=""), quote(job.name, safe="")])
            return read(ExplainView, await self._ask(path, {"unblock": "true"})).unblock or ()
        except SourceError:
            return ()

    async def _ask(self, path: str, query: dict[str, str]) -> bytes:
        return await self._fetch(path, query, self._settings.request_timeout_seconds)

    async def _write(self, events: Iterable[Event]) -> None:
        for event in events:
            await self._pace.turn()
            if self._lease.leading():
                outcome = await self._api.create_event(event["metadata"]["namespace"], event)
                self._metrics.wrote("Event", type(outcome).__name__.lower())

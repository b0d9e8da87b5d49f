"""GET /v1/stream: server-sent events, one for each revision of the ledger, with the decisions that led to it.

A client that reconnects sends the id of the last event that it got as ``Last-Event-ID``, as browsers do, and the stream
continues after that event. Revisions in quick succession make one event. Each stream holds a connection, so the number
of streams is limited.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator
from typing import Final

from fastapi.responses import StreamingResponse

from extender.access.redaction import Redaction
from extender.access.visibility import Caller
from extender.present.decisionviews import decisions_view
from extender.present.views.decisions import RevisionView
from extender.state.ledger import Ledger

# at most this many streams are open, half of the connections that server.reserved_connections keeps for filter
MOST_STREAMS: Final = 32
# An event has at most this many decisions; a client that has missed more must ask GET /v1/decisions.
MOST_DECISIONS: Final = 200
GAP_SECONDS: Final = 0.05
# a heartbeat is sent after this time without an event, because proxies close connections that stay silent
HEARTBEAT_SECONDS: Final = 15.0
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


EXAMPLE: Final = """id: 5f2c9a1be0d34c77.41
event: revision
data: {"instance":"5f2c9a1be0d34c77","at":1789214465.0,"latest":41,"decisions":[],"generation":1204}

"""


class EventStream(StreamingResponse):
    """A response that consists of server-sent events."""

    media_type = "text/event-stream"


class Streams:
    """Opens streams of the ledger's revisions, counts them, and ends them."""

    def __init__(self, ledger: Ledger, instance: str) -> None:
        """Begin without open streams. ``instance`` names this process in the ids of events."""
        self._ledger = ledger
        self._instance = instance
        self._closed = asyncio.Event()
        self.open = 0

    @property
    def full(self) -> bool:
        """Tell whether as many streams are open as are allowed."""
        return self.open >= MOST_STREAMS

    def close(self) -> None:
        """End every stream, because a listener that stops waits for its open connections."""
        self._closed.set()

    def answer(self, last_event_id: str, caller: Caller) -> EventStream:
        """Return a stream that continues after the event with this id, or begins now if the id is not of this process.

        The stream ends when the caller's rights must be checked again; the client then reconnects with its last id.
        """
        events = self._events(self._resumed(last_event_id), caller)
        return EventStream(events, headers=HEADERS)

    def _resumed(self, last_event_id: str) -> int | None:
        instance, _, sequence = last_event_id.partition(".")
        return int(sequence) if instance == self._instance and sequence.isdecimal() else None

    async def _events(self, resumed: int | None, caller: Caller) -> AsyncIterator[str]:
        self.open += 1
        try:
            ledger, redaction = self._ledger, Redaction(caller.visibility)
            ends = math.inf if caller.seconds is None else ledger.clock.monotonic() + caller.seconds
            sequence = ledger.journal.latest if resumed is None else min(resumed, ledger.journal.latest)
            generation = -1
            while not self._closed.is_set() and ledger.clock.monotonic() < ends:
                if ledger.snapshot.generation > generation:
                    generation = ledger.snapshot.generation
                    before, (sequence, event) = sequence, self._event(sequence, generation, redaction)
                    yield event
                    await self._gather(sequence, decided=sequence > before)
                elif not await self._wait_for_news(generation):
                    yield ": still here\n\n"
        finally:
            self.open -= 1

    async def _gather(self, sequence: int, *, decided: bool) -> None:
        """Wait for at most GAP_SECONDS, so that revisions in quick succession make one event.

        sequence: the number of the last decision that was sent. decided: whether the last event had decisions. After an
        event without decisions, the wait ends at the next decision.
        """
        if decided:
            await asyncio.sleep(GAP_SECONDS)
            return
        ledger = self._ledger
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GAP_SECONDS):
                while ledger.journal.latest == sequence:
                    await ledger.changed(ledger.snapshot.generation, GAP_SECONDS * ledger.clock.speed)

    def _event(self, since: int, generation: int, redaction: Redaction) -> tuple[int, str]:
        entries = tuple(self._ledger.journal.since(since))[-MOST_DECISIONS:]
        told = redaction.decisions(entries, decisions_view(entries, since, MOST_DECISIONS))
        latest = entries[-1].sequence if entries else since
        view = RevisionView(
            instance=self._instance, at=self._ledger.now(), generation=generation, latest=latest, decisions=told
        )
        return latest, f"id: {self._instance}.{latest}\nevent: revision\ndata: {view.model_dump_json()}\n\n"

    async def _wait_for_news(self, generation: int) -> bool:
        """Wait for a new revision or for the end of all streams. Return False if a heartbeat is due before either."""
        waits = [asyncio.ensure_future(self._ledger.changed(generation, HEARTBEAT_SECONDS * self._ledger.clock.speed)),
                 asyncio.ensure_future(self._closed.wait())]  # fmt: skip
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
        return self._closed.is_set() or self._ledger.snapshot.generation > generation

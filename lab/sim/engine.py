"""The event heap of a discrete-event simulation. It knows nothing of jobs: an event is any value.

An entry is ``(time, rank, counter, event)`` (as in SimPy): two events of one time run by rank, then in the order in
which they were scheduled, so a run never depends on hashes or addresses.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

E = TypeVar("E")


class Engine(Generic[E]):
    """Events in the order of their time. Time itself is the caller's."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int]] = []
        self._events: dict[int, E] = {}
        self._count = 0

    def schedule(self, at: float, event: E, rank: int = 0) -> int:
        """Let the event happen at that time; the answer is the ticket with which it can be cancelled."""
        self._count += 1
        self._events[self._count] = event
        heapq.heappush(self._heap, (at, rank, self._count))
        return self._count

    def cancel(self, ticket: int) -> None:
        """Take the event back; nothing happens if it is past."""
        self._events.pop(ticket, None)

    def next_time(self) -> float | None:
        """When the next event happens, or None where nothing is to come."""
        while self._heap and self._heap[0][2] not in self._events:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, until: float) -> Iterator[tuple[float, E]]:
        """Events up to and including that time, each with its time; also those scheduled while one is handled."""
        while (at := self.next_time()) is not None and at <= until:
            _, _, ticket = heapq.heappop(self._heap)
            yield at, self._events.pop(ticket)

"""The event queue of a discrete-event simulation; an event may be any value.

The queue is a heap whose entries are ``(time, rank, counter)``, as in SimPy: events of the same time run by rank, then
in the order in which they were scheduled. A run therefore never depends on hashes or addresses.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

E = TypeVar("E")
# A simulated run starts at this time (seconds since the epoch). It is arbitrary: no result may depend on it.
START = 1_000_000.0


class Engine(Generic[E]):
    """The queue of scheduled events, ordered by time. The caller keeps the current time."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int]] = []
        self._events: dict[int, E] = {}
        self._count = 0

    def schedule(self, at: float, event: E, rank: int = 0) -> int:
        """Schedule the event for that time; return a ticket with which it can be cancelled."""
        self._count += 1
        self._events[self._count] = event
        heapq.heappush(self._heap, (at, rank, self._count))
        return self._count

    def cancel(self, ticket: int) -> None:
        """Cancel the event with that ticket; nothing happens if it has run already."""
        self._events.pop(ticket, None)

    def next_time(self) -> float | None:
        """Return the time of the next event, or None if there is none."""
        while self._heap and self._heap[0][2] not in self._events:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, until: float) -> Iterator[tuple[float, E]]:
        """Yield (time, event) for all events up to and including that time.

        Events that are scheduled during the iteration are included.
        """
        while (at := self.next_time()) is not None and at <= until:
            _, _, ticket = heapq.heappop(self._heap)
            yield at, self._events.pop(ticket)

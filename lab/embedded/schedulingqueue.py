"""Imitates the scheduling queue of kube-scheduler 1.37 with its parts: active, back-off, error back-off, unschedulable,
gated, in flight.

A refused pod sleeps until an event that may satisfy the plugin that refused it. When no pod is active, pods are popped
from back-off early. A pod leaves error back-off only when its time is over. Events that occur while a pod is being
scheduled are considered if that attempt fails. All this was observed on the real queue.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from extender.clock import Clock
from lab.embedded.cache import PodInfo
from lab.embedded.plugins import ClusterChange, ClusterEvent, wakes

FLUSH_SECONDS: Final = 1.0  # the queue looks for pods whose back-off is over at this interval in seconds
# A refused pod is woken after this many seconds in any case (podMaxInUnschedulablePodsDuration).
LONGEST_SLEEP: Final = 300.0
UNSCHEDULABLE_CHECK: Final = 30.0


class QueuePart(Enum):
    """The parts of the queue; an entry is in one of them."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error-backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in-flight"


@dataclass(slots=True)
class QueuedPod:
    """An entry of the queue: a pending pod and the history of its attempts.

    ``since`` is the time at which the pod last entered the queue. ``refusals`` counts the attempts in which plugins
    refused the pod, ``errors`` those since the last refusal that failed with an error. ``rejectors`` are the plugins
    that refused the pod last. ``seen`` has the events that occurred while the pod was in flight.
    """

    pod: PodInfo
    since: float
    place: QueuePart = QueuePart.ACTIVE
    refusals: int = 0
    errors: int = 0
    rejectors: frozenset[str] = frozenset()
    seen: list[ClusterChange] = field(default_factory=list)


class SchedulingQueue:
    """The queue of all pods that wait for a node or are being scheduled."""

    def __init__(self, clock: Clock, initial_backoff: float, max_backoff: float) -> None:
        self._clock = clock
        self._initial = initial_backoff
        self._max = max_backoff
        self._entries: dict[str, QueuedPod] = {}
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._entries)

    def place(self, uid: str) -> QueuePart | None:
        """Return the part of the queue in which the pod is, or None if it is not queued."""
        entry = self._entries.get(uid)
        return entry.place if entry else None

    async def pop(self) -> QueuedPod:
        """Wait for a pod to schedule and return its entry: highest priority first, then longest in the queue."""
        while True:
            # If no pod is active, take one from back-off, as kube-scheduler's SchedulerPopFromBackoffQ does.
            for place in (QueuePart.ACTIVE, QueuePart.BACKOFF):
                if entry := self._first(place):
                    entry.place = QueuePart.IN_FLIGHT
                    entry.seen = []
                    return entry
            self._filled.clear()
            await self._filled.wait()

    def add(self, pod: PodInfo) -> None:
        """Add a new pod to the queue."""
        self._move(QueuedPod(pod, self._clock.monotonic()), QueuePart.GATED if pod.gated else QueuePart.ACTIVE)

    def update(self, pod: PodInfo) -> None:
        """Record a change of the pod, which may wake it; a pod that is not queued yet is added."""
        entry = self._entries.get(pod.uid)
        if entry is None:
            self.add(pod)
            return
        entry.pod = pod
        change = ClusterChange(ClusterEvent.TARGET_POD)
        if entry.place is QueuePart.GATED and not pod.gated:
            self._move(entry, QueuePart.ACTIVE)  # a gated pod has had no attempt, so it has no back-off
        elif entry.place is QueuePart.UNSCHEDULABLE and wakes(pod, entry.rejectors, change):
            self._requeue(entry)
        elif entry.place is QueuePart.IN_FLIGHT:
            entry.seen.append(change)

    def delete(self, uid: str) -> PodInfo | None:
        """Remove the pod and return it, or None if it was not queued."""
        entry = self._entries.pop(uid, None)
        return entry.pod if entry else None

    def done(self, uid: str) -> None:
        """Remove a pod that is in flight and needs no further attempt."""
        entry = self._entries.get(uid)
        if entry is not None and entry.place is QueuePart.IN_FLIGHT:
            del self._entries[uid]

    def fail(self, entry: QueuedPod, pod: PodInfo, rejectors: Collection[str]) -> None:
        """Put a pod back into the queue after a failed attempt to schedule it.

        rejectors: the plugins that refused the pod; empty if the attempt failed with an error.
        """
        entry.pod, entry.rejectors, entry.since = pod, frozenset(rejectors), self._clock.monotonic()
        if not rejectors:
            entry.errors += 1
            self._move(entry, QueuePart.ERROR_BACKOFF)
            return
        entry.errors = 0
        entry.refusals += 1
        if any(wakes(pod, rejectors, change) for change in entry.seen):
            self._requeue(entry)
        else:
            self._move(entry, QueuePart.UNSCHEDULABLE)

    def move_all(self, changes: Iterable[ClusterChange], highest: float = math.inf) -> None:
        """Wake the sleeping pods that these changes may help; only pods of priority ``highest`` or lower."""
        for change in changes:
            for entry in self._entries.values():
                if entry.place is QueuePart.IN_FLIGHT:
                    entry.seen.append(change)
                elif self._sleeps(entry, highest) and wakes(entry.pod, entry.rejectors, change):
                    self._requeue(entry)

    def _sleeps(self, entry: QueuedPod, highest: float) -> bool:
        return entry.place is QueuePart.UNSCHEDULABLE and entry.pod.priority <= highest

    async def flush(self) -> None:
        """Until cancelled, make each pod active whose back-off is over or that has slept for LONGEST_SLEEP seconds."""
        checked = self._clock.monotonic()
        while True:
            await self._clock.sleep(FLUSH_SECONDS)
            now = self._clock.monotonic()
            for entry in self._entries.values():
                if entry.place in (QueuePart.BACKOFF, QueuePart.ERROR_BACKOFF) and not self._backs_off(entry):
                    self._move(entry, QueuePart.ACTIVE)
            if now - checked >= UNSCHEDULABLE_CHECK:
                checked = now
                self._flush_unschedulable(now)

    def _flush_unschedulable(self, now: float) -> None:
        for entry in self._entries.values():
            if entry.place is QueuePart.UNSCHEDULABLE and now - entry.since > LONGEST_SLEEP:
                self._requeue(entry)

    def _requeue(self, entry: QueuedPod) -> None:
        self._move(entry, QueuePart.BACKOFF if self._backs_off(entry) else QueuePart.ACTIVE)

    def _backs_off(self, entry: QueuedPod) -> bool:
        count = entry.errors or entry.refusals
        wait = min(self._max, self._initial * 2.0 ** min(count - 1, 30)) if count else 0.0
        return self._clock.monotonic() < entry.since + wait

    def _move(self, entry: QueuedPod, place: QueuePart) -> None:
        entry.place = place
        self._entries[entry.pod.uid] = entry
        if place in (QueuePart.ACTIVE, QueuePart.BACKOFF):
            self._filled.set()

    def _first(self, place: QueuePart) -> QueuedPod | None:
        found = (entry for entry in self._entries.values() if entry.place is place)
        return min(found, key=lambda entry: (-entry.pod.priority, entry.since), default=None)

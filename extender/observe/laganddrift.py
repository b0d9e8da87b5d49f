"""Measures the event loop's lag and the ledger's drift as metrics of ``kohort serve``.

The lag is how late the event loop wakes a timer. The drift is how many more objects (nodes, pods) the API server has
than the ledger. Nothing waits for these measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Gauge, Histogram

from extender.clock import Clock
from extender.kube.api import NODES, PODS, ClusterError, Resource
from policy.cluster.snapshot import Snapshot

LAG_SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
BEAT_SECONDS: Final = 0.5
COUNT_SECONDS: Final = 30.0
COUNTED: Final[Mapping[Resource, Callable[[Snapshot], int]]] = {
    NODES: lambda snapshot: len(snapshot.nodes),
    PODS: lambda snapshot: len(snapshot.pods),
}


class ObjectCounter(Protocol):
    """The type of API clients that can count the objects of a resource. `LagAndDrift` needs no more of a client."""

    async def count(self, resource: Resource) -> int:
        """Return how many objects of the resource the API server has. Raises ClusterError where the API server does not
        say.
        """


class LagAndDrift:
    """Two metrics: how late the event loop wakes a timer (lag), and how many more nodes and pods the API server has
    than the ledger (drift).
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        text = "How late the event loop woke a timer of half a second."
        self.lag = Histogram("kohort_event_loop_lag_seconds", text, buckets=LAG_SECONDS, registry=registry)
        text = (
            "Objects in the API server minus objects in the ledger, at the last count; changes under way are included."
        )
        self.drift = Gauge("kohort_ledger_drift_objects", text, ["resource"], registry=registry)

    async def beat(self, clock: Clock) -> None:
        """Measure how late the event loop wakes a timer, in the clock's own seconds, until cancelled."""
        while True:
            due = clock.monotonic() + BEAT_SECONDS
            await clock.sleep(BEAT_SECONDS)
            self.lag.observe(max(0.0, clock.monotonic() - due))

    async def count(self, api: ObjectCounter, look: Callable[[], Snapshot], clock: Clock) -> None:
        """Compare, every `COUNT_SECONDS` until cancelled, how many objects the API server and the ledger have.

        ``look``: returns the ledger's snapshot. If the API server does not answer, the metric keeps its value; another
        metric, the age of the watches, shows the failure.
        """
        while True:
            await clock.sleep(COUNT_SECONDS)
            for resource, known in COUNTED.items():
                try:
                    there = await api.count(resource)
                except ClusterError:
                    continue
                self.drift.labels(str(resource)).set(there - known(look()))

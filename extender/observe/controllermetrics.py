"""Prometheus metrics of the controller, on a registry of its own; labels come from closed sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from prometheus_client import Counter, Gauge

from extender.observe.registry import new_registry


class ControllerMetrics:
    """The metrics of ``kohort controller``."""

    def __init__(self) -> None:
        self.registry = new_registry()
        make: Any = {"registry": self.registry}
        self._writes = Counter(
            "kohort_controller_writes",
            "Writes to the API, by outcome; some refused ones are normal: the object has changed or is gone.",
            ["kind", "outcome"],
            **make,
        )
        self._wanted = Gauge(
            "kohort_controller_wanted_writes", "Writes that are wanted and not done yet, by kind.", ["kind"], **make
        )
        self._reachable = Gauge("kohort_controller_extender_reachable", "1 while the extender answers.", **make)
        self._leader = Gauge("kohort_leader", "1 while this replica leads; exactly one replica should.", **make)

    def wrote(self, kind: str, outcome: str) -> None:
        """Count one write by its outcome: done, refused or unknown."""
        self._writes.labels(kind, outcome).inc()

    def wants(self, count: Callable[[str], int], kinds: Iterable[str]) -> None:
        """Register ``count``, which returns how many writes of a kind are still to do; every scrape calls it."""
        for kind in kinds:
            self._wanted.labels(kind).set_function(partial(count, kind))

    def reached(self, reachable: bool) -> None:
        """Record whether the extender answers."""
        self._reachable.set(reachable)

    def leads(self, leading: Callable[[], bool]) -> None:
        """Register ``leading``, which tells whether this replica leads; every scrape calls it."""
        self._leader.set_function(leading)

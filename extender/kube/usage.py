"""Polls the measured usage of nodes from the metrics API (metrics.k8s.io), which cannot be watched.

Usage is optional: where it is not measured, the policy uses the pods' requests instead. This module knows the API; it
must not know what usage is for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Final

from extender.clock import Clock
from extender.kube.api import Api, ClusterError, Json, Resource
from extender.kube.fields import ObjectError, amount, part, text
from policy.cluster.events import UsageSeen
from policy.cluster.node import Node
from policy.cluster.resources import Resources

NODE_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "nodes", namespaced=False)
MEASURED: Final = ("cpu", "memory")
MISSING_SECONDS: Final = 300.0  # MISSING_SECONDS pass between two attempts where the metrics API is not served.
UNLISTED_SECONDS: Final = 1.0  # UNLISTED_SECONDS pass between checks at the start, until the ledger knows nodes.
STALE: Final = 3  # After STALE failures in a row the last measurement is too old, and is dropped.
COARSE: Final = 100  # Usage is rounded to hundredths of the node, because each change makes a step of the ledger.
_log = logging.getLogger(__name__)

Usage = Mapping[str, Resources]


class UsagePoll:
    """Polls the measured usage of all nodes, and delivers the usage as an event whenever it has changed."""

    def __init__(
        self, api: Api, clock: Clock, nodes: Callable[[], Mapping[str, Node]], deliver: Callable[[UsageSeen], None]
    ) -> None:
        """Prepare a poll that does nothing until `run` is called.

        ``nodes``: returns the nodes that are known now, by name. ``deliver``: is called with each changed measurement.
        """
        self._api = api
        self._clock = clock
        self._nodes = nodes
        self._deliver = deliver
        self._delivered: Usage = {}
        self._failures = 0

    async def run(self, interval: float) -> None:
        """Ask for the measured usage until cancelled. ``interval``: seconds between two requests; with 0 nothing is
        requested.
        """
        while interval:
            if not self._nodes():
                await self._clock.sleep(UNLISTED_SECONDS)
                continue
            await self._clock.sleep(interval if await self._ask() else MISSING_SECONDS)

    async def _ask(self) -> bool:
        """Ask for the measured usage of all nodes once; return False where the metrics API is not served or may not be
        read.
        """
        try:
            found = await self._read()
        except ClusterError as error:
            self._failures += 1
            if error.status in (403, 404) or self._failures >= STALE:
                self._deliver_changed({})
            if error.status == 403:
                _log.warning(
                    (
                        "the metrics API may not be read, so requests are used in place of measured usage; grant list "
                        "of its nodes: %s"
                    ),
                    error,
                )
            return error.status not in (403, 404)
        self._failures = 0
        self._deliver_changed(found)
        return True

    async def _read(self) -> Usage:
        nodes, found = self._nodes(), {}
        async with aclosing(self._api.list_pages(NODE_METRICS)) as pages:
            async for items, _ in pages:
                for item in items:
                    name = text(part(item, "metadata"), "name")
                    if name in nodes:
                        found[name] = _rounded(_usage(item), nodes[name].allocatable)
        return found

    def _deliver_changed(self, found: Usage) -> None:
        if found != self._delivered:
            self._delivered = found
            self._deliver(UsageSeen(found))


def _usage(item: Json) -> Resources:
    """Return the usage of cpu and memory in a NodeMetrics object; a quantity that cannot be read is left out."""
    amounts = {}
    for name, value in part(item, "usage").items():
        if name in MEASURED:
            try:
                amounts[str(name)] = amount(str(name), value, "usage")
            except ObjectError:
                continue
    return Resources(amounts)


def _rounded(usage: Resources, whole: Resources) -> Resources:
    """Return the usage of a node, rounded to hundredths of the node's allocatable resources (``whole``)."""
    steps = {name: max(1, whole[name] // COARSE) for name in usage}
    return Resources({name: round(usage[name] / step) * step for name, step in steps.items()})

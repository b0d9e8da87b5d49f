"""What nodes use by the metrics API (metrics.k8s.io), where it is served; it cannot be watched, so it is asked.

A courtesy: without it requests stand in for use, and nothing waits for it. This room knows the API's words; it must
not know what use is good for.
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
from policy.cluster.model import Node
from policy.cluster.resources import Resources

NODE_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "nodes", namespaced=False)
MEASURED: Final = ("cpu", "memory")
MISSING_SECONDS: Final = 300.0  # between looks for an API that is not served
UNLISTED_SECONDS: Final = 1.0  # until the nodes themselves are known
STALE: Final = 3  # failures in a row after which what was measured is too old
COARSE: Final = 100  # changes below one such part of the node are nobody's business: each would be a step
_log = logging.getLogger(__name__)

Usage = Mapping[str, Resources]


class UsagePoll:
    """Asks in turn, for ever, and tells what changed."""

    def __init__(
        self, api: Api, clock: Clock, nodes: Callable[[], Mapping[str, Node]], deliver: Callable[[UsageSeen], None]
    ) -> None:
        """Prepare only; `run` starts. ``nodes``: those that are known now, by name."""
        self._api = api
        self._clock = clock
        self._nodes = nodes
        self._deliver = deliver
        self._told: Usage = {}
        self._failures = 0

    async def run(self, interval: float) -> None:
        """Until cancelled. ``interval``: seconds between two questions; 0 asks nobody."""
        while interval:
            if not self._nodes():
                await self._clock.sleep(UNLISTED_SECONDS)
                continue
            await self._clock.sleep(interval if await self._ask() else MISSING_SECONDS)

    async def _ask(self) -> bool:
        """Ask once; whether to ask again soon."""
        try:
            found = await self._read()
        except ClusterError as error:
            self._failures += 1
            if error.status in (403, 404) or self._failures >= STALE:
                self._tell({})
            if error.status == 403:
                _log.warning("the metrics API is served, and may not be read: requests stand in for use: %s", error)
            return error.status not in (403, 404)
        self._failures = 0
        self._tell(found)
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

    def _tell(self, found: Usage) -> None:
        if found != self._told:
            self._told = found
            self._deliver(UsageSeen(found))


def _usage(item: Json) -> Resources:
    """A quantity that cannot be read is none."""
    amounts = {}
    for name, value in part(item, "usage").items():
        if name in MEASURED:
            try:
                amounts[str(name)] = amount(str(name), value, "usage")
            except ObjectError:
                continue
    return Resources(amounts)


def _rounded(usage: Resources, whole: Resources) -> Resources:
    """To the nearest hundredth of the node."""
    steps = {name: max(1, whole[name] // COARSE) for name in usage}
    return Resources({name: round(usage[name] / step) * step for name, step in steps.items()})

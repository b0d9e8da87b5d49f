"""The metrics API is asked where it is served, and the use of nodes is reported once, rounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from extender.kube.api import ClusterError, Json, Resource
from extender.kube.usage import MISSING_SECONDS, NODE_METRICS, UsagePoll
from policy.cluster.events import UsageSeen
from policy.cluster.node import Node
from policy.cluster.resources import Resources
from tests.builders import GIB, node
from tests.stage import FakeApi, VirtualClock, virtual

INTERVAL = 30.0


class MetricsApi(FakeApi):
    """A fake metrics API that answers with these items, or with an error if ``status`` is set."""

    def __init__(self, items: list[Json], status: int = 0) -> None:
        super().__init__()
        self.items, self.status, self.asked = items, status, 0

    async def list_pages(self, resource: Resource) -> AsyncGenerator[tuple[list[Json], str], None]:
        assert resource == NODE_METRICS
        self.asked += 1
        if self.status:
            raise ClusterError(self.status, "No")
        yield self.items, ""


def measured(name: str, **usage: Any) -> Json:
    return {"metadata": {"name": name}, "usage": usage}


async def told_in(api: MetricsApi, seconds: float, nodes: tuple[Node, ...] = (node("n1"), node("n2"))) -> list[Any]:
    """Return the reported usage of so many seconds; halfway, the API's answer changes to ``api.later``
    if that is set.
    """
    told: list[UsageSeen] = []
    known = {one.name: one for one in nodes}
    task = asyncio.create_task(UsagePoll(api, VirtualClock(), lambda: known, told.append).run(INTERVAL))
    await asyncio.sleep(seconds / 2)
    later = getattr(api, "later", None)
    if later is not None:
        api.items, api.status = later
    await asyncio.sleep(seconds / 2)
    task.cancel()
    return [dict(one.usage) for one in told]


@virtual
async def test_use_is_told_in_hundredths_of_the_node_and_only_of_nodes_that_are_known() -> None:
    api = MetricsApi([measured("n1", cpu="1234567890n", memory="1Gi"), measured("stranger", cpu="1")])
    (told,) = await told_in(api, 100)
    assert told == {"n1": Resources({"cpu": 1200, "memory": told["n1"]["memory"]})}
    assert abs(told["n1"]["memory"] - GIB) <= 0.005 * node("n1").allocatable["memory"]
    assert api.asked == 4, "at once, and every 30 s"


@virtual
async def test_what_cannot_be_read_is_left_out() -> None:
    api = MetricsApi([measured("n1", cpu="plenty", memory=7), {"usage": {"cpu": "1"}}, {"metadata": {"name": "n2"}}])
    (told,) = await told_in(api, 100)
    assert set(told) == {"n1", "n2"}
    assert told["n1"].amounts.keys() == {"memory"}
    assert told["n2"].amounts == {}


@virtual
async def test_an_api_that_is_not_served_is_looked_for_now_and_then() -> None:
    api = MetricsApi([], status=404)
    assert await told_in(api, 2.5 * MISSING_SECONDS) == []
    assert api.asked == 3


@virtual
async def test_what_was_measured_is_forgotten_when_the_api_is_silent_for_long() -> None:
    api: Any = MetricsApi([measured("n1", cpu="1")])
    api.later = ([], 503)
    assert await told_in(api, 10 * INTERVAL) == [{"n1": Resources({"cpu": 1000})}, {}]


@virtual
async def test_nobody_is_asked_before_the_nodes_are_known() -> None:
    api = MetricsApi([measured("n1", cpu="1")])
    assert await told_in(api, 100, nodes=()) == []
    assert api.asked == 0


@virtual
async def test_nobody_is_asked_where_it_is_switched_off() -> None:
    api = MetricsApi([measured("n1", cpu="1")])
    nodes = {"n1": node("n1")}
    await UsagePoll(api, VirtualClock(), lambda: nodes, lambda _: None).run(0.0)
    assert api.asked == 0

"""The event loop's lag, and objects that the ledger has lost."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from extender.kube import responses
from extender.kube.api import NODES, PODS, ClusterError, Resource
from extender.observe.laganddrift import BEAT_SECONDS, COUNT_SECONDS, LagAndDrift
from policy.cluster.snapshot import Snapshot
from tests.builders import World
from tests.stage import VirtualClock, virtual


class Counting:
    """A fake API server that counts so many nodes and pods; it raises ClusterError where the number is None."""

    def __init__(self, nodes: int | None, pods: int) -> None:
        self.there: dict[Resource, int | None] = {NODES: nodes, PODS: pods}

    async def count(self, resource: Resource) -> int:
        found = self.there[resource]
        if found is None:
            raise ClusterError(503, "Down")
        return found


@virtual
async def test_objects_that_the_ledger_lacks_are_drift() -> None:
    registry = CollectorRegistry()
    pulse, api = LagAndDrift(registry), Counting(nodes=3, pods=0)
    snapshot: Snapshot = World().nodes("n1", "n2").snapshot
    task = asyncio.create_task(pulse.count(api, lambda: snapshot, VirtualClock()))
    await asyncio.sleep(COUNT_SECONDS + 1)
    assert registry.get_sample_value("kohort_ledger_drift_objects", {"resource": "nodes"}) == 1
    assert registry.get_sample_value("kohort_ledger_drift_objects", {"resource": "pods"}) == 0
    api.there = {NODES: None, PODS: 7}
    await asyncio.sleep(COUNT_SECONDS)
    assert registry.get_sample_value("kohort_ledger_drift_objects", {"resource": "nodes"}) == 1, "left as it was"
    assert registry.get_sample_value("kohort_ledger_drift_objects", {"resource": "pods"}) == 7
    task.cancel()


class LateClock(VirtualClock):
    """A clock whose first sleep takes 0.2 s longer than it should, as when the event loop was busy meanwhile."""

    late = 0.2

    async def sleep(self, seconds: float) -> None:
        late, self.late = self.late, 0.0
        await super().sleep(seconds + late)


@virtual
async def test_a_loop_that_is_kept_busy_is_late() -> None:
    registry = CollectorRegistry()
    task = asyncio.create_task(LagAndDrift(registry).beat(LateClock()))
    await asyncio.sleep(2 * BEAT_SECONDS + 0.3)
    task.cancel()
    name = "kohort_event_loop_lag_seconds"
    assert registry.get_sample_value(f"{name}_count") == 2
    assert registry.get_sample_value(f"{name}_sum") == pytest.approx(0.2)


COUNTS = {
    "all in one": (b'{"metadata":{"resourceVersion":"1"},"items":[{}]}', 1),
    "none": (b'{"metadata":{},"items":null}', 0),
    "more": (b'{"metadata":{"continue":"x","remainingItemCount":41},"items":[{}]}', 42),
}


@pytest.mark.parametrize(("body", "count"), COUNTS.values(), ids=COUNTS.keys())
def test_a_list_of_one_says_how_many_there_are(body: bytes, count: int) -> None:
    assert responses.decode_count(body) == count


@pytest.mark.parametrize("body", [b"no json", b"[]", b'{"metadata":{"continue":"x"},"items":[{}]}'])
def test_an_answer_without_a_count_is_an_error(body: bytes) -> None:
    with pytest.raises(ClusterError):
        responses.decode_count(body)

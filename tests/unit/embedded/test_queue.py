"""The embedded scheduling queue: in which order pods are popped, and which events wake which pods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from extender.kube.api import Json
from lab.embedded.cache import PodInfo, pod_info
from lab.embedded.plugins import EXTENDER, RESOURCES, ClusterChange, ClusterEvent
from lab.embedded.schedulingqueue import QueuePart, SchedulingQueue
from policy.cluster.node import Node
from policy.cluster.resources import Resources
from tests.stage import HandClock, virtual


def pod(name: str, *, cpu: str = "1", priority: int = 0, gated: bool = False) -> PodInfo:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    spec: Json = {"containers": [container], "priority": priority}
    if gated:
        spec["schedulingGates"] = [{"name": "gate"}]
    return pod_info({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec})


class Bench:
    def __init__(self) -> None:
        self.clock = HandClock(100.0)
        self.queue = SchedulingQueue(self.clock, initial_backoff=1, max_backoff=10)

    async def pop(self) -> str:
        async with asyncio.timeout(1):
            return (await self.queue.pop()).pod.name

    async def empty(self) -> bool:
        try:
            async with asyncio.timeout(0):
                await self.queue.pop()
        except TimeoutError:
            return True
        return False

    async def refused(self, name: str, *rejectors: str, while_in_flight: Callable[[], None] = lambda: None) -> None:
        """Pop the pod, which must have this name, and return it to the queue as refused by these plugins."""
        entry = await self.queue.pop()
        assert entry.pod.name == name
        while_in_flight()
        self.queue.fail(entry, entry.pod, rejectors)


@pytest.fixture
def bench() -> Bench:
    return Bench()


@virtual
async def test_priority_first_then_the_longest_in_the_queue(bench: Bench) -> None:
    for name, priority in (("old", 0), ("young", 0), ("heavy", 5)):
        bench.queue.add(pod(name, priority=priority))
        bench.clock.time += 1
    assert [await bench.pop(), await bench.pop(), await bench.pop()] == ["heavy", "old", "young"]


@virtual
async def test_a_gated_pod_is_not_popped_until_it_is_ungated(bench: Bench) -> None:
    bench.queue.add(pod("a", gated=True))
    assert await bench.empty()
    bench.queue.update(pod("a"))
    assert await bench.pop() == "a"


@virtual
async def test_a_refused_pod_sleeps_until_something_that_helps(bench: Bench) -> None:
    bench.queue.add(pod("a"))
    await bench.refused("a", EXTENDER)
    assert bench.queue.place("a") is QueuePart.UNSCHEDULABLE
    bench.queue.move_all([ClusterChange(ClusterEvent.NODE_OTHER)])
    assert bench.queue.place("a") is QueuePart.BACKOFF


@virtual
async def test_back_off_is_not_waited_for_when_nothing_is_active(bench: Bench) -> None:
    bench.queue.add(pod("a"))
    await bench.refused("a", EXTENDER)
    bench.queue.update(pod("a"))
    bench.queue.add(pod("b"))
    assert [await bench.pop(), await bench.pop()] == ["b", "a"]


@virtual
async def test_after_its_back_off_a_woken_pod_is_active(bench: Bench) -> None:
    bench.queue.add(pod("a"))
    await bench.refused("a", EXTENDER)
    bench.clock.time += 1.1
    bench.queue.update(pod("a"))
    assert bench.queue.place("a") is QueuePart.ACTIVE


@virtual
async def test_what_happens_in_flight_counts_at_the_failure(bench: Bench) -> None:
    bench.queue.add(pod("a"))
    woken = ClusterChange(ClusterEvent.ASSIGNED_ADD)
    await bench.refused("a", EXTENDER, while_in_flight=lambda: bench.queue.move_all([woken]))
    assert bench.queue.place("a") is QueuePart.BACKOFF


@virtual
async def test_a_pod_without_room_is_woken_by_room_only(bench: Bench) -> None:
    bench.queue.add(pod("a", cpu="4"))
    await bench.refused("a", RESOURCES)
    small = Node("small", Resources({"cpu": 2000, "memory": 1, "pods": 10}))
    large = Node("large", Resources({"cpu": 8000, "memory": 1, "pods": 10}))
    bench.queue.update(pod("a", cpu="4"))
    bench.queue.move_all([ClusterChange(ClusterEvent.ASSIGNED_ADD), ClusterChange(ClusterEvent.NODE_ADD, small)])
    assert bench.queue.place("a") is QueuePart.UNSCHEDULABLE
    bench.queue.move_all([ClusterChange(ClusterEvent.NODE_ADD, large)])
    assert bench.queue.place("a") is QueuePart.BACKOFF


@virtual
async def test_the_end_of_a_nomination_wakes_nobody_of_higher_priority(bench: Bench) -> None:
    for name, priority in (("heavy", 5), ("equal", 1)):
        bench.queue.add(pod(name, priority=priority))
        await bench.refused(name, RESOURCES)
    bench.queue.move_all([ClusterChange(ClusterEvent.ASSIGNED_DELETE)], highest=1)
    assert bench.queue.place("heavy") is QueuePart.UNSCHEDULABLE
    assert bench.queue.place("equal") is QueuePart.BACKOFF


@virtual
async def test_nothing_wakes_a_pod_after_an_error(bench: Bench) -> None:
    bench.queue.add(pod("a"))
    await bench.refused("a")
    bench.queue.update(pod("a"))
    bench.queue.move_all([ClusterChange(what) for what in ClusterEvent])
    assert bench.queue.place("a") is QueuePart.ERROR_BACKOFF
    assert await bench.empty()


@virtual
async def test_a_deleted_pod_is_forgotten_also_in_flight(bench: Bench) -> None:
    bench.queue.add(pod("a"))
    entry = await bench.queue.pop()
    bench.queue.delete("a")
    bench.queue.done(entry.pod.uid)
    assert len(bench.queue) == 0

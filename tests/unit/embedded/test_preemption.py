"""The embedded DefaultPreemption and VolumeBinding: who is evicted, what is written, and what a missing volume holds
up.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from extender.kube.api import PODS, TFJOBS, Ref, Refused
from extender.kube.translate import Translator
from lab.embedded.apiserver import ApiServer
from lab.embedded.bridge import Bridge
from lab.embedded.cache import SchedulerCache
from lab.embedded.config import ProfileConfig, SchedulerConfig
from lab.embedded.defaultpreemption import best_victims, may_preempt
from lab.embedded.embeddedapi import EmbeddedApi
from lab.embedded.objectstore import ObjectStore
from lab.embedded.plugins import refuses
from lab.embedded.volumes import Volumes
from lab.sim.objects import PodObject
from lab.sim.pods.world import SimulatedWorld
from lab.sim.pods.worldcore import WorldSettings
from lab.sim.traces import node, pod_requests
from lab.virtual.clocks import SimLoop, sleep
from policy.cluster.events import PodSeen
from policy.cluster.pod import Pod
from policy.cluster.resources import Resources
from tests.simulation.clocks import ProcessClock
from tests.simulation.processes import _Scheduler
from tests.unit.embedded.test_plugins import cached, pod
from tests.unit.embedded.test_plugins import node as node_item
from tests.unit.sim.worlds import spec

URGENT = "urgent-scheduler"
REFUSED = "ValidatingAdmissionPolicy 'kept' with binding 'kept' denied request: kept as it is"


def victims_of(*pods: Any, cpu: str = "4", priority: int = 10) -> tuple[str, list[str]]:
    cache, _ = cached(*pods)
    found, victims = best_victims(cache, pod("new", cpu, priority=priority))
    return found, [victim.name for victim in victims]


def test_only_as_many_go_as_the_pod_needs_and_the_lowest_of_them() -> None:
    low, high = pod("low", "5", at="node", priority=1), pod("high", "5", at="node", priority=2)
    assert victims_of(low, high) == ("node", ["low"])


@pytest.mark.parametrize("priority", [10, 11])
def test_nobody_goes_for_a_pod_of_the_same_or_a_lower_priority(priority: int) -> None:
    assert victims_of(pod("a", "10", at="node", priority=priority)) == ("", [])


def test_nobody_goes_where_that_makes_no_room() -> None:
    kept = pod("kept", "8", at="node", priority=10)
    assert victims_of(kept, pod("low", "2", at="node")) == ("", [])


def test_a_preemptor_waits_for_its_victims_that_still_stop() -> None:
    going = replace(pod("going", "10", at="node"), deleting=True)
    cache, _ = cached(going)
    assert not may_preempt(cache, pod("new", "4", nominated="node", priority=10))
    assert may_preempt(cache, pod("new", "4", priority=10))


class Bench:
    """One node of ten cores behind the embedded API, and a scheduler with preemption, in virtual time."""

    def __init__(self) -> None:
        self.clock = ProcessClock()
        self.world = SimulatedWorld(WorldSettings(terminate_seconds=2.0), self.clock.now())
        self.world.add_node(node("n1", 10, 32))
        self.server = ApiServer(ObjectStore(), self.clock, random.Random(0))
        self.bridge = Bridge(self.world, self.server, self.clock)
        self.api = EmbeddedApi(self.server, self.clock)
        self.volumes = Volumes()
        config = SchedulerConfig({URGENT: ProfileConfig(preemption=True, bind_timeout=5.0)})
        self.scheduler = _Scheduler(config, self.api, self.clock, random.Random(0), self.volumes)

    def create(self, name: str, cores: int, priority: int = 0, **more: Any) -> None:
        made = PodObject(
            "",
            "default",
            name,
            pod_requests(cores, 1),
            scheduler=more.pop("scheduler", URGENT),
            priority=priority,
            **more,
        )
        self.bridge.do(lambda world: world.create_pod(made))

    def pod(self, name: str) -> PodObject:
        found = self.world.store.pod_named("default", name)
        assert found is not None
        return found

    @property
    def cores_assumed(self) -> int:
        used: Resources = self.scheduler.cache.used("n1")
        return used["cpu"] // 1000


def played(story: Callable[[Bench], Awaitable[None]]) -> None:
    """Run the story in virtual time while the embedded cluster and its scheduler run; cancel these when it ends."""

    async def play() -> None:
        bench = Bench()
        running = [asyncio.ensure_future(part) for part in (bench.bridge.run(), bench.scheduler.run_elected(None))]
        await story(bench)
        for task in running:
            task.cancel()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(play())


def test_the_preemptor_is_nominated_its_victim_marked_and_deleted_and_then_it_is_bound() -> None:
    async def story(bench: Bench) -> None:
        bench.create("low", 8, node="n1", scheduler="kohort")
        await sleep(2.0)
        bench.create("urgent", 4, priority=10)
        await sleep(0.5)
        victim, urgent = bench.pod("low"), bench.pod("urgent")
        assert (urgent.nominated, urgent.node) == ("n1", "")
        assert victim.preempted
        assert victim.deleted is not None
        assert victim.preempted
        assert fact(bench, "low").preempted
        await sleep(5.0)
        assert (bench.pod("urgent").node, bench.pod("urgent").nominated) == ("n1", "")
        assert bench.world.store.pod_named("default", "low") is None

    played(story)


def test_a_pod_whose_volume_waits_for_its_consumer_holds_room_until_the_time_out() -> None:
    async def story(bench: Bench) -> None:
        bench.volumes.lose("default", "data", first_consumer=True)
        bench.create("waits", 4, volumes=("data",))
        await sleep(3.0)
        assert bench.cores_assumed == 4
        assert bench.pod("waits").node == ""
        await sleep(2.5)
        assert bench.cores_assumed == 0
        told = bench.pod("waits").scheduled
        assert told is not None
        assert told.reason == "SchedulerError"
        assert 'PreBind plugin "VolumeBinding"' in told.message
        assert fact(bench, "waits").failed_attempt
        bench.volumes.arrive("default", "data")
        await sleep(15.0)
        assert bench.pod("waits").node == "n1"

    played(story)


def test_a_pod_whose_volume_is_bound_at_once_or_never_is_refused_before_it_holds_room() -> None:
    async def story(bench: Bench) -> None:
        bench.volumes.lose("default", "data", first_consumer=False)
        bench.create("waits", 4, volumes=("data",))
        await sleep(1.0)
        assert bench.cores_assumed == 0
        found = fact(bench, "waits")
        assert (found.refused, found.failed_attempt) == (True, False)
        assert "unbound immediate PersistentVolumeClaims" in found.refusal
        bench.volumes.arrive("default", "data")
        await sleep(15.0)
        assert bench.pod("waits").node == "n1"

    played(story)


def fact(bench: Bench, name: str) -> Pod:
    shown = bench.server.store.get(PODS, "default", name)
    events = Translator(URGENT).events(PODS, {"type": "ADDED", "object": shown})
    return next(event.pod for event in events if isinstance(event, PodSeen))


def test_a_nomination_of_another_scheduler_holds_no_room() -> None:
    """The real kube-scheduler, too, knows only the nominations of pods that its own profiles schedule."""
    cache = SchedulerCache(("default-scheduler",))
    found = cache.set_node(node_item("node"))
    cache.set_pod(pod("a", "10", nominated="node", schedulerName="another"))
    assert refuses(cache, pod("new"), found) == ("", "")
    cache.set_pod(pod("b", "10", nominated="node"))
    assert refuses(cache, pod("new"), found)[0] == "NodeResourcesFit"


def test_admission_refuses_a_binding_and_a_resize_with_its_own_words() -> None:
    async def story(bench: Bench) -> None:
        bench.server.admission = lambda resource, before, after: REFUSED
        bench.create("kept", 1, scheduler="nobody")
        bench.bridge.do(lambda world: world.submit(spec("job")))
        bound = await bench.api.bind("default", "kept", bench.pod("kept").uid, "n1", {})
        assert isinstance(bound, Refused)
        assert (bound.status, bound.reason) == (422, "Invalid")
        assert REFUSED in bound.message
        change = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2}}}}
        assert isinstance(await bench.api.patch(Ref(TFJOBS, "default", "job"), change), Refused)
        assert bench.pod("kept").node == ""

    played(story)

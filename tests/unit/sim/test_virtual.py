"""Virtual time, and the live service within the simulator's process: what ends a run, and what a caller notices."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from extender.http.server import disconnected
from lab.embedded.embeddedcluster import EmbeddedCluster
from lab.sim.pods.world import SimulatedWorld
from lab.sim.simulatedstep import SimulatedStep
from lab.sim.traces import kod2
from lab.virtual.clocks import SimLoop, VirtualClock, loop_time, sim_loop
from lab.virtual.podrun import settings_for, simulate
from lab.virtual.service import InProcessService
from policy.cluster.actions import Decision
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy
from policy.systems.kod2 import Kod2


def played(part: Coroutine[Any, Any, None], start: float = 50.0) -> None:
    with asyncio.Runner(loop_factory=lambda: SimLoop(start)) as runner:
        runner.run(part)


def test_time_jumps_to_the_next_timer_and_begins_where_it_is_told() -> None:
    async def part() -> None:
        clock = VirtualClock()
        assert (clock.now(), clock.monotonic(), loop_time()) == (50.0, 50.0, 50.0)
        await clock.sleep(3600.0)
        assert clock.now() == 3650.0

    played(part())


def test_tasks_that_wait_for_each_other_for_ever_are_an_error() -> None:
    async def part() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="every task waits"):
        played(part())


async def test_another_loop_has_no_virtual_time() -> None:
    with pytest.raises(TypeError, match="must be a SimLoop"):
        sim_loop()


def test_an_error_of_the_observer_ends_the_run() -> None:
    def fail(step: SimulatedStep, world: SimulatedWorld) -> None:
        raise LookupError(f"seen at {step.at:g}")

    with pytest.raises(LookupError, match="seen at"):
        simulate(kod2(0), Kod2(), on_step=fail)


@dataclass(frozen=True)
class Broken(Policy):
    """A policy whose decision raises an error."""

    @property
    def name(self) -> str:
        return "broken"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        raise ZeroDivisionError


def test_a_step_that_fails_ends_the_run() -> None:
    with pytest.raises(ZeroDivisionError):
        simulate(kod2(0), Broken())


def test_a_failed_fault_ends_the_run() -> None:
    def fault(world: SimulatedWorld) -> None:
        raise LookupError(f"at {world.now - 1_000_000:g}")

    with pytest.raises(LookupError, match="at 45"):
        simulate(kod2(0), Kod2(), faults=[(45.0, fault)])


class Holds:
    """Verbs whose bind call is not answered until the caller has left."""

    def __init__(self) -> None:
        self.left: list[float] = []

    async def bind(self, request: Request) -> Response:
        assert await request.body() == b"pod"
        await disconnected(request)
        self.left.append(loop_time())
        return Response(b"too late")


def test_a_bind_call_that_its_caller_gives_up_is_noticed() -> None:
    async def part() -> None:
        clock, verbs = VirtualClock(), Holds()
        cluster = EmbeddedCluster(kod2(0), clock, 0)
        service = InProcessService(settings_for(), Kod2(), cluster.api, clock, random.Random(0))
        service.live.verbs = verbs  # type: ignore[assignment]
        with pytest.raises(TimeoutError):
            async with clock.timeout(7.0):
                await service.send("http://kohort/scheduler/bind", b"pod")
        await clock.sleep(1.0)
        assert verbs.left == [57.0]

    played(part())

"""One running embedded cluster: a world, its API server over HTTP, a trace's arrivals, and a scheduling loop."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from extender.clock import Clock
from extender.http.limits import Limits
from extender.http.server import Endpoint, serve
from lab.embedded.apiserver import ApiServer, GatePolicy
from lab.embedded.bridge import Bridge
from lab.embedded.config import SchedulerConfig
from lab.embedded.embeddedapi import EmbeddedApi
from lab.embedded.embeddedscheduler import EmbeddedScheduler
from lab.embedded.http import http_app, kubeconfig
from lab.embedded.objectstore import ObjectStore
from lab.sim.objects import JobObject, JobSpec
from lab.sim.pods.world import SimulatedWorld
from lab.sim.pods.worldcore import WorldSettings
from lab.sim.traces import Trace

LOOPBACK = "127.0.0.1"
Part = Callable[[], Coroutine[Any, Any, None]]


class EmbeddedCluster:
    """A simulated world (nodes, operator, kubelets, training) with an API server, run by the clock. The times of the
    trace count from the call of `begin`.
    """

    def __init__(self, trace: Trace, clock: Clock, seed: int, settings: WorldSettings | None = None) -> None:
        chance, gate = random.Random(seed), GatePolicy()
        self.trace = trace
        self.clock = clock
        self.started = clock.now()
        self.world = SimulatedWorld(settings or WorldSettings(), self.started)
        for node in trace.nodes:
            self.world.add_node(node)
        self.server = ApiServer(ObjectStore(), clock, chance, gate)
        self.api = EmbeddedApi(self.server, clock)
        self.bridge = Bridge(self.world, self.server, clock, gate)
        self._chance = chance
        self._begun = asyncio.Event()
        self._to_come = len(trace.jobs)

    def begin(self) -> None:
        """Start the trace now. Call this when all components are ready."""
        self.started = self.clock.now()
        self._begun.set()

    async def run(self) -> None:
        """Advance the world with the clock until cancelled; after `begin`, create each job at its arrival time."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.bridge.run())
            tasks.create_task(self._submit())

    async def _submit(self) -> None:
        await self._begun.wait()
        for spec in sorted(self.trace.jobs, key=lambda job: job.arrival):
            await self.clock.sleep(self.started + spec.arrival - self.clock.now())
            self._to_come -= 1
            self.submit(spec)

    def submit(self, spec: JobSpec) -> None:
        """Create the object of this job in the cluster now."""
        self.bridge.do(lambda world: world.submit(spec))

    def scheduler(self, config: SchedulerConfig) -> EmbeddedScheduler:
        """Return a new scheduling loop on this cluster, which runs within the process."""
        return EmbeddedScheduler(config, self.api, self.clock, random.Random(self._chance.random()))

    @property
    def jobs(self) -> Sequence[JobObject]:
        """Return the jobs submitted so far, ordered by creation."""
        return sorted(self.world.store.jobs.values(), key=lambda job: (job.created, job.key))

    @property
    def all_ended(self) -> bool:
        """Tell whether every job of the trace was submitted and has ended, or was deleted."""
        return not self._to_come and all(job.phase.ended for job in self.world.store.jobs.values())


@asynccontextmanager
async def running(*parts: Part) -> AsyncIterator[None]:
    """Run all parts as tasks while the context lasts; if a part fails, the context raises its error."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part()) for part in parts]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def served(server: ApiServer) -> AsyncIterator[str]:
    """Serve the API on a free loopback port for as long as the context lasts; yield the path of a kubeconfig."""
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    limits = Limits(graceful_seconds=0.2)
    endpoint = Endpoint(http_app(server), LOOPBACK, 0, limits)
    serving = asyncio.create_task(serve([endpoint], lambda bound: ready.set_result(bound[0][1]), stop))
    serving.add_done_callback(lambda task: _give_up(ready, task))
    try:
        port = await ready
        with tempfile.TemporaryDirectory(prefix="kohort-embedded-") as folder:
            path = Path(folder) / "kubeconfig"
            path.write_text(kubeconfig(f"http://{LOOPBACK}:{port}"))
            yield str(path)
    finally:
        stop.set()
        await asyncio.wait([serving])


def _give_up(ready: asyncio.Future[int], serving: asyncio.Task[None]) -> None:
    """Set an error on ``ready`` if the server ended before it was ready, so that its caller does not wait without
    end.
    """
    if not ready.done():
        ready.set_exception(serving.exception() or RuntimeError("the API server ended at once"))

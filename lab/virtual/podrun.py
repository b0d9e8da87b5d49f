"""Runs a trace in virtual time, with each pod simulated: the simulated world, an imitation of kube-scheduler, and
optionally Kohort.

``simulate`` runs Kohort's real extender and controller with a policy, ``pod_by_pod`` runs the default scheduler alone.
Both return a RunResult, and depend only on their arguments.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any

from extender.config.settings import Settings
from extender.leading.lease import EVERYBODY
from extender.state.ledger import Record
from lab.embedded.config import SchedulerConfig, config_for
from lab.embedded.embeddedcluster import EmbeddedCluster, Part, running
from lab.sim.engine import START
from lab.sim.objects import WorldChange
from lab.sim.pods.podmeter import PodMeter
from lab.sim.pods.world import SimulatedWorld
from lab.sim.pods.worldcore import WorldSettings
from lab.sim.report import RunResult
from lab.sim.simulatedstep import SimulatedStep
from lab.sim.traces import DEFAULT_SCHEDULER, Trace, rigid
from lab.virtual.clocks import SimLoop, VirtualClock
from lab.virtual.service import InProcessService
from policy.cluster.actions import Effect
from policy.cluster.events import Event
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy

HORIZON = 6 * 3600.0
SEED = 0  # a run with a policy draws the pauses between retries and generated names from this seed
URL = "http://kohort"  # the URL names the extender in kube-scheduler's configuration; nothing is sent to it over HTTP

OnStep = Callable[[SimulatedStep, SimulatedWorld], None]
Fault = tuple[float, Callable[[SimulatedWorld], object]]


def settings_for(**changes: object) -> Settings:
    """Return the default settings of a service that always leads, with these changes.

    Besides reading the desired state at each change, the controller reads it only every ten seconds, because frequent
    reads would slow down the simulation of quiet times.
    """
    fixed = {"lease": {"identity": EVERYBODY}, "controller": {"interval_seconds": 10.0}}
    return Settings.model_validate({**fixed, **changes})


def simulate(
    trace: Trace,
    policy: Policy,
    settings: Settings | None = None,
    *,
    world: WorldSettings | None = None,
    horizon: float = HORIZON,
    patience: float | None = None,
    faults: Iterable[Fault] = (),
    on_step: OnStep | None = None,
) -> RunResult:
    """Run the trace under Kohort with that policy.

    ``settings``: the service's settings, whose policy is ignored; by default those of `settings_for`. ``on_step`` is
    called with every step and the world at that time. ``patience``: a job that holds pods for this many seconds without
    computing is ended as failed at that time. It is an argument, because KOD2 does not say what ends a deadlocked job,
    although comparisons depend on it. ``faults``: pairs of a time in seconds after the start and a function that is
    called then with the world.
    """
    configured = settings or settings_for()

    async def run() -> RunResult:
        played = PodRun(trace, world, SEED, horizon, patience)
        cluster = played.cluster
        service = InProcessService(configured, policy, cluster.api, cluster.clock, random.Random(SEED))

        if on_step is not None:
            service.live.ledger.record_with(played.recorder(on_step))
        scheduler = cluster.scheduler(config_for(URL, configured))
        parts = (service.run, partial(scheduler.run_with, service.send), partial(played.inject, faults))
        return await played.until_done(policy.name, *parts)

    return _in_virtual_time(run)


def pod_by_pod(
    trace: Trace,
    seed: int,
    *,
    world: WorldSettings | None = None,
    scheduler: SchedulerConfig | None = None,
    horizon: float = HORIZON,
    patience: float | None = None,
) -> RunResult:
    """Run the trace under the default kube-scheduler: no gangs, no Kohort, every job at the size that it asks for.

    The seed decides between nodes of equal score.
    """

    async def run() -> RunResult:
        played = PodRun(rigid(trace), world, seed, horizon, patience)
        loop = played.cluster.scheduler(scheduler or SchedulerConfig())
        return await played.until_done(DEFAULT_SCHEDULER, partial(loop.run_with, _nobody))

    return _in_virtual_time(run)


def _in_virtual_time(run: Callable[[], Coroutine[Any, Any, RunResult]]) -> RunResult:
    with asyncio.Runner(loop_factory=partial(SimLoop, START)) as runner:
        try:
            return runner.run(run())
        except BaseExceptionGroup as group:
            raise _first(group) from None


def _first(error: BaseException) -> BaseException:
    """Return the first error in an exception group; any other error is returned itself."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


class PodRun:
    """One simulated run. It updates the measures after every moment with changes, injects faults, and ends stalled
    jobs.
    """

    def __init__(
        self, trace: Trace, settings: WorldSettings | None, seed: int, horizon: float, patience: float | None
    ) -> None:
        self.cluster = EmbeddedCluster(trace, VirtualClock(), seed, settings)
        self._horizon = horizon
        self._patience = math.inf if patience is None else patience
        self._meter = PodMeter(self.cluster.world)
        self._unseen: list[WorldChange] = []
        self._stirred = asyncio.Event()
        self._failure: Exception | None = None
        self.cluster.bridge.observe = self._observe
        self.cluster.begin()

    async def until_done(self, policy: str, *parts: Part) -> RunResult:
        """Run until every job has ended, or until the horizon; return the result, under the name ``policy``.

        ``parts``: coroutine functions that run as tasks beside the cluster. Raises the first error that an observer of
        the steps has raised.
        """
        stop = START + self._horizon
        async with running(self.cluster.run, *parts):
            try:
                async with asyncio.timeout_at(stop):
                    await self._measure()
            except TimeoutError:
                self._meter.run_to(stop)
        return self._meter.result(policy, self._horizon)

    def recorder(self, on_step: OnStep) -> Record:
        """Return a function that calls ``on_step`` with each step of the ledger and stores the first error of
        ``on_step``, with which the run then ends.

        The ledger itself would only log the error.
        """

        def record(
            at: float, events: Sequence[Event], effects: Sequence[Effect], snapshot: Snapshot, error: str
        ) -> None:
            try:
                on_step(SimulatedStep(at, snapshot, tuple(events), tuple(effects)), self.cluster.world)
            except Exception as failure:
                self._failure = self._failure or failure
                self._stirred.set()

        return record

    async def inject(self, faults: Iterable[Fault]) -> None:
        """Wait for the time of each fault and apply it to the world. A fault is a pair (seconds after the start,
        function of the world).
        """
        for at, fault in sorted(faults, key=lambda one: one[0]):
            await self.cluster.clock.sleep(START + at - self.cluster.clock.now())
            self.cluster.bridge.do(partial(_done, fault))

    def _observe(self, now: float, changes: list[WorldChange]) -> None:
        """Store changes of the world until they are measured; all changes of one moment are measured together."""
        self._unseen += changes
        self._stirred.set()

    async def _measure(self) -> None:
        """Measure until every job has ended; end each job that holds pods without computing for longer than
        ``patience`` seconds.
        """
        while not self.cluster.all_ended:
            due = min((since + self._patience for since in self._stalls().values()), default=math.inf)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due if due < math.inf else None):
                    await self._stirred.wait()
            self._stirred.clear()
            if self._failure is not None:
                raise self._failure
            self._look()
            self._end_stalled()

    def _look(self) -> None:
        changes, self._unseen = self._unseen, []
        self._meter.run_to(self.cluster.world.now)
        self._meter.look(changes)

    def _stalls(self) -> dict[str, float]:
        """Return a mapping from each stalled job's UID to the time since which it holds pods without computing."""
        if self._patience == math.inf:
            return {}
        found = {uid: self._meter.stalled_since(uid) for uid in self.cluster.world.store.jobs}
        return {uid: since for uid, since in found.items() if since is not None}

    def _end_stalled(self) -> None:
        for uid, since in self._stalls().items():
            job = self.cluster.world.store.jobs[uid].spec
            if since + self._patience <= self.cluster.clock.now():
                self.cluster.bridge.do(partial(SimulatedWorld.fail_job, namespace=job.namespace, name=job.name))


def _done(fault: Callable[[SimulatedWorld], object], world: SimulatedWorld) -> None:
    """Apply the fault to the world, and discard what the fault's function returns."""
    fault(world)


async def _nobody(url: str, body: bytes) -> tuple[int, bytes]:
    raise ConnectionRefusedError(f"{url}: no extender listens there in this simulated run")

"""The processes of a replica (extender, controller, kube-scheduler), which can be killed, paused and restarted.

A killed process has no further effect: its connection is cut before its tasks are cancelled, so that their clean-up
changes nothing outside.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from extender import app
from extender.access.visibility import ANYBODY_HERE
from extender.config.settings import Settings
from extender.control.controller import Controller
from extender.control.extenderrest import ExtenderError
from extender.kube.api import QUOTAS
from extender.leading.lease import EVERYBODY, Lease
from extender.present.views.refused import RefusedWritesBody
from extender.routes.progress import Progress
from extender.routes.refused import take_in
from extender.routes.rest import Rest
from extender.routes.restparameters import DecisionsParameters
from lab.embedded.apiserver import ApiServer
from lab.embedded.config import SchedulerConfig
from lab.embedded.embeddedapi import EmbeddedApi
from lab.embedded.embeddedscheduler import EmbeddedScheduler
from lab.embedded.volumes import Volumes
from lab.virtual.clocks import loop_time, sleep
from lab.virtual.service import DESIRED, call_desired, call_verb
from tests.simulation.clocks import ProcessClock
from tests.simulation.election import Elector
from tests.simulation.faults import ANY, DrawnFault, FaultSource, RunLog
from tests.simulation.network import ApiLine, Crash, Wire, WriteWatcher, forever
from tests.simulation.training import PodTokens


class Surroundings:
    """The objects that all processes of a run share, such as the API server and the faults."""

    def __init__(
        self, seed: int, server: ApiServer, settings: Settings, faults: FaultSource, run_log: RunLog,
        watcher: WriteWatcher, crash: Crash,
    ) -> None:  # fmt: skip
        self.seed = seed
        self.server = server
        self.settings = settings
        self.faults = faults
        self.run_log = run_log
        self.watcher = watcher
        self.crash = crash
        self.volumes = Volumes()
        self.failures: list[str] = []  # a sentence for each process that ended although it was not killed

    def settings_of(self, replica: str) -> Settings:
        """Return the settings of that replica; if a Lease decides who leads, the settings have the name of the
        replica's pod as its identity.
        """
        lease = self.settings.lease
        if lease.identity == EVERYBODY:
            return self.settings
        return self.settings.model_copy(update={"lease": lease.model_copy(update={"identity": replica})})


class SimulatedProcess:
    """One process: its connection to the API server, its clock, its task.

    ``replica`` is the pod to which the process belongs; the process cannot reach a Lease before ``blocked_until``.
    """

    def __init__(self, role: str, replica: str, around: Surroundings) -> None:
        self.role = role
        self.replica = replica
        self.name = f"{role} of {replica}"
        self.around = around
        self.settings = around.settings_of(replica)
        self.incarnation = 0
        self.down_since: float | None = None
        self.restart_seconds: tuple[float, float] = (0.5, 4.0)
        self.offset = 0.0
        self.blocked_until = 0.0
        self._task: asyncio.Task[None] | None = None
        self._again: asyncio.TimerHandle | None = None

    @property
    def up(self) -> bool:
        return self._task is not None

    def start(self) -> None:
        """Start the process again as a new incarnation, with no state; nothing happens if it runs."""
        if self.up:
            return
        self.incarnation += 1
        self.clock = ProcessClock()
        self.clock.offset = self.offset
        around = self.around
        die = self._death_of(self.incarnation)
        self.line = ApiLine(
            self.role, around.server, self.clock, around.faults, around.watcher, around.crash, die, self.replica
        )
        self.line.reaches_lease = lambda: loop_time() >= self.blocked_until
        self.chance = random.Random(f"{self.name} {around.seed} {self.incarnation}")
        self._task = asyncio.get_running_loop().create_task(self._run(self._make()))
        around.run_log.add(f"{self.name} starts, incarnation {self.incarnation}")

    def _death_of(self, incarnation: int) -> Callable[[DrawnFault], None]:
        return lambda fault: self.kill(fault) if self.incarnation == incarnation else None

    async def _run(self, part: Coroutine[Any, Any, None]) -> None:
        incarnation = self.incarnation
        try:
            await part
            why = "it ended"
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # Any error of the process is recorded, so that the simulation can report it.
            why = "; ".join(_causes(error))
        if self.incarnation == incarnation and not self.line.dead:
            self.around.failures.append(f"{self.name} (incarnation {incarnation}): {why}")
            self._task = None

    def kill(self, fault: DrawnFault | None = None, *, restart: bool = True, reason: str = "") -> None:
        """Kill the process. Unless ``restart`` is False, it starts again after a delay, which the fault may give."""
        if self._task is None:
            return
        self.around.run_log.add(f"{self.name} is killed {reason}".rstrip())
        self.line.dead = True
        self._dies()
        self._task.cancel()
        self._task = None
        self.down_since = loop_time()
        if restart:
            drawn = self.around.faults.chance.uniform(*self.restart_seconds)
            self.restart_in(fault.draw(f"{self.role} down", lambda _: drawn) if fault is not None else drawn)

    def restart_in(self, seconds: float) -> None:
        if self._again is not None:
            self._again.cancel()
        self._again = asyncio.get_running_loop().call_later(seconds, self.start)

    def jump(self, seconds: float) -> None:
        """Set the wall clock of this process's machine."""
        self.offset = seconds
        if self.up:
            self.clock.offset = seconds

    def _make(self) -> Coroutine[Any, Any, None]:
        raise NotImplementedError

    def _dies(self) -> None:
        """End what other processes have open with this process, such as bind calls that it is answering."""


def _causes(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [cause for inner in error.exceptions for cause in _causes(inner)]
    chain = [f"{type(error).__name__}: {error}"]
    return chain + (_causes(error.__cause__) if error.__cause__ is not None else [])


class ExtenderProcess(SimulatedProcess):
    """`kohort serve`: the whole `app.Live`, with verbs and REST called in process."""

    live: app.Live
    rest: Rest
    progress: Progress

    def __init__(
        self, replica: str, around: Surroundings, stepped: Callable[[ExtenderProcess, tuple[Any, ...]], None]
    ) -> None:
        super().__init__("extender", replica, around)
        self._stepped = stepped
        self._calls: dict[asyncio.Task[Any], None] = {}
        # pod's UID -> the nodes of the pod's bind calls that are being answered
        self.binding: dict[str, list[str]] = {}

    def _make(self) -> Coroutine[Any, Any, None]:
        self.live = app.Live(self.settings, self.line, self.clock, self.chance)
        for reflector in self.live.reflectors:
            # The reflector of quotas has its own random numbers, so that the random numbers of older seeds stay as they
            # were.
            if reflector.resource == QUOTAS:
                reflector._chance = random.Random(f"quotas of {self.name} {self.incarnation}")
        self.live.ledger.carry_with(lambda effects: self._stepped(self, effects))
        self.live.ledger.record_with(lambda at, events, *_: self.around.watcher.taken(self.name, events))
        self.rest = Rest(self.live.ledger, lambda: self.settings, self.live.metrics)
        self.progress = Progress(self.live.ledger, PodTokens(), self.settings.progress)
        self.rest.instance = f"{self.replica}-{self.incarnation}"
        self.binding = {}
        return self.live.run()

    @property
    def listens(self) -> bool:
        return self.up

    @property
    def ready(self) -> bool:
        return self.up and self.live.ledger.snapshot.synced

    @property
    def leads(self) -> bool:
        """Tell whether this process's ledger decides now."""
        return self.ready and self.live.ledger.snapshot.leading

    @property
    def elected(self) -> bool:
        """Tell whether this process believes that it holds the Lease."""
        return self.up and self.live.lease.leading()

    def _dies(self) -> None:
        for call in list(self._calls):
            call.cancel()

    def call(self, part: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a coroutine as a task that is cancelled when this process ends, and return the task."""
        task = asyncio.get_running_loop().create_task(part)
        self._calls[task] = None
        task.add_done_callback(self._calls.pop)
        return task

    def serve(self, verb: str, body: bytes, hung_up: asyncio.Event, delay: float) -> asyncio.Task[bytes]:
        """Answer one verb; the request arrives after ``delay`` seconds, and ``hung_up`` is set when the caller gives
        up.
        """
        return self.call(self._answer(verb, body, hung_up, delay, self.live, self.clock))

    async def reported(self, request: Request) -> int:
        """Pass a training report to the extender; return the HTTP status (200 asks for a checkpoint), or 0 if the
        process ends first.
        """
        await self.clock.awake()
        if not self.up:
            return 0
        asked = self.call(self.progress.take(request))
        await asyncio.wait([asked])
        return 0 if asked.cancelled() else int(asked.result().status_code)

    async def _answer(
        self, verb: str, body: bytes, hung_up: asyncio.Event, delay: float, live: app.Live, clock: ProcessClock
    ) -> bytes:
        if delay:
            await sleep(delay)
        await clock.awake()

        async def gone() -> None:
            await hung_up.wait()
            await clock.awake()

        answer = await call_verb(live.verbs, verb, body, gone)
        await clock.awake()
        return answer


class ControllerProcess(SimulatedProcess):
    """`kohort controller`, which calls the extender's REST in process."""

    def __init__(self, around: Surroundings, extender: ExtenderProcess) -> None:
        super().__init__("controller", extender.replica, around)
        self._extender = extender
        self.looks = 0  # number of requests for the desired state that were answered
        self.restart_seconds = (0.5, 8.0)

    def _make(self) -> Coroutine[Any, Any, None]:
        self.lease = Lease(self.line, self.settings.lease, self.clock)
        controller = Controller(
            self.line, self._fetch, self._tell, self.settings, self.clock, self.lease, chance=self.chance
        )  # fmt: skip
        return self._both(controller)

    async def _both(self, controller: Controller) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.lease.run(controller.led))
            tasks.create_task(controller.run())

    async def _fetch(self, path: str, query: Mapping[str, str], seconds: float) -> bytes:
        await self.clock.awake()
        if self.line.dead:
            await forever()
        asks = f"{self.name}: ask {path}{ANY}"
        fault = self.around.faults.fault_at([asks], "desired-lost", "desired-late", chance=self.chance)
        await sleep(self.chance.uniform(0.0002, 0.002))
        extender = self._extender
        if not extender.listens or fault.kind == "desired-lost":
            raise ExtenderError("ConnectError")
        asking = extender.call(self._asked(extender, path, query))
        done, _ = await asyncio.wait([asking], timeout=seconds)
        if fault.kind == "desired-late":
            await sleep(fault.uniform("late", 0.5, 4.0))
        await self.clock.awake()
        if not done or asking.cancelled():
            asking.cancel()
            raise ExtenderError("ReadError")
        self.looks += path == DESIRED
        return bytes(asking.result())

    async def _tell(self, path: str, body: bytes, seconds: float) -> None:
        """Send the list of refused writes to the extender; the request may be lost or late."""
        await self.clock.awake()
        if self.line.dead:
            await forever()
        asks = f"{self.name}: tell {path}{ANY}"
        fault = self.around.faults.fault_at([asks], "desired-lost", "desired-late", chance=self.chance)
        late = fault.kind == "desired-late"
        await sleep(fault.uniform("late", 0.5, 4.0) if late else self.chance.uniform(0.0002, 0.002))
        if not self._extender.listens or fault.kind == "desired-lost":
            raise ExtenderError("ConnectError")
        await self._extender.clock.awake()
        take_in(self._extender.live.ledger, RefusedWritesBody.model_validate_json(body))

    async def _asked(self, extender: ExtenderProcess, path: str, query: Mapping[str, str]) -> bytes:
        await extender.clock.awake()
        if path == DESIRED:
            found = await call_desired(extender.rest, query)
            await extender.clock.awake()
            return found
        if path != "/v1/decisions":
            # The answer may be empty, because only Events show the queue with its reasons, and nothing reads Events
            # here.
            return b""
        told = await extender.rest.decisions(DecisionsParameters.model_validate(dict(query)), ANYBODY_HERE)
        return bytes(told.body)


class _Scheduler(EmbeddedScheduler):
    """The embedded scheduler, which may need a Lease."""

    async def run_elected(self, elector: Elector | None) -> None:
        """Watch the cluster, and schedule once this candidate is elected; return when the Lease is lost."""
        watching = [asyncio.ensure_future(part) for part in (self._informer.run(), self.queue.flush())]
        try:
            if elector is None:
                await self._loop()
                return
            await elector.acquire()
            watching.append(asyncio.ensure_future(self._loop()))
            await elector.hold()
        finally:
            for task in watching:
                task.cancel()


class IndependentScheduler:
    """Another kube-scheduler of the cluster; it does not call Kohort, and no fault hits it."""

    def __init__(self, around: Surroundings, config: SchedulerConfig, clock: ProcessClock) -> None:
        chance = random.Random(f"independent scheduler {around.seed}")
        self._scheduler = _Scheduler(config, EmbeddedApi(around.server, clock), clock, chance, around.volumes)

    async def run(self) -> None:
        """Schedule until cancelled."""
        await self._scheduler.run_elected(None)


class SchedulerProcess(SimulatedProcess):
    """The kube-scheduler that calls Kohort; ``service`` returns the extender that a new call reaches."""

    def __init__(
        self, around: Surroundings, replica: str, config: SchedulerConfig, service: Callable[[], ExtenderProcess]
    ) -> None:
        super().__init__("scheduler", replica, around)
        self._service = service
        self._config = config
        self.restart_seconds = (1.0, 6.0)

    @property
    def leased(self) -> bool:
        """Tell whether this kube-scheduler must hold a Lease before it schedules."""
        return self.settings.lease.identity != EVERYBODY

    @property
    def leads(self) -> bool:
        """Tell whether this kube-scheduler believes that it holds the Lease."""
        return self.up and (self.elector is None or self.elector.leads)

    def _make(self) -> Coroutine[Any, Any, None]:
        self.scheduler = _Scheduler(self._config, self.line, self.clock, self.chance, self.around.volumes)
        self.wire = Wire(self.name, self._service, self.around.faults, self.clock)
        self.scheduler.connect(self.wire.send)
        self.elector = Elector(self) if self.leased else None
        return self._until_unelected(self.scheduler, self.elector)

    async def _until_unelected(self, scheduler: _Scheduler, elector: Elector | None) -> None:
        await scheduler.run_elected(elector)
        self.kill(reason="by itself: the Lease is lost")

    def _dies(self) -> None:
        self.wire.dead = True
        for task in sorted(self.scheduler._binds, key=_age):
            task.cancel()


def _age(task: asyncio.Task[Any]) -> int:
    """Return the task's number in the order of creation, by which a set of tasks can be sorted."""
    return int(task.get_name().rpartition("-")[2])


@dataclass(frozen=True, slots=True)
class Replica:
    """One pod of Kohort: extender, controller and kube-scheduler.

    If the extenders elect their leader, the pod has no kube-scheduler; the replica then uses one of the cluster's own.
    """

    name: str
    extender: ExtenderProcess
    controller: ControllerProcess
    scheduler: SchedulerProcess

    @property
    def processes(self) -> tuple[SimulatedProcess, ...]:
        """Return the replica's three processes, whether or not kube-scheduler is in its pod."""
        return self.extender, self.controller, self.scheduler

    @property
    def elects(self) -> bool:
        """Tell whether the extenders, and not the kube-schedulers, compete for the Lease."""
        return self.extender.settings.lease.elect

    @property
    def pod(self) -> tuple[SimulatedProcess, ...]:
        """Return the processes that are killed or paused together when the pod's node is."""
        return self.processes[:2] if self.elects else self.processes

    @property
    def candidate(self) -> SimulatedProcess:
        """Return the process that competes for the Lease by which this replica leads."""
        return self.extender if self.elects else self.scheduler

    @property
    def leads(self) -> bool:
        """Tell whether the process that competes for the Lease believes that it holds it."""
        return self.extender.elected if self.elects else self.scheduler.leads

"""Run a trace pod by pod: the world, a kube-scheduler and optionally Kohort, in one virtual time.

``simulate`` runs Kohort with a policy, ``pod_by_pod`` the default kube-scheduler alone. Both return a RunResult, and
depend only on their arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from lab.sim.engine import Engine
from lab.sim.objects import KOHORT, JobSpec, WorldChange
from lab.sim.pods.plain import PlainChooser
from lab.sim.pods.podmeter import PodMeter
from lab.sim.pods.simulatedscheduler import KubeScheduler, SchedulerSettings
from lab.sim.pods.simulatedservice import Delays, ServiceSettings, SimulatedService, SimulatedStep
from lab.sim.pods.world import SimulatedWorld
from lab.sim.pods.worldcore import WorldSettings
from lab.sim.report import RunResult
from lab.sim.traces import DEFAULT_SCHEDULER, Trace, rigid
from policy.systems.base import Policy
from policy.systems.baselines import Retry

HORIZON = 6 * 3600.0
START = 1_000_000.0  # seconds since the epoch; an arbitrary time, on which no result may depend


class ApiWatcher(Protocol):
    """A component that watches the API."""

    def watch(self, changes: Iterable[WorldChange]) -> None:
        """Process these changes."""
        ...


OnStep = Callable[[SimulatedStep, SimulatedWorld], None]
Fault = tuple[float, Callable[[SimulatedWorld], object]]


def simulate(
    trace: Trace,
    policy: Policy,
    settings: ServiceSettings | None = None,
    *,
    world: WorldSettings | None = None,
    scheduler: SchedulerSettings | None = None,
    horizon: float = HORIZON,
    patience: float | None = None,
    faults: Iterable[Fault] = (),
    on_step: OnStep | None = None,
) -> RunResult:
    """Run the trace under Kohort with that policy.

    ``on_step`` is called with every step and the world at that time. ``patience``: a job that holds pods for so many
    seconds without computing is ended, and counts with that time. KOD2 does not say what ends a deadlocked job, and the
    answer decides the comparison, so it is an argument. ``faults`` are (seconds after the start, function of the
    world).
    """
    settings = settings or ServiceSettings()
    run = PodRun(trace, world or WorldSettings(), horizon, settings.delays.watch_seconds, patience)
    service = SimulatedService(
        run.world, run.engine, policy, settings, lambda s: on_step(s, run.world) if on_step else None
    )
    loop = KubeScheduler(run.world, run.engine, service, KOHORT, scheduler or SchedulerSettings(), lambda pods: pods)
    service.scheduler = loop
    run.watchers += [service, loop]
    run.schedule_faults(faults)
    return run.until_done(policy.name)


def pod_by_pod(
    trace: Trace,
    seed: int,
    retry: Retry = Retry.RANDOM,
    *,
    world: WorldSettings | None = None,
    scheduler: SchedulerSettings | None = None,
    horizon: float = HORIZON,
    patience: float | None = None,
) -> RunResult:
    """Run the trace under the default kube-scheduler: no gangs, no Kohort, every job at the size that it asks for."""
    run = PodRun(rigid(trace), world or WorldSettings(), horizon, Delays().watch_seconds, patience)
    plain = PlainChooser(run.world, run.engine, seed, Delays().bind_seconds)
    pace = scheduler or SchedulerSettings(backoff_initial_seconds=0.0, backoff_max_seconds=0.0)
    loop = KubeScheduler(run.world, run.engine, plain, DEFAULT_SCHEDULER, pace, plain.order(retry))
    plain.scheduler = loop
    run.watchers.append(loop)
    return run.until_done(DEFAULT_SCHEDULER)


class PodRun:
    """One run: at each instant the world's events come first, then those of all other components."""

    def __init__(
        self, trace: Trace, settings: WorldSettings, horizon: float, watch_seconds: float, patience: float | None = None
    ) -> None:
        self.world = SimulatedWorld(settings, now=START)
        self.engine: Engine[Callable[[], object]] = Engine()
        self.watchers: list[ApiWatcher] = []
        self._to_come, self._horizon, self._patience = len(trace.jobs), horizon, patience
        self._stalls: dict[str, float] = {}
        self._watch_seconds = watch_seconds
        self._meter = PodMeter(self.world)
        self._seen = self._delivered = 0
        self._delivering = False
        for node in trace.nodes:
            self.world.add_node(node)
        for job in trace.jobs:
            self.engine.schedule(START + job.arrival, partial(self._submit, job))

    def until_done(self, policy: str) -> RunResult:
        """Run until every job has ended, or until the horizon; return the result, under the name ``policy``."""
        stop = START + self._horizon
        self._look()
        while not self._done() and (at := self._next_time()) <= stop:
            self._meter.run_to(at)
            self.world.advance(at)
            self._look()
            for _, do in self.engine.due(at):
                do()
            self._look()
        if not self._done():
            self._meter.run_to(stop)
        return self._meter.result(policy, self._horizon)

    def schedule_faults(self, faults: Iterable[Fault]) -> None:
        """Schedule faults, each as (seconds after the start, function of the world)."""
        for at, apply in faults:
            self.engine.schedule(START + at, partial(apply, self.world))

    def _submit(self, job: JobSpec) -> None:
        self._to_come -= 1
        self.world.submit(job)

    def _done(self) -> bool:
        return not self._to_come and all(job.phase.ended for job in self.world.store.jobs.values())

    def _next_time(self) -> float:
        times = [at for at in (self.world.next_time(), self.engine.next_time()) if at is not None]
        return min(times, default=float("inf"))

    def _look(self) -> None:
        """Measure the changes, and deliver them to the watchers a moment later."""
        changes = self.world.changes(self._seen) or []
        if not changes:
            return
        self._seen = self.world.revision
        self._meter.look(changes)
        self._watch_patience()
        if not self._delivering:
            self._delivering = True
            self.engine.schedule(self.world.now + self._watch_seconds, self._deliver)

    def _deliver(self) -> None:
        self._delivering = False
        changes = self.world.changes(self._delivered) or []
        self._delivered = self.world.revision
        self.world.compact(min(self._seen, self._delivered))
        for watcher in self.watchers:
            watcher.watch(changes)

    def _watch_patience(self) -> None:
        if self._patience is None:
            return
        for uid in self.world.store.jobs:
            since = self._meter.stalled_since(uid)
            if since is not None and self._stalls.get(uid) != since:
                self._stalls[uid] = since
                self.engine.schedule(since + self._patience, partial(self._lose, uid, since))

    def _lose(self, uid: str, since: float) -> None:
        job = self.world.store.jobs[uid]
        if self._meter.stalled_since(uid) == since:
            self.world.fail_job(job.spec.namespace, job.spec.name)

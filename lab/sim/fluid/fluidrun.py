"""Run a trace job by job: the live ``step``, with gangs that are created, bound and ended whole.

A step's decisions become facts at the same instant: pods are created, bound as planned and deleted at once. Only the
training takes time: start-up, pauses for a change, and the work itself. A run depends only on its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

from lab.sim.engine import START, Engine
from lab.sim.fluid import faults as faultkinds
from lab.sim.fluid.flow import Activity, Do, Flow
from lab.sim.fluid.fluidcluster import FluidCluster
from lab.sim.fluid.fluidmeter import FluidMeter
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.objects import JobSpec
from lab.sim.report import RunResult
from lab.sim.simulatedstep import SimulatedStep
from lab.sim.traces import Trace
from lab.sim.utilityslots import slot_of
from policy.cluster.actions import Admit, Effect, Migrate, Reject, Released, Resize
from policy.cluster.events import Event, NodeSeen, Reported, Synced, Tick
from policy.cluster.gang import Gang
from policy.cluster.job import WORKER
from policy.cluster.snapshot import Snapshot
from policy.step import step
from policy.systems.base import Policy

# A step may come this many seconds before the time that the policy names, because that time may have been rounded up.
EARLY = 1e-6
ROUNDS = 1000  # More steps than this at one instant mean that the policy decides without end.


class RestlessError(RuntimeError):
    """The policy keeps deciding at one instant without end, which is a defect of the policy."""


def simulate(
    trace: Trace,
    policy: Policy,
    settings: FluidSettings | None = None,
    *,
    faults: Iterable[tuple[float, faultkinds.Fault]] = (),
    on_step: Callable[[SimulatedStep], None] | None = None,
) -> RunResult:
    """Run the trace under the policy, and return the result; ``faults`` are (seconds after the start, fault).

    ``on_step`` is called with every step. Raises ValueError if two jobs of the trace have the same name, or if a fault
    names a node or job that the trace does not have.
    """
    run = FluidRun(trace, policy, settings or FluidSettings(), on_step)
    for at, what in faults:
        run.schedule_fault(at, what)
    return run.until_done()


class FluidRun:
    """One run of the simulator.

    At each instant the events are collected, and steps are made until no further events follow from them.
    """

    def __init__(
        self, trace: Trace, policy: Policy, settings: FluidSettings, on_step: Callable[[SimulatedStep], None] | None
    ) -> None:
        self._policy, self._settings, self._on_step = policy, settings, on_step
        self._now = START
        self._quiet_seconds = max(settings.quiet_seconds, policy.base.ahead_seconds)
        self._snapshot = Snapshot(rules=settings.rules)
        self._cluster = FluidCluster(trace)
        self._events: Engine[Do] = Engine()  # the queue of events that change the simulated cluster, such as arrivals
        self._clock: Engine[Do] = Engine()  # the queue of ticks, deadlines and reports, which only cause a step
        self._flow = Flow(settings, self._events, self._finish)
        self._meter = FluidMeter(trace, START, settings.speeds, slot_of(settings.slot_seconds, trace, policy))
        self._uids = _uids(trace)
        self._to_come = len(trace.jobs)
        self._inbox: list[Event] = []
        # Facts about job objects that were deleted at this instant; the step sees them one batch after the facts about
        # their pods.
        self._ended: list[Event] = []
        self._forgotten: list[Event] = []  # facts about deleted job objects that the next step sees
        # Jobs whose pods a later step may change although none of its effects names them, such as jobs whose plan waits
        # for room.
        self._open: set[str] = set()
        self._named: set[str] = set()  # jobs whose deadlines may have changed at this instant
        self._stalls: dict[str, float] = {}
        self._stepped = self._happened = START
        self._due = START + settings.tick_seconds  # when the next tick is due
        self._ticks_at: tuple[float, int] | None = None  # the time and the ticket of the timer for the next tick
        self._quiet = False  # whether the last step had no effects, so that the next tick may be skipped
        self._post([*(NodeSeen(node) for node in trace.nodes), Synced()])
        self._events.schedule(START, lambda: None)
        for spec in trace.jobs:
            self._events.schedule(START + spec.arrival, partial(self._arrive, spec))
        if settings.report_seconds is not None:
            self._clock.schedule(START + settings.report_seconds, partial(self._report, settings.report_seconds))
        self._await_moment()

    def schedule_fault(self, seconds: float, fault: faultkinds.Fault) -> None:
        """Schedule a fault. Raises ValueError if it names a node or job that the trace does not have."""
        faultkinds.check(fault, self._cluster.known, self._uids)
        self._events.schedule(START + seconds, partial(self._apply_fault, fault))

    def until_done(self) -> RunResult:
        """Run until all jobs have ended, until the horizon, or until only ticks have happened for ``quiet_seconds``."""
        stop = START + self._settings.horizon
        while not self._done() and (at := self._next_time()) is not None and at <= stop:
            self._now = at
            for engine in (self._events, self._clock):
                for _, do in engine.due(at):
                    do()
            self._settle()
        if self._done():
            return self._result(self._now)
        stuck = self._happened + self._quiet_seconds if self._events.next_time() is None else math.inf
        return self._result(min(stop, stuck))

    def _done(self) -> bool:
        return not (self._to_come or self._cluster.jobs)

    def _next_time(self) -> float | None:
        """Return the next instant; None if only ticks and reports are left, and have been for ``quiet_seconds``."""
        happens, looks = self._events.next_time(), self._clock.next_time()
        if happens is None and (looks is None or looks > self._happened + self._quiet_seconds):
            return None
        return min(at for at in (happens, looks) if at is not None)

    def _result(self, end: float) -> RunResult:
        for uid, work in sorted(self._flow.works.items()):
            work.advance(end)
            self._meter.end(uid, work, end)
        self._meter.run_to(end)
        return self._meter.result(self._policy.name, end)

    # -- The methods below handle the events of the simulation. ------------------------------------

    def _arrive(self, spec: JobSpec) -> None:
        uid = self._uids[spec.name]
        self._to_come -= 1
        self._flow.enter(uid, spec, self._now)
        self._post(self._cluster.arrive(uid, spec, self._now))

    def _finish(self, uid: str) -> None:
        self._end(uid, finished=True)

    def _lose_patience(self, uid: str, since: float) -> None:
        if self._stalls.get(uid) == since:
            self._end(uid, terminated=True)

    def _end(self, uid: str, **how: bool) -> None:
        """End the job; ``how`` is finished, terminated or rejected."""
        seen, later = self._cluster.end(uid)
        self._post(seen)
        self._ended += later
        self._stalls.pop(uid, None)
        self._meter.end(uid, self._flow.leave(uid, self._now), self._now, **how)

    def _apply_fault(self, fault: faultkinds.Fault) -> None:
        if isinstance(fault, faultkinds.JobDeleted):
            uid = self._uids[fault.job]
            if uid in self._cluster.jobs:
                self._end(uid, terminated=True)
            return
        self._post(self._cluster.apply_fault(fault, self._uids))
        self._open |= self._cluster.moved

    # -- The methods below handle what time alone causes. ------------------------------------------

    def _tick(self) -> None:
        """Post a tick if no step was made for ``tick_seconds``; each step restarts the timer, as in the live service.

        Ticks are skipped up to the next moment at which the policy says that a tick may change something.
        """
        self._ticks_at = None
        quiet = self._due <= self._now and self._quiet
        change = self._policy.next_change(self._snapshot, self._stepped) if quiet else None
        if change is not None:
            tick = self._settings.tick_seconds
            ticks = (change - EARLY - self._stepped) / tick
            self._due = self._stepped + tick * max(1, math.ceil(ticks)) if ticks < math.inf else ticks
        if self._due <= self._now:
            self._inbox.append(Tick())

    def _await_moment(self) -> None:
        """Schedule a step for the policy's next moment (``next_moment``), regardless of ticks."""
        at = self._policy.next_moment(self._now)
        if at < math.inf:
            self._clock.schedule(at, self._keep_moment)

    def _keep_moment(self) -> None:
        self._inbox.append(Tick())
        self._await_moment()

    def _set_timer(self) -> None:
        if self._ticks_at is not None and self._ticks_at[0] <= self._due:
            return
        if self._ticks_at is not None:
            self._clock.cancel(self._ticks_at[1])
        self._ticks_at = (self._due, self._clock.schedule(self._due, self._tick)) if self._due < math.inf else None

    def _report(self, seconds: float) -> None:
        self._inbox += [Reported(uid, self._flow.report(uid, self._now)) for uid in self._flow.computing()]
        self._clock.schedule(self._now + seconds, partial(self._report, seconds))

    def _alarm(self, uid: str, at: float) -> None:
        """Post a tick when the gang's deadline is over, unless the gang has another deadline by then."""
        if at in _deadlines(self._snapshot.gang(uid)):
            self._inbox.append(Tick())
            self._open.add(uid)

    # -- The methods below make steps and follow their effects. ------------------------------------

    def _post(self, events: Iterable[Event]) -> None:
        found = list(events)
        self._inbox += found
        self._meter.run_to(self._now)
        self._meter.take(found)
        self._happened = self._now

    def _settle(self) -> None:
        """Make steps at the present instant until no further events follow; then let the jobs' work go on at the new
        rates.
        """
        for _ in range(ROUNDS):
            if not self._inbox:
                break
            self._step()
        else:
            made = f"{ROUNDS} steps at {self._now - START:g} s, and {self._inbox[-1]} still to come"
            raise RestlessError(f"the policy {self._policy.name} comes to no end: {made}")
        for uid in sorted(self._cluster.moved & self._cluster.jobs.keys()):
            members = self._cluster.jobs[uid]
            self._flow.lay_out(uid, members.running(self._cluster.nodes), members.bound, self._now)
            self._watch_patience(uid)
        self._cluster.moved.clear()
        for uid in sorted(self._flow.settle(self._now, self._cluster.nodes)):
            self._meter.run_to(self._now)
            self._meter.look(uid, self._flow.works.get(uid))
        self._set_alarms()
        self._set_timer()

    def _step(self) -> None:
        events = (*self._forgotten, *self._inbox)
        self._inbox, self._ended, self._forgotten = [], [], self._ended
        self._snapshot, effects = step(self._snapshot, events, self._policy, self._now)
        self._stepped, self._quiet = self._now, not effects
        self._due = self._now + self._settings.tick_seconds
        if self._on_step is not None:
            self._on_step(SimulatedStep(self._now, self._snapshot, events, effects))
        self._follow({uid for effect in effects if (uid := self._record_effect(effect))} | self._open)

    def _record_effect(self, effect: Effect) -> str:
        """Record the effect in the measurements; return the UID of the job whose pods it changes, or "" if there is
        none.
        """
        match effect:
            case Admit(job_uid=uid, workers=workers) | Resize(job_uid=uid, workers=workers):
                if uid in self._flow.works:
                    self._meter.given(uid, workers, self._flow.works[uid])
                return uid
            case Migrate(job_uid=uid):
                self._meter.moved(uid)
                self._flow.move(uid)
                return uid
            case Released(job_uid=uid):
                return uid
            case Reject(job_uid=uid) if uid in self._cluster.jobs:
                self._end(uid, rejected=True)
                return ""
            case _:
                return ""

    def _follow(self, uids: set[str]) -> None:
        events = self._cluster.follow(self._snapshot, uids, self._now)
        if events:
            self._post(events)
        self._named |= uids
        for uid in uids:
            members = self._cluster.jobs.get(uid)
            unfinished = members is not None and members.unfinished(self._snapshot.gang(uid))
            (self._open.add if unfinished else self._open.discard)(uid)

    def _set_alarms(self) -> None:
        for uid in sorted(self._named):
            for at in _deadlines(self._snapshot.gang(uid)):
                if at > self._now:
                    self._clock.schedule(at, partial(self._alarm, uid, at))
        self._named.clear()

    def _watch_patience(self, uid: str) -> None:
        patience = self._settings.patience
        stalled = bool(self._cluster.jobs[uid].bound) and self._flow.works[uid].doing is Activity.WAITING
        if not stalled:
            self._stalls.pop(uid, None)
        elif patience is not None and uid not in self._stalls:
            self._stalls[uid] = self._now
            self._events.schedule(self._now + patience, partial(self._lose_patience, uid, self._now))


def _deadlines(gang: Gang) -> list[float]:
    return [at for at in gang.moments if at]


def _uids(trace: Trace) -> dict[str, str]:
    """Return UIDs by job name, in the order of the trace. Raises ValueError for a repeated name or no worker role."""
    uids: dict[str, str] = {}
    for number, spec in enumerate(trace.jobs):
        if spec.name in uids:
            raise ValueError(f"jobs: the name {spec.name!r} occurs twice, but must be unique")
        if spec.role(WORKER) is None:
            raise ValueError(f"jobs: {spec.name} has no role {WORKER!r}; give it one")
        uids[spec.name] = f"job-{number:06d}"
    return uids

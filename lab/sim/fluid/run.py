"""The job-level simulator: the very same ``step``, and gangs that are created, bound and ended whole.

What a step decides becomes facts of the same instant: pods are made, bound as planned and deleted at once; what takes
time is the training (start-up, the pauses for a change, the work itself). A run is a function of its arguments alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

from lab.sim.engine import Engine
from lab.sim.fluid import faults as befalls
from lab.sim.fluid.cluster import Cluster
from lab.sim.fluid.flow import Do, Doing, Flow
from lab.sim.fluid.meter import Meter
from lab.sim.fluid.settings import FluidSettings
from lab.sim.objects import JobSpec
from lab.sim.pods.run import START
from lab.sim.pods.service import Step
from lab.sim.report import Result
from lab.sim.slots import slot_of
from lab.sim.traces import Trace
from policy.cluster.actions import Admit, Effect, Migrate, Reject, Released, Resize
from policy.cluster.events import Event, NodeSeen, Reported, Synced, Tick
from policy.cluster.gang import Gang
from policy.cluster.model import WORKER
from policy.cluster.snapshot import Snapshot
from policy.step import step
from policy.systems.base import Foresees, Policy, ahead_seconds, next_moment

EARLY = 1e-6  # seconds: a moment that the policy names may have been rounded up
ROUNDS = 1000  # steps of one instant: a policy that wants more will never be content


class RestlessError(RuntimeError):
    """The policy changes its mind for ever in one instant: a defect of the policy."""


def simulate(
    trace: Trace,
    policy: Policy,
    settings: FluidSettings | None = None,
    *,
    faults: Iterable[tuple[float, befalls.Fault]] = (),
    on_step: Callable[[Step], None] | None = None,
) -> Result:
    """Run the trace under the policy. ``on_step`` sees every step; ``faults``: (seconds after the start, what).

    Raises ValueError where two jobs of the trace have one name, or a fault names what the trace does not have.
    """
    run = Run(trace, policy, settings or FluidSettings(), on_step)
    for at, what in faults:
        run.let_happen(at, what)
    return run.until_done()


class Run:
    """One run. What happens at one instant is gathered; then steps are made until nothing more follows."""

    def __init__(
        self, trace: Trace, policy: Policy, settings: FluidSettings, on_step: Callable[[Step], None] | None
    ) -> None:
        self._policy, self._settings, self._on_step = policy, settings, on_step
        self._now = START
        self._quiet_seconds = max(settings.quiet_seconds, ahead_seconds(policy))
        self._snapshot = Snapshot(rules=settings.rules)
        self._cluster = Cluster(trace)
        self._events: Engine[Do] = Engine()  # what happens by itself
        self._clock: Engine[Do] = Engine()  # ticks, deadlines, reports: nothing happens but that we look
        self._flow = Flow(settings, self._events, self._finish)
        self._meter = Meter(trace, START, settings.speeds, slot_of(settings.slot_seconds, trace, policy))
        self._uids = _uids(trace)
        self._to_come = len(trace.jobs)
        self._inbox: list[Event] = []
        self._ended: list[Event] = []  # jobs whose end is told with the next batch, and with the one after:
        self._forgotten: list[Event] = []  # the API has them no more
        self._open: set[str] = set()  # jobs for which a later step may do something unasked
        self._named: set[str] = set()  # jobs whose deadlines may have changed at this instant
        self._stalls: dict[str, float] = {}
        self._stepped = self._happened = START
        self._due = START + settings.tick_seconds  # when the next tick is to be
        self._ticks_at: tuple[float, int] | None = None  # when we look whether it is due, and the ticket of that
        self._quiet = False  # whether the last step did nothing
        self._post([*(NodeSeen(node) for node in trace.nodes), Synced()])
        self._events.schedule(START, lambda: None)
        for spec in trace.jobs:
            self._events.schedule(START + spec.arrival, partial(self._arrive, spec))
        if settings.report_seconds is not None:
            self._clock.schedule(START + settings.report_seconds, partial(self._report, settings.report_seconds))
        self._await_moment()

    def let_happen(self, seconds: float, fault: befalls.Fault) -> None:
        """Plan a fault. Raises ValueError where it names a node or job that the trace does not have."""
        befalls.check(fault, self._cluster.known, self._uids)
        self._events.schedule(START + seconds, partial(self._befall, fault))

    def until_done(self) -> Result:
        """Go on until every job has ended, to the horizon, or until nothing but ticks has happened for long."""
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
        """The next instant; None where for long only the clock would go on."""
        happens, looks = self._events.next_time(), self._clock.next_time()
        if happens is None and (looks is None or looks > self._happened + self._quiet_seconds):
            return None
        return min(at for at in (happens, looks) if at is not None)

    def _result(self, end: float) -> Result:
        for uid, work in sorted(self._flow.works.items()):
            work.advance(end)
            self._meter.end(uid, work, end)
        self._meter.run_to(end)
        return self._meter.result(self._policy.name, end)

    # -- what happens ------------------------------------------------------------------------------

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
        """``how``: finished, terminated or rejected."""
        seen, later = self._cluster.end(uid)
        self._post(seen)
        self._ended += later
        self._stalls.pop(uid, None)
        self._meter.end(uid, self._flow.leave(uid, self._now), self._now, **how)

    def _befall(self, fault: befalls.Fault) -> None:
        if isinstance(fault, befalls.JobDeleted):
            uid = self._uids[fault.job]
            if uid in self._cluster.jobs:
                self._end(uid, terminated=True)
            return
        self._post(self._cluster.befall(fault, self._uids))
        self._open |= self._cluster.moved

    # -- the clock ---------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Post a tick where no step was made for so long; a step sets the timer anew, as in the live service.

        Those of which the policy knows that it would do nothing are left out.
        """
        self._ticks_at = None
        if self._due <= self._now and self._quiet and isinstance(self._policy, Foresees):
            tick = self._settings.tick_seconds
            ticks = (self._policy.next_change(self._snapshot, self._stepped) - EARLY - self._stepped) / tick
            self._due = self._stepped + tick * max(1, math.ceil(ticks)) if ticks < math.inf else ticks
        if self._due <= self._now:
            self._inbox.append(Tick())

    def _await_moment(self) -> None:
        """Be there when the policy wants to be asked, whatever the tick."""
        at = next_moment(self._policy, self._now)
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
        """A deadline of that gang; nothing where it has passed by."""
        if at in _deadlines(self._snapshot.gang(uid)):
            self._inbox.append(Tick())
            self._open.add(uid)

    # -- steps -------------------------------------------------------------------------------------

    def _post(self, events: Iterable[Event]) -> None:
        found = list(events)
        self._inbox += found
        self._meter.run_to(self._now)
        self._meter.take(found)
        self._happened = self._now

    def _settle(self) -> None:
        """Step until nothing follows; then let the work flow on."""
        for _ in range(ROUNDS):
            if not self._inbox:
                break
            self._step()
        else:
            raise RestlessError(f"{self._policy.name}: {ROUNDS} steps at {self._now - START:g} s; {self._inbox[-1]}")
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
            self._on_step(Step(self._now, self._snapshot, events, effects))
        self._follow({uid for effect in effects if (uid := self._heed(effect))} | self._open)

    def _heed(self, effect: Effect) -> str:
        """Whose affairs the effect changes; empty where it concerns nobody's pods."""
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
        stalled = bool(self._cluster.jobs[uid].bound) and self._flow.works[uid].doing is Doing.WAITING
        if not stalled:
            self._stalls.pop(uid, None)
        elif patience is not None and uid not in self._stalls:
            self._stalls[uid] = self._now
            self._events.schedule(self._now + patience, partial(self._lose_patience, uid, self._now))


def _deadlines(gang: Gang) -> list[float]:
    return [at for at in gang.moments if at]


def _uids(trace: Trace) -> dict[str, str]:
    """Uids by name, in the order of the trace."""
    uids: dict[str, str] = {}
    for number, spec in enumerate(trace.jobs):
        if spec.name in uids:
            raise ValueError(f"jobs: name is {spec.name!r} twice, must be unique")
        if spec.role(WORKER) is None:
            raise ValueError(f"jobs: {spec.name} has no role {WORKER!r}")
        uids[spec.name] = f"job-{number:06d}"
    return uids

"""Compute how a job's work proceeds: which gangs compute, at which rate, and when each has done its work."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from lab.sim.engine import Engine
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.fluid.speedmodels import RunningGang
from lab.sim.objects import JobSpec
from policy.cluster.node import Node
from policy.cluster.training import Goal, Report

Do = Callable[[], None]
# A pause of fewer seconds is skipped, because adding it to the time could leave the time unchanged.
DUST = 1e-6
SAME_RATE = 1e-12


class Activity(Enum):
    """What a job does: wait, start up, stop for a change of its members, or compute."""

    WAITING = "waiting"
    STARTING = "starting"
    SCALING = "scaling"
    COMPUTING = "computing"


NO_SECONDS = dict.fromkeys(Activity, 0.0)


@dataclass(slots=True)
class JobWork:
    """One job's work and activity.

    ``left``: work left at the time ``since``, in seconds of one worker's work. ``doing``: its activity; ``rate``: how
    many seconds of work it does per second. ``until``: when its present pause ends. ``running``: its layout; None if it
    cannot compute. ``members``: UIDs of its bound pods. ``ticket``: identifies its next scheduled event.
    ``computed_at``: when it first computed. ``seconds``: the time spent in each activity.
    """

    spec: JobSpec
    since: float
    left: float
    doing: Activity = Activity.WAITING
    rate: float = 0.0
    until: float = 0.0
    running: RunningGang | None = None
    members: frozenset[str] = frozenset()
    ticket: int = 0
    computed_at: float | None = None
    seconds: dict[Activity, float] = field(default_factory=NO_SECONDS.copy)

    @property
    def done(self) -> float:
        """Return the share (0 to 1) of the job's work that was done at ``since``."""
        return 1.0 - self.left / self.spec.work_seconds

    def advance(self, now: float) -> None:
        """Count the time and the work done from ``since`` until ``now``, at the present rate."""
        passed = now - self.since
        self.seconds[self.doing] += passed
        if self.rate:
            self.left = max(0.0, self.left - self.rate * passed)
        self.since = now


class Flow:
    """The work of all jobs that have arrived and not ended; ``finished`` is called with the UID of a job whose work is
    done.
    """

    def __init__(self, settings: FluidSettings, engine: Engine[Do], finished: Callable[[str], None]) -> None:
        self._settings, self._engine, self._finished = settings, engine, finished
        self.works: dict[str, JobWork] = {}
        self.changed: set[str] = set()
        self._moving: set[str] = set()
        self._computing: dict[str, RunningGang] = {}

    def enter(self, uid: str, spec: JobSpec, now: float) -> None:
        """Add a job that has arrived."""
        self.works[uid] = JobWork(spec, now, spec.work_seconds)

    def leave(self, uid: str, now: float) -> JobWork:
        """Remove a job that has ended, for any reason, and return its work."""
        work = self.works.pop(uid)
        self._moving.discard(uid)
        work.advance(now)
        self._engine.cancel(work.ticket)
        self._computing.pop(uid, None)
        self.changed.add(uid)
        return work

    def move(self, uid: str) -> None:
        """Record that the job is being migrated, so that replacing all of its members next is not counted as a loss."""
        self._moving.add(uid)

    def lay_out(self, uid: str, running: RunningGang | None, members: frozenset[str], now: float) -> None:
        """Set the gang's layout and pods; a change while it computes or pauses costs a pause.

        ``running``: None if the gang cannot compute.
        """
        work = self.works[uid]
        before, work.members = work.members, members if running is not None else frozenset()
        if running == work.running and work.members == before:
            return
        work.advance(now)
        up, work.running = work.running is not None and work.doing is not Activity.STARTING, running
        if running is None:
            self._do(uid, work, Activity.WAITING, now)
        elif not up:
            self._do(uid, work, Activity.STARTING, now, self._settings.start_seconds)
        else:
            self._change(uid, work, before, now)

    def _change(self, uid: str, work: JobWork, before: frozenset[str], now: float) -> None:
        """Pause a gang that has started, because it has grown, shrunk or moved, or because members were replaced."""
        kept, settings = before & work.members, self._settings
        if not kept and uid in self._moving:
            self._moving.discard(uid)
            self._do(uid, work, Activity.SCALING, now, settings.migrate_seconds)
        elif kept == before:
            self._do(uid, work, Activity.SCALING, now, settings.grow_seconds)
        elif kept == work.members:
            self._do(uid, work, Activity.SCALING, now, settings.shrink_seconds)
        else:
            self._do(uid, work, Activity.STARTING, now, settings.start_seconds)

    def _do(self, uid: str, work: JobWork, doing: Activity, now: float, pause: float = 0.0) -> None:
        """Switch to another activity; a pause ends after ``pause`` seconds, but not before one that is under way."""
        self._engine.cancel(work.ticket)
        until = max(now + pause, work.until if work.doing in PAUSES else now)
        work.doing, work.rate, work.until, work.ticket = doing, 0.0, until, 0
        self._computing.pop(uid, None)
        self.changed.add(uid)
        if doing in PAUSES:
            if until - now > DUST:
                work.ticket = self._engine.schedule(until, partial(self._compute, uid, until))
            else:
                self._compute(uid, now)

    def _compute(self, uid: str, now: float) -> None:
        work = self.works[uid]
        work.advance(now)
        work.doing, work.ticket = Activity.COMPUTING, 0
        work.computed_at = now if work.computed_at is None else work.computed_at
        if work.running is not None:
            self._computing[uid] = work.running
        self.changed.add(uid)

    def settle(self, now: float, nodes: Mapping[str, Node]) -> set[str]:
        """Compute the rates of work after the changes of this instant; return the jobs whose activity or layout
        changed.
        """
        changed, self.changed = self.changed, set()
        if not changed:
            return changed
        speeds = self._settings.speeds
        asked = changed if not speeds.coupled else self._computing
        running = {uid: self._computing[uid] for uid in sorted(asked) if uid in self._computing}
        for uid, rate in speeds.rates(running, nodes).items():
            work = self.works[uid]
            if uid in changed or abs(rate - work.rate) > SAME_RATE * work.rate:
                self._go_on(uid, work, rate, now)
        return changed

    def _go_on(self, uid: str, work: JobWork, rate: float, now: float) -> None:
        work.advance(now)
        self._engine.cancel(work.ticket)
        work.rate, work.ticket = rate, 0
        if rate > 0:
            work.ticket = self._engine.schedule(now + work.left / rate, partial(self._finish, uid))

    def _finish(self, uid: str) -> None:
        self.works[uid].left = 0.0
        self.works[uid].rate = 0.0
        self._finished(uid)

    def computing(self) -> list[str]:
        """Return the UIDs of the computing jobs, sorted."""
        return sorted(self._computing)

    def report(self, uid: str, now: float) -> Report:
        """Return what the training reports: its metric, and the share of its work that is done."""
        work = self.works[uid]
        work.advance(now)
        loss = _loss(work.spec.decay, work.done)
        rises = work.spec.training is not None and work.spec.training.goal is Goal.MAX
        return Report(now, 1.0 - loss if rises else loss, work.done)


def _loss(decay: float, done: float) -> float:
    """Return the loss, from 1 at the start to 0 at the end, falling as exp(-k p) (SpeCon, Figure 1: k from 5 to 20)."""
    last = math.exp(-decay)
    return (math.exp(-decay * done) - last) / (1.0 - last) if decay else 1.0 - done


PAUSES = frozenset({Activity.STARTING, Activity.SCALING})

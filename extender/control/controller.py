"""The controller: reads what the extender wants to be true and writes it to the API server.

The controller is level-triggered: only the extender's latest answer counts, and no write is queued. `_follow` polls the
extender (the polls also show the extender that the controller runs), `_work` makes the calls at a limited rate, an
`EventWriter` writes Events, and `RefusalReports` tells the extender what the API server refuses. Nothing is written
unless this replica leads at that moment. A write is not repeated until the extender's watch must have shown it; a
refused write is repeated with growing pauses. All state is in the Kubernetes API, so a restart of the controller loses
nothing that is needed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from typing import Final

from extender.clock import Clock
from extender.config.settings import Settings
from extender.control.callkinds import KINDS_OF_CALLS, Call, Nominate, SetGate, Ungate, Wake
from extender.control.calls import Key, calls, key, perform, takes_unsigned
from extender.control.eventwriter import EventWriter
from extender.control.extenderrest import ExtenderError, Fetch, Post, read_view
from extender.control.ratelimit import RateLimit
from extender.control.refusalreports import RefusalReports
from extender.kube.api import CONFIGMAPS, Api, Done, Outcome, Ref, Refused
from extender.leading.lease import Leads
from extender.observe.controllermetrics import ControllerMetrics
from extender.observe.health import Check, Heartbeat, Readiness
from extender.present.views.orders import DesiredView

AT_ONCE: Final = 32  # AT_ONCE is the largest number of API calls that are under way at the same time.
# BREATH_SECONDS is the pause between two polls of the extender. Because of the pause, one answer covers a burst of
# changes.
BREATH_SECONDS: Final = 0.05
# A write is not repeated for SETTLE_SECONDS, within which the extender's watch must have shown it.
SETTLE_SECONDS: Final = 2.0
# GATE_CHECK_SECONDS is the interval at which the gate is checked, because an administrator may have switched it.
GATE_CHECK_SECONDS: Final = 30.0
RETRY_SECONDS: Final = (1.0, 30.0)  # RETRY_SECONDS are the first and the longest pause after a refused write.
# UNREACHABLE_SECONDS are the first and the longest pause while the extender does not answer. They are short, because
# polling over loopback costs nothing, and a controller should not wait long for an extender that has just started.
UNREACHABLE_SECONDS: Final = (0.25, 2.0)
SILENT_SECONDS: Final = 10.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hold:
    """A call that must not be made again before ``until`` (time of `Clock.monotonic`).

    ``only_equal``: only an equal call is held, because this call was just made; a different call of the same kind on
    the same object may be made. ``refusals``: how often in a row calls of this kind on this object were refused.
    """

    call: Call
    until: float
    only_equal: bool
    refusals: int = 0


class Controller:
    """Follows the extender's desired state and writes it to the API server."""

    def __init__(
        self,
        api: Api,
        fetch: Fetch,
        post: Post,
        settings: Settings,
        clock: Clock,
        lease: Leads,
        *,
        chance: random.Random | None = None,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        """Prepare a controller that does nothing until `run` is called.

        ``fetch``, ``post``: functions that read from the extender's REST and post to it. ``lease``: tells whether this
        replica leads. ``chance``: the random source for the pauses between retries.
        """
        self.metrics = metrics or ControllerMetrics()
        self.extender = Heartbeat(clock)
        self._api = api
        self._fetch = fetch
        self._settings = settings.controller
        self._gate = Ref(CONFIGMAPS, settings.gate_parameters.namespace, settings.gate_parameters.name)
        self._clock = clock
        self._lease = lease
        self._chance = chance or random.Random()
        self._rate_limit = RateLimit(settings.controller.patches_per_second, clock)
        self._wanted: dict[Key, Call] = {}
        self._holds: dict[Key, Hold] = {}
        self._under_way: set[Key] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake_up = asyncio.Event()  # _wake_up is set when a call may have become due
        self._failures = 0
        seconds = settings.controller.request_timeout_seconds
        self._refusal_reports = RefusalReports(post, seconds, clock, lease)
        self._event_writer = EventWriter(api, fetch, settings.controller, clock, lease, self._rate_limit, self.metrics)
        self.metrics.wants(self._to_do, KINDS_OF_CALLS)
        self.metrics.leads(lease.leading)

    async def run(self) -> None:
        """Poll the extender, make calls, and write Events until cancelled; then wait for the calls under way to end."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow())
                tasks.create_task(self._work())
                tasks.create_task(self._event_writer.run())
                tasks.create_task(self._refusal_reports.run())
        finally:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self._settings.request_timeout_seconds)

    def led(self, leading: bool) -> None:
        """Make the wanted calls at once if this replica has begun to lead. ``leading``: whether it leads now."""
        if leading:
            self._wake_up.set()
            self._refusal_reports.resend()

    def readiness(self) -> Readiness:
        """Return the results of the health checks that the controller's ``/readyz`` shows.

        A controller is ready if its extender has answered in the last 10 s, whether or not this replica leads.
        """
        heard = self.extender.heard and self.extender.age <= SILENT_SECONDS
        detail = (
            "" if heard else f"no answer for {self.extender.age:.0f} s from {self._settings.service_url}; see its log"
        )
        leading = "yes" if self._lease.leading() else "no: another replica leads, and this one writes nothing"
        return Readiness((Check("extender", heard, detail), Check("leading", True, leading)))

    # -- The methods below read the desired state. ---------------------------------------------------

    async def _follow(self) -> None:
        """Poll the extender for the desired state until cancelled; each answer replaces the earlier wanted calls."""
        instance, generation = "", -1
        while True:
            try:
                desired = await self._ask(generation)
            except ExtenderError as error:
                await self._unreachable(error)
                instance, generation = "", -1
                continue
            self._reached()
            if (desired.instance, desired.generation) != (instance, generation):
                instance, generation = desired.instance, desired.generation
                self.take(desired)
            await self._clock.sleep(BREATH_SECONDS)

    async def _ask(self, after: int) -> DesiredView:
        seconds = self._settings.interval_seconds
        query = {"after": str(after), "timeout_seconds": f"{seconds:g}"}
        wait = seconds + self._settings.request_timeout_seconds
        return read_view(DesiredView, await self._fetch("/v1/desired", query, wait))

    async def _unreachable(self, error: ExtenderError) -> None:
        """Discard the wanted calls, and wait; the wait is longer after each failure to reach the extender.

        Only the first failure is logged.
        """
        if not self._failures:
            _log.warning("the extender does not answer; nothing is written until it does: %s", error)
        self._wanted = {}
        self.metrics.reached(False)
        await self._clock.sleep(self._backoff(UNREACHABLE_SECONDS, self._failures))
        self._failures += 1

    def _reached(self) -> None:
        if self._failures:
            _log.info("the extender answers again")
        self._failures = 0
        self.extender.beat()
        self.metrics.reached(True)

    def take(self, desired: DesiredView) -> None:
        """Replace the wanted calls by those that make this answer of the extender true."""
        self._wanted = {key(call): call for call in calls(desired)}
        self._refusal_reports.keep(self._wanted.keys(), desired.instance)
        now = self._clock.monotonic()
        self._holds = {k: hold for k, hold in self._holds.items() if k in self._wanted or hold.until > now}
        self._wake_up.set()

    def _to_do(self, kind: str) -> int:
        """Return how many calls of that kind are wanted and not made yet, refused calls included."""
        now = self._clock.monotonic()
        wanted = (call for call in self._wanted.values() if key(call)[0] == kind)
        return sum(1 for call in wanted if (hold := self._hold_of(call, now)) is None or not hold.only_equal)

    def _hold_of(self, call: Call, now: float) -> Hold | None:
        """Return the hold that forbids to make the call now, because it was just made or was refused.

        Return None where the call may be made. ``now``: the time of `Clock.monotonic`.
        """
        hold = self._holds.get(key(call))
        holds = hold is not None and hold.until > now and (hold.call == call or not hold.only_equal)
        return hold if holds else None

    # -- The methods below make the calls that write. ------------------------------------------------

    async def _work(self) -> None:
        """Start the wanted calls in order, at most `AT_ONCE` at a time; look again when a held call may be due."""
        while True:
            self._wake_up.clear()
            call = self._next()
            if call is None:
                await self._pause()
                continue
            await self._rate_limit.turn()
            if self._may_make(call):
                self._send(call)

    async def _pause(self) -> None:
        try:
            async with self._clock.timeout(self._settings.interval_seconds):
                await self._wake_up.wait()
        except TimeoutError:
            pass

    def _next(self) -> Call | None:
        """Return the first wanted call that may be made now.

        Return None if there is none, if too many calls are under way, or if this replica does not lead.
        """
        if len(self._under_way) >= AT_ONCE or not self._lease.leading():
            return None
        now = self._clock.monotonic()
        return next((call for call in self._wanted.values() if self._is_due(call, now)), None)

    def _is_due(self, call: Call, now: float) -> bool:
        if key(call) in self._under_way or self._hold_of(call, now) is not None:
            return False
        # kube-scheduler's first attempt of a pod should find the pod's nomination. So the removal of the pod's gate, or
        # its wake-up, waits until the nomination was written or refused.
        return not (isinstance(call, Ungate | Wake) and self._is_to_be_nominated(call.order.uid))

    def _is_to_be_nominated(self, uid: str) -> bool:
        named = (Nominate.__name__, uid)
        return named in self._wanted and named not in self._holds

    def _may_make(self, call: Call) -> bool:
        """Tell whether the call is still wanted and this replica still leads.

        Both may have changed while the call waited for its turn.
        """
        return self._wanted.get(key(call)) == call and self._lease.leading()

    def _send(self, call: Call) -> None:
        self._under_way.add(key(call))
        task = asyncio.create_task(self._make(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _make(self, call: Call) -> None:
        try:
            if takes_unsigned(call):
                await self._lease.check()
            if self._may_make(call):  # this process may have been paused since the task was created
                self._note(call, await perform(self._api, call, self._gate, self._lease.name))
        finally:
            self._under_way.discard(key(call))
            self._wake_up.set()

    def _note(self, call: Call, outcome: Outcome) -> None:
        """Record the outcome of a call, and hold the call for a while.

        A call that was made is held until the extender's watch must have shown it, a refused call longer after each
        refusal.
        """
        before = self._holds.get(key(call))
        refusals = before.refusals if before is not None else 0
        self.metrics.wrote(type(call).__name__, type(outcome).__name__.lower())
        self._refusal_reports.note(call, outcome)
        now = self._clock.monotonic()
        if isinstance(outcome, Done):
            seconds = GATE_CHECK_SECONDS if isinstance(call, SetGate) else SETTLE_SECONDS
            self._holds[key(call)] = Hold(call, now + seconds, only_equal=True)
        elif isinstance(outcome, Refused) and outcome.outdated and not isinstance(call, SetGate):
            # The object has changed since the order was made. The extender will see the change, and may then want a
            # different call.
            self._holds[key(call)] = Hold(call, now + SETTLE_SECONDS, only_equal=True)
        else:
            if not refusals:
                _log.warning("a write to the API server failed and is tried again later: %s: %s", call, outcome)
            pause = self._backoff(RETRY_SECONDS, refusals)
            self._holds[key(call)] = Hold(call, now + pause, only_equal=False, refusals=refusals + 1)

    def _backoff(self, seconds: tuple[float, float], failures: int) -> float:
        """Return a pause in seconds, which doubles with each failure, times a random factor of 0.5 to 1.

        ``seconds``: the first and the longest pause. The factor keeps replicas from retrying at the same moment.
        """
        first, longest = seconds
        pause: float = min(longest, first * 2.0 ** min(failures, 16))
        return pause * self._chance.uniform(0.5, 1.0)

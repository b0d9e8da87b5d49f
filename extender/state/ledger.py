"""Holds the current snapshot in the ledger, its only writer, which calls ``policy.step`` and hands out the effects.

1. Only the event loop's thread may call it. Readers take ``snapshot`` without a lock, because no snapshot ever changes.
2. ``post`` gathers events for a moment, so that a burst makes one decision; ``step`` applies all of them at once.
3. The outcome of an effect comes back as an event through ``post`` or ``step``, never by a call that changes state.
4. A step that fails has lost events, so the ledger stops: every later call and ``tick`` raise LedgerStoppedError.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from extender.clock import Clock
from extender.state.journal import Journal
from extender.state.record import named
from policy.answers.inputs import inputs_of
from policy.cluster.actions import Effect
from policy.cluster.events import Event, JobSeen, PodGone, PodSeen, PolicyChanged, Tick
from policy.cluster.failures import moments
from policy.cluster.snapshot import Rules, Snapshot
from policy.step import step
from policy.systems.base import Policy
from policy.systems.quotas import late_moments

Carrier = Callable[[tuple[Effect, ...]], None]
# A function that is called with a step's time, events and effects, the snapshot after it, and the error that made it
# fail (empty if it succeeded).
Record = Callable[[float, Sequence[Event], Sequence[Effect], Snapshot, str], None]
SHORTEST_TICK = 0.05  # SHORTEST_TICK is the least number of seconds between two steps that `tick` makes.
# LONGEST_REST is the largest number of seconds between two slow steps; with a longer pause decisions would come too
# late.
LONGEST_REST = 0.25
GONE_REMEMBERED = 10_000
_log = logging.getLogger(__name__)


class LedgerStoppedError(Exception):
    """A step of the ledger has failed before, so the ledger's state can no longer be trusted."""


class Ledger:
    """Holds the state of one process, and changes it step by step.

    coalesce: the seconds for which ``post`` gathers events. record: a function that is called after every step.
    """

    def __init__(
        self,
        policy: Policy,
        rules: Rules,
        clock: Clock,
        journal: Journal,
        coalesce: float = 0.02,
        record: Record | None = None,
    ) -> None:
        self.policy = policy
        self.snapshot = Snapshot(rules=rules)
        self.clock = clock
        self.journal = journal
        self._coalesce = coalesce
        self._records = [record] if record else []
        self._queued: list[Event] = []
        self._timer: asyncio.TimerHandle | None = None
        self._carriers: list[Carrier] = []
        self._uncarried: deque[tuple[Effect, ...]] = deque()
        self._carrying = False
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._changed = asyncio.Event()
        self.took = 0.0  # took is how many seconds the last step took
        self._listed: frozenset[str] = frozenset()
        self._listed_until = 0
        self._failure: Exception | None = None
        self._zero = clock.now() - clock.monotonic()
        self._stepped_at = self.now()

    def now(self) -> float:
        """Return seconds since the epoch, counted by the monotonic clock from the wall clock at our start.

        Because of this, deadlines do not move when the wall clock is set while the process runs.
        """
        return self._zero + self.clock.monotonic()

    def carry_with(self, carrier: Carrier) -> None:
        """Register ``carrier``, which is called with the effects of every step, in the order of the steps."""
        self._carriers.append(carrier)

    def record_with(self, record: Record) -> None:
        """Register ``record``, which is called after every step, before the step's effects are carried out."""
        self._records.append(record)

    def obey(self, policy: Policy) -> None:
        """Use this policy from now on and make a step with it at once; decisions of the former policy stay in force."""
        before, after = (one.name.split("+") for one in (self.policy, policy))
        self.policy = policy
        self.step(PolicyChanged(tuple(name for name in after if name in before)) if before != after else Tick())

    @property
    def dirty(self) -> bool:
        """Tell whether events wait to be applied."""
        return bool(self._queued)

    def listed(self, uids: frozenset[str], until: int) -> None:
        """Record a whole list of pods: exactly these uids existed at the resourceVersion ``until``."""
        self._listed, self._listed_until = uids, until

    def was_deleted(self, uid: str, version: int = 0) -> bool:
        """Tell whether the pod is known to be deleted, so that a call of kube-scheduler that comes late must not add it
        to the state again.

        version: the pod's resourceVersion as the caller has it, 0 if unknown. After a restart a pod is known to be
        deleted if a list of a later version lacks it.
        """
        lacked = version > 0 and self.lacks(uid, version) and uid not in self.snapshot.pods
        return uid in self._gone or lacked

    def lacks(self, uid: str, version: int) -> bool:
        """Tell whether the pod with this UID was missing in the last list of pods. False if the list is older than
        ``version``.

        ``version``: a resourceVersion at which the pod existed.
        """
        return version <= self._listed_until and uid not in self._listed

    def tells_of(self, job_uid: str) -> bool:
        """Tell whether a queued event may complete the job's gang: one for the job itself, or for a new pod of it."""
        return any(self._completes(event, job_uid) for event in self._queued)

    def _completes(self, event: Event, job_uid: str) -> bool:
        if isinstance(event, PodSeen):
            return event.pod.job_uid == job_uid and event.pod.uid not in self.snapshot.pods
        return isinstance(event, JobSeen) and event.job.uid == job_uid

    def post(self, *events: Event) -> None:
        """Queue events; they are applied together after the coalescing time.

        That time is at least as long as the last step took, up to `LONGEST_REST`, because verbs are answered between
        steps: a thousand refused pods, about which kube-scheduler asks one by one, must not wait for a step each.
        """
        self.queue(*events)
        if self._timer is None and self._queued:
            rest = max(self._coalesce, min(LONGEST_REST, self.took))
            self._timer = asyncio.get_running_loop().call_later(rest / self.clock.speed, self._step_late)

    def queue(self, *events: Event) -> None:
        """Queue events for the next step without starting one, because the caller adds more events at once."""
        self._raise_failure()
        self._remember_gone(events)
        self._queued += events

    def step(self, *events: Event) -> tuple[Effect, ...]:
        """Apply the queued events and then ``events``, decide, hand out the effects, and return them."""
        self._raise_failure()
        self._remember_gone(events)
        batch = [*self._queued, *events]
        self._queued = []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now, began, before = self.now(), self.clock.monotonic(), self.snapshot
        try:
            self.snapshot, effects = step(self.snapshot, batch, self.policy, now)
        except Exception as error:
            self._failure = error
            self._write_down(now, batch, (), named(error))
            self._wake()
            raise
        self.took, self._stepped_at = self.clock.monotonic() - began, now
        causes, inputs = [type(event).__name__ for event in batch], self._inputs(before, effects, now)
        self.journal.write(now, self.snapshot.generation, causes, effects, inputs, (self.snapshot, before))
        self._write_down(now, batch, effects)
        self._wake()
        self._carry(effects)
        return effects

    def _inputs(self, before: Snapshot, effects: Sequence[Effect], now: float) -> dict[int, Mapping[str, str]]:
        """Return the figures from which each effect was decided, by the effect's index.

        The figures are only shown to users, so an error in computing them is only logged.
        """
        try:
            return inputs_of(before, self.snapshot, effects, self.policy, now)
        except Exception:
            _log.exception(
                "the figures of a decision could not be computed, so its entry in the history shows none; please "
                "report this error"
            )
            return {}

    def _write_down(self, now: float, batch: Sequence[Event], effects: Sequence[Effect], error: str = "") -> None:
        for record in self._records:
            try:
                record(now, batch, effects, self.snapshot, error)
            except Exception:
                # the step itself succeeded, so its effects are carried out
                _log.exception(
                    "a step could not be written down (journal or history); it is carried out; please report this error"
                )

    def _step_late(self) -> None:
        """Make the step that ``post`` asked for. An exception is only logged here, because a timer has no caller;
        ``tick`` raises it later.
        """
        try:
            self.step()
        except Exception:
            _log.exception(
                "a step of the ledger failed, so the service decides nothing more and stops; please report this error"
            )

    def _remember_gone(self, events: Iterable[Event]) -> None:
        """Remember deleted pods as soon as their events are queued, because a filter call may come before the step."""
        for event in events:
            if isinstance(event, PodGone):
                self._gone[event.uid] = None
        while len(self._gone) > GONE_REMEMBERED:
            self._gone.popitem(last=False)

    def _carry(self, effects: tuple[Effect, ...]) -> None:
        """Pass a step's effects to every carrier: the functions that carry effects out, such as the barrier's.

        If a carrier itself makes the ledger step, the effects of that step are passed on after those of this step.
        """
        self._uncarried.append(effects)
        if self._carrying:
            return
        self._carrying = True
        try:
            while self._uncarried:
                self._hand_out(self._uncarried.popleft())
        finally:
            self._carrying = False

    def _hand_out(self, effects: tuple[Effect, ...]) -> None:
        for carrier in tuple(self._carriers):
            try:
                carrier(effects)
            except Exception:
                # The loop goes on to the other functions that carry out effects, because an error in one of them must
                # not prevent a binding that another one sends.
                _log.exception("an effect of a step could not be carried out; please report this error")

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise LedgerStoppedError(
                "a step of the ledger failed, so it decides nothing more; the log has the error"
            ) from self._failure

    async def changed(self, generation: int, timeout: float) -> Snapshot:
        """Return the first snapshot after ``generation``, or the current one when ``timeout`` (seconds) has passed."""
        if self.snapshot.generation <= generation:
            try:
                async with self.clock.timeout(timeout):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return self.snapshot

    async def tick(self, seconds: float) -> None:
        """Make a step, until cancelled, whenever time alone may change something: deadlines run out, or jobs starve.

        Because every step looks at the time, an extra step is made only if there was none for ``seconds``, at a
        deadline, or at a time that the policy names. Raises LedgerStoppedError after a step that failed.
        """
        prepared = -math.inf
        while True:
            seen = self.snapshot.generation
            left = min(seconds, self._next_deadline() - self.now())
            await self.changed(seen, max(SHORTEST_TICK, left))
            if self.snapshot.generation == seen:
                self.step(Tick())
            if self.snapshot.synced and (now := self.clock.monotonic()) - prepared >= seconds:
                prepared = now
                self._prepare()

    def _prepare(self) -> None:
        """Let the policy compute in advance, between two steps, what its next decision needs, so that no call of
        kube-scheduler waits for these computations.
        """
        try:
            self.policy.prepare(self.snapshot, self.now())
        except Exception:
            # If preparing fails, the next decision itself computes what it needs.
            _log.exception(
                "computing ahead for the next decision failed; it is computed when it is made; please report this error"
            )

    def _next_deadline(self) -> float:
        """Return the nearest time (seconds since the epoch) at which time alone changes something.

        A time between the beginning and the end of the last step counts too, because that step used the time at its
        beginning.
        """
        index, now = self.snapshot.index, self._stepped_at
        ends = [*index.deadlines.values(), *(rested for rested in index.rests.values() if rested > now)]
        kept = (gone.until for promised in self.snapshot.preemptions.values() for gone in promised.vacated)
        late = (at for at in (*late_moments(self.snapshot), *moments(self.snapshot)) if at > now)
        return min([*ends, *kept, *late, *self.snapshot.not_offered.values(), self.policy.next_moment(now)])

"""Carries out the bindings that a step asks for, and holds kube-scheduler's bind calls until their outcome is known.

Each held call has a future. ``policy`` decides when a gang may be bound; this module only waits, writes and reports the
outcome to the ledger. An answer of the API server that was lost is never taken for a refusal (see HAMi's issue 2645).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import assert_never

from extender.heldbind import HeldBind, LostBinding
from extender.http.limits import BindConnections
from extender.kube.api import PODS, Api, ClusterError, Done, Ref, Refused, Unknown
from extender.kube.binding import create_binding
from extender.kube.fields import part, text
from extender.kube.jobkinds import KINDS, LEADER, LONE_POD, SLOT, deletion_cost
from extender.kube.scheduledevents import ScheduledEvents
from extender.state.ledger import Ledger, LedgerStoppedError
from policy.cluster.actions import Bind, Effect, Instruction, RefuseBind
from policy.cluster.events import BindDone, BindDropped, BindHeld, BindRefused, BindUnknown
from policy.cluster.reasons import Reason
from policy.cluster.refusedwrite import shortened
from policy.placement.eligible import sends_all

BOUND = ""
UNKNOWN_OUTCOME = (
    "kohort: the API server's answer to the binding was lost; Kohort keeps the pod's room until it knows the outcome"
)
# An API server may still carry out a request for this many seconds after its client has given up.
LATE_SECONDS = 10.0
# These are the first and the longest pause, in seconds, between two reads of a pod whose binding has no known outcome.
LOOK_SECONDS = (0.5, 4.0)
NOT_LEADING = Refused(0, Reason.NOT_LEADING.value, "")
SUPERSEDED = "kohort: a later bind call for the same pod has replaced this one; nothing needs to be done"
_log = logging.getLogger(__name__)


class Barrier:
    """Holds bind calls until their outcome is known, and makes the bindings.

    The answer to a call is the text of an error; an empty answer means that the pod is bound. ``places``: limits how
    many calls are held at once. ``observe``: is called with the outcome of every binding (done, refused or unknown).
    ``observe_hold``: is called with the seconds for which each call was held. ``leads``: tells before each binding
    whether this replica leads; after a pause of this process, another replica may lead without the ledger's knowledge.
    ``leader``: the name that is written with each binding, by which the API server also checks that we lead
    (manifests/base/leader-policy.yaml).
    """

    def __init__(
        self,
        ledger: Ledger,
        api: Api,
        places: BindConnections,
        observe: Callable[[str], None] = lambda outcome: None,
        observe_hold: Callable[[float], None] = lambda seconds: None,
        leads: Callable[[], bool] = lambda: True,
        leader: str = "",
    ) -> None:
        self._places = places
        self._ledger = ledger
        self._api = api
        self._observe = observe
        self._observe_hold = observe_hold
        self._leads = leads
        self._leader = leader
        self._held: dict[str, HeldBind] = {}
        # _in_flight maps each task that makes a binding to the uid of its pod
        self._in_flight: dict[asyncio.Task[None], str] = {}
        self._lost: dict[str, LostBinding] = {}  # _lost maps a pod's uid to its bindings whose answers were lost
        self.events = ScheduledEvents(api, ledger.clock)
        # _done maps a pod's uid to its node, for each binding that was made and that no step has seen yet
        self._done: dict[str, str] = {}
        self._closed = False
        ledger.carry_with(self.carry_out)

    @property
    def held(self) -> int:
        """Return how many bind calls are held now."""
        return len(self._held)

    async def hold(self, uid: str, node: str, gone: Awaitable[None]) -> str:
        """Hold a member's bind call, and return its answer: an error's text, or empty if the pod is bound.

        ``gone`` completes when the caller has closed its connection.
        """
        leaving = asyncio.ensure_future(gone)
        leaving.add_done_callback(_retrieve)
        began = self._ledger.clock.monotonic()
        try:
            return await self._hold(uid, node, leaving)
        finally:
            leaving.cancel()
            self._observe_hold(self._ledger.clock.monotonic() - began)

    async def _hold(self, uid: str, node: str, leaving: asyncio.Future[None]) -> str:
        if self._closed:
            return Reason.NOT_LEADING.text
        if bound := self._bound_early(uid):
            if bound != node:
                return Reason.PLAN_CHANGED.text
            self.events.asked(uid)
            return BOUND
        if uid in self._held:
            self._withdraw(uid, SUPERSEDED)
        if not self._places.enter():
            return Reason.BARRIER_FULL.text
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._held[uid] = HeldBind(node, answer)
        try:
            self._announce(uid, node)
            ends: list[asyncio.Future[str] | asyncio.Future[None]] = [answer, leaving]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not answer.done():
                self._withdraw(uid, Reason.BARRIER_TIMEOUT.text)
        return answer.result()

    def _announce(self, uid: str, node: str) -> None:
        """Tell the ledger of a bind call that is now held, unless the pod's binding is being made already.

        Many calls come at the same time, and none is urgent, so one step handles all that come within a moment. But a
        call that sends all bindings of its gang is handled at once, because it binds the other members without calls of
        their own.
        """
        snapshot = self._ledger.snapshot
        if not snapshot.rules.commit_first:
            self._ledger.post(BindHeld(uid, node))
        elif uid in self._in_flight.values():
            return  # the outcome of the binding in flight also answers this bind call
        elif sends_all(snapshot, uid):
            self._ledger.step(BindHeld(uid, node))
        else:
            self._ledger.post(BindHeld(uid, node))

    def _bound_early(self, uid: str) -> str:
        """Return the node of a pod that was bound before its own bind call came; empty if there is no such binding.

        This happens when the first bind call of another member binds the whole gang while kube-scheduler still works on
        this pod.
        """
        snapshot = self._ledger.snapshot
        pod = snapshot.pods.get(uid)
        if not snapshot.rules.commit_first or pod is None or pod.terminating:
            return ""
        return pod.node or self._done.get(uid, "")

    def _withdraw(self, uid: str, text: str) -> None:
        """Answer a held call whose caller has left or called again, and tell the ledger that it is no longer held.

        kube-scheduler has then given up this attempt to schedule the pod, so its checks of pod and node are out of
        date.
        """
        self._answer(uid, text)
        # The event is only queued: if one connection breaks, others often do, and one step must see
        # all of them before it binds other members.
        self._ledger.post(BindDropped(uid))

    def _answer(self, uid: str, text: str) -> None:
        waiting = self._held.pop(uid, None)
        if waiting is None:
            return
        self._places.leave()
        waiting.answer.set_result(text)

    def carry_out(self, effects: tuple[Effect, ...]) -> None:
        """Carry out the instructions among a step's effects, and ignore the records of decisions."""
        if self._done:
            pods = self._ledger.snapshot.pods
            self._done = {uid: node for uid, node in self._done.items() if uid in pods and not pods[uid].node}
        for effect in effects:
            if isinstance(effect, Instruction):
                self._obey(effect)

    def _obey(self, instruction: Instruction) -> None:
        """Start a binding, or answer a held call that is refused."""
        match instruction:
            case Bind():
                task = asyncio.create_task(self._bind(instruction))
                self._in_flight[task] = instruction.uid
                task.add_done_callback(self._binding_ended)
            case RefuseBind(uid, reason):
                self._answer(uid, reason.text)
            case _:
                assert_never(instruction)

    async def _bind(self, bind: Bind) -> None:
        try:
            outcome = await create_binding(self._api, bind, self._notes(bind)) if self._leads() else NOT_LEADING
        except Exception as error:
            # The error does not tell whether the API server made the binding, and the held bind call must still get an
            # answer.
            _log.exception(
                "a binding failed with an unexpected error; whether it was made is looked up; please report this error"
            )
            outcome = Unknown(type(error).__name__)
        self._observe(type(outcome).__name__.lower())
        self._binding_ended(asyncio.current_task())
        match outcome:
            case Done():
                waiting = self._held.get(bind.uid)
                # A call that names another node may have replaced the held call for which this binding was made.
                same = waiting is None or waiting.node == bind.node
                self._answer(bind.uid, BOUND if same else Reason.PLAN_CHANGED.text)
                self._done[bind.uid] = bind.node
                if (waiting is None or not same) and self._ledger.snapshot.rules.commit_first:
                    self.events.bound(bind)
                self._ledger.post(BindDone(bind.uid, bind.node))
            case Refused():
                self._answer(bind.uid, f"{Reason.BIND_FAILED.text}: {shortened(outcome.words)}")
                # Another binding of the same pod, whose answer was lost or has not come yet, may still succeed.
                other = bind.uid in self._lost or bind.uid in self._in_flight.values()
                said = "" if outcome is NOT_LEADING else shortened(outcome.words)
                self._ledger.post(BindUnknown(bind.uid) if other else BindRefused(bind.uid, said))
            case Unknown():
                self._answer(bind.uid, UNKNOWN_OUTCOME)
                self._ledger.post(BindUnknown(bind.uid))
                self._ask_about(bind, outcome.why)

    def _binding_ended(self, task: asyncio.Task[None] | None) -> None:
        """Remove a binding whose outcome is known from the bindings in flight.

        The binding is removed before its outcome is reported. Otherwise, if two bindings of a pod are refused at the
        same time, each would be reported as undecided because of the other.
        """
        if task is not None:
            self._in_flight.pop(task, None)

    def _ask_about(self, bind: Bind, why: str) -> None:
        at = self._ledger.clock.monotonic()
        if bind.uid in self._lost:
            self._lost[bind.uid].at, self._lost[bind.uid].why = at, why
            return
        asking = asyncio.create_task(self._find_out(bind))
        self._lost[bind.uid] = LostBinding(at, why, asking)
        asking.add_done_callback(lambda _: self._lost.pop(bind.uid))

    async def _find_out(self, bind: Bind) -> None:
        """Read the pod until it shows the outcome of a lost binding, instead of waiting for the pod's watch, which may
        be slow or stalled.
        """
        clock = self._ledger.clock
        pause, longest = LOOK_SECONDS
        while True:
            await clock.sleep(pause)
            if not self._is_open(bind):
                return
            pause = min(2 * pause, longest)
            too_late = self._is_too_late_to_land(bind.uid)
            try:
                pod = await self._api.get(Ref(PODS, bind.namespace, bind.name))
            except ClusterError:
                continue
            if not self._is_open(bind):
                return
            if pod is None or text(part(pod, "metadata"), "uid") != bind.uid:
                self._ledger.post(BindRefused(bind.uid, ""))
                return
            if node := text(part(pod, "spec"), "nodeName"):
                self._ledger.post(BindDone(bind.uid, node))
                return
            if too_late and self._is_too_late_to_land(bind.uid):
                self._ledger.post(BindRefused(bind.uid, shortened(self._lost[bind.uid].why)))
                return

    def _is_too_late_to_land(self, uid: str) -> bool:
        """Tell whether no binding of the pod can be made any more.

        This is true if the last binding whose answer was lost is so old that the API server no longer carries it out,
        and no other binding of the pod is in flight.
        """
        over = self._ledger.clock.monotonic() - self._lost[uid].at >= LATE_SECONDS
        return over and uid not in self._in_flight.values()

    def _is_open(self, bind: Bind) -> bool:
        """Tell whether the ledger still waits for the outcome of this binding."""
        snapshot = self._ledger.snapshot
        pod = snapshot.pods.get(bind.uid)
        return pod is not None and bind.uid in snapshot.gang(pod.job_uid).in_flight

    def _notes(self, bind: Bind) -> dict[str, str]:
        """Return the annotations that are written with a binding: the pod's slot, its deletion cost, the leader's name.

        After a restart the slot distinguishes the members of a pod group from its other pods. The deletion cost makes
        the workload's controller (such as the ReplicaSet controller) remove the highest slot first.
        """
        snapshot = self._ledger.snapshot
        pod = snapshot.pods.get(bind.uid)
        job = snapshot.jobs.get(pod.job_uid) if pod is not None else None
        kind = KINDS.get(job.kind) if job is not None else None
        slot = {SLOT: str(bind.slot)} if job is None or job.kind != LONE_POD else {}
        cost = deletion_cost(bind.slot.index) if kind is not None and kind.cost else {}
        return slot | cost | ({LEADER: self._leader} if self._leader else {})

    async def close(self) -> None:
        """Refuse all held bind calls and all that still come, except those whose binding is in flight, and wait for the
        bindings in flight.

        A call whose binding is in flight gets the outcome of that binding.
        """
        self._closed = True
        waiting = sorted(self._held.keys() - set(self._in_flight.values()))
        for uid in waiting:
            self._answer(uid, Reason.NOT_LEADING.text)
        if waiting:
            # a stopped ledger makes no step; `Ledger.tick` has raised the reason for the stop
            with suppress(LedgerStoppedError):
                self._ledger.step(*map(BindDropped, waiting))
        for lost in self._lost.values():
            lost.asking.cancel()
        while self._in_flight:
            await asyncio.wait(self._in_flight)


def _retrieve(leaving: asyncio.Future[None]) -> None:
    """Read the exception of a finished future, if it has one, because otherwise asyncio logs that it was never read.

    The exception itself is ignored: a connection that ended with an error is closed like any other.
    """
    if not leaving.cancelled():
        leaving.exception()

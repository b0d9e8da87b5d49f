"""Kohort in virtual time: the live service's ``step``, verdicts and desired state, on the simulated world.

Facts come from the world's history, and calls of verbs from the simulated kube-scheduler. Effects and orders become
writes to the world after a delay (``Delays``), and their outcomes come back as events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

from lab.sim.engine import Engine
from lab.sim.objects import PLAN, SLOT, WAKE, PodObject, WorldChange, WorldRefusal, facts
from lab.sim.pods.simulatedscheduler import KubeScheduler, NodeChoice
from lab.sim.pods.world import SimulatedWorld
from policy.answers.verdict import filter_pod
from policy.cluster.actions import Bind, Effect, Instruction, RefuseBind
from policy.cluster.events import BindDone, BindHeld, BindRefused, Event, NodeNotOffered, Synced, Tick
from policy.cluster.orders import Desired
from policy.cluster.snapshot import Rules, Snapshot
from policy.desired import desired
from policy.step import step
from policy.systems.base import Policy


class Gating(Enum):
    """When new pods are created with the gate (the setting ``gate``)."""

    WHEN_QUEUED = "when-queued"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Delays:
    """Durations in seconds: a watch event's delivery, gathering a batch, a binding, a controller's pass, the tick."""

    watch_seconds: float = 0.02
    batch_seconds: float = 0.01
    bind_seconds: float = 0.02
    controller_seconds: float = 0.05
    tick_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """One step as reported to an observer: its events, its effects, and the state after it."""

    at: float
    snapshot: Snapshot
    events: tuple[Event, ...] = ()
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """How Kohort is run; ``nominate_above``: with more nodes than this, members are nominated to their nodes."""

    rules: Rules = field(default_factory=Rules)
    delays: Delays = field(default_factory=Delays)
    gating: Gating = Gating.WHEN_QUEUED
    nominate_above: int = 500


class SimulatedService:
    """Ledger, verbs and controller; it is the chooser of the kube-scheduler, which must be set as ``scheduler``."""

    def __init__(
        self,
        world: SimulatedWorld,
        engine: Engine[Callable[[], object]],
        policy: Policy,
        settings: ServiceSettings,
        on_step: Callable[[SimulatedStep], None],
    ) -> None:
        self._world, self._engine, self._policy, self._settings = world, engine, policy, settings
        self._on_step = on_step
        self._inbox: list[Event] = []
        self._due = self._controlling = False
        self._timer: tuple[float, int] | None = None
        self.scheduler: KubeScheduler | None = None
        self.snapshot = Snapshot(rules=settings.rules)
        world.set_gating(settings.gating is Gating.ALWAYS)
        self._set_timer()

    # -- the watch and the ledger --------------------------------------------------------------

    def watch(self, changes: Iterable[WorldChange]) -> None:
        """Queue the facts of these changes for the next step; the first call has the initial lists of all watches."""
        events = [event for change in changes if (event := facts(change)) is not None]
        self._post(*events, *(() if self.snapshot.synced else (Synced(),)))

    def _post(self, *events: Event) -> None:
        self._inbox += events
        if not self._due:
            self._due = True
            self._later(self._settings.delays.batch_seconds, self._step)

    def _later(self, seconds: float, do: Callable[[], None]) -> int:
        return self._engine.schedule(self._world.now + seconds, do)

    def _step(self) -> None:
        events, self._inbox, self._due = tuple(self._inbox), [], False
        self.snapshot, effects = step(self.snapshot, events, self._policy, self._world.now)
        self._on_step(SimulatedStep(self._world.now, self.snapshot, events, effects))
        for effect in effects:
            if isinstance(effect, Instruction):  # the desired state follows from the snapshot
                self._carry_out(effect)
        if not self._controlling:
            self._controlling = True
            self._later(self._settings.delays.controller_seconds, self._control)
        self._set_timer()

    def _set_timer(self) -> None:
        """Schedule the next step for the next deadline, the policy's next moment, or the tick."""
        now = self._world.now
        dues = [now + self._settings.delays.tick_seconds, self._policy.next_moment(now)]
        for gang in self.snapshot.gangs.values():
            dues += [at for at in gang.moments if at > now]
        if self._timer is not None:
            self._engine.cancel(self._timer[1])
        self._timer = min(dues), self._engine.schedule(min(dues), lambda: self._post(Tick()))

    # -- verbs ---------------------------------------------------------------------------------

    def choose(self, pod: PodObject, feasible: list[str]) -> NodeChoice:
        """Answer the filter verb from the current snapshot, without waiting for a decision."""
        offer = filter_pod(self.snapshot, pod.uid, feasible)
        if offer.missed:
            self._post(NodeNotOffered(pod.uid, offer.missed))
        if offer.reason is not None:
            return NodeChoice(message=offer.reason.text)
        return NodeChoice(offer.nodes[0])

    def bind(self, pod: PodObject, node: str) -> None:
        """Answer the bind verb: a step decides whether the bind is held, made or refused."""
        self._post(BindHeld(pod.uid, node))

    # -- the executor --------------------------------------------------------------------------

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Bind():
                self._later(self._settings.delays.bind_seconds, lambda: self._make_binding(instruction))
            case RefuseBind(uid, reason):
                self._tell(lambda scheduler: scheduler.refused(uid, reason.text))
            case _:
                assert_never(instruction)

    def _tell(self, what: Callable[[KubeScheduler], None]) -> None:
        if self.scheduler is not None:
            what(self.scheduler)

    def _make_binding(self, order: Bind) -> None:
        notes = {PLAN: order.plan, SLOT: str(order.slot)}
        refusal = self._world.bind(order.namespace, order.name, order.node, uid=order.uid, annotations=notes)
        there = self._world.store.pods.get(order.uid)
        if refusal is None or (there is not None and there.node == order.node):
            self._tell(lambda scheduler: scheduler.bound(order.uid))
            self._post(BindDone(order.uid, order.node))
        else:
            self._tell(lambda scheduler: scheduler.refused(order.uid, refusal.message))
            self._post(BindRefused(order.uid, refusal.message))

    # -- the controller ------------------------------------------------------------------------

    def _control(self) -> None:
        """Apply the desired state of the current snapshot; retry refused writes while they are still wanted."""
        self._controlling = False
        wanted = desired(self.snapshot, self._settings.nominate_above)
        if self._settings.gating is Gating.WHEN_QUEUED and self.snapshot.synced:
            self._world.set_gating(wanted.gate)
        refused = [refusal for refusal in self._write(wanted) if refusal is not None and refusal.status != 404]
        if refused:
            self._controlling = True
            self._later(self._settings.delays.controller_seconds, self._control)

    def _write(self, wanted: Desired) -> Iterable[WorldRefusal | None]:
        world = self._world
        for order in wanted.ungate:
            yield world.ungate(order.namespace, order.name, uid=order.uid)
        for order in wanted.wake:
            yield world.annotate(order.namespace, order.name, {WAKE: order.value}, uid=order.uid)
        for order in wanted.nominate:
            yield world.nominate(order.namespace, order.name, order.value, uid=order.uid)
        for resize in wanted.replicas:
            yield world.patch_workers(
                resize.namespace, resize.name, resize.workers, uid=resize.uid, version=resize.version
            )
        for wish in wanted.suspend:
            yield world.release(wish.namespace, wish.name, wish.suspend, uid=wish.uid, version=wish.version)
        for order in (*wanted.release, *wanted.evict):
            yield world.delete_pod(order.namespace, order.name, uid=order.uid)

"""The baselines that Kohort is compared with. None of them scales a job.

``fifo-pod``: no gang; each pod is placed alone, as the default scheduler does, and half-placed jobs hold their room
(the deadlock of KOD2's experiment). ``kubeflow-spread``: jobs are admitted whole, in order of arrival, and
spread over the least allocated nodes (DRAGON's published baseline). ``locality-only``: whole jobs on the fewest nodes
(DRAGON's other baseline). ``fifo``: whole jobs strictly in order of arrival (OASiS's baseline); its variant with
backfill is in backfill.py. ``round-robin``: each whole job on the next node, which SpeCon's paper calls the default
scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar

from policy.cluster.actions import Action, Admit, Decision, Remember, Resize
from policy.cluster.constraints import ANYWHERE
from policy.cluster.gang import ADMITTED, State
from policy.cluster.job import Job, Slot, queued
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot
from policy.placement.ask import Ask
from policy.placement.gang import ask_of, barred, charge, place
from policy.placement.room import Room, idlest
from policy.placement.spread import Order, chance, in_turn, spread
from policy.systems.base import Policy
from policy.systems.evenly import admit_evenly
from policy.systems.queue import asked_workers, misfits, next_return, queue

# The policy's memory holds under this key how many members have been placed so far; the next node in turn follows.
TURN = "spread/turn"


class Retry(Enum):
    """In which order pods that found no room are tried again: by creation, or at random, as after a back-off."""

    FIFO = "fifo"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class FifoPod(Policy):
    """Places each pod for itself on the least allocated node, without a barrier, and never releases a pod.

    ``retry``: the order in which pods that found no room are tried again. ``seed``: determines that order if it is
    random (``Retry.RANDOM``).
    """

    name: ClassVar[str] = "fifo-pod"

    retry: Retry = Retry.FIFO
    seed: int = 0

    @property
    def draws(self) -> bool:
        """Whether another seed may lead to other decisions; this is so if pods are tried again in random order."""
        return self.retry is Retry.RANDOM

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Place every pod without a node on the idlest node that takes it."""
        del now  # The time is not used, because the order of the pods does not depend on it.
        room = Room.of(snapshot)
        given: dict[str, dict[Slot, str]] = {}
        verdicts: dict[str, Verdict] = {}
        for job, slot, pod in sorted(_unplaced(snapshot), key=lambda found: self._turn(snapshot, found[2])):
            role = job.role(slot.role)
            node = idlest(room, pod.requests, role.constraints if role else ANYWHERE, barred(snapshot, job))
            if node is None:
                verdicts[job.uid] = Verdict(Reason.NO_ROOM, f"{slot} fits on no node now")
                continue
            room.take(node, pod.requests)
            given.setdefault(job.uid, {})[slot] = node
        actions = tuple(_given(snapshot, uid, nodes) for uid, nodes in given.items())
        return Decision(actions, {uid: verdict for uid, verdict in verdicts.items() if uid not in given})

    def _turn(self, snapshot: Snapshot, pod: Pod) -> tuple[int, float, str]:
        drawn = chance(f"{self.seed}/{snapshot.generation}/{pod.uid}") if self.retry is Retry.RANDOM else 0
        return drawn, pod.since, pod.uid


def _unplaced(snapshot: Snapshot) -> Iterator[tuple[Job, Slot, Pod]]:
    """Yield the live pods that have no node, of all jobs that wait or run."""
    for uid in sorted(snapshot.jobs):
        job, gang = snapshot.jobs[uid], snapshot.gang(uid)
        if not queued(job) or gang.state is State.RELEASING:
            continue
        for pod in snapshot.pods_of(uid):
            if pod.slot is None or pod.node or pod.ended or pod.terminating:
                continue
            if gang.nodes.get(pod.slot) not in snapshot.nodes and job.role(pod.slot.role) is not None:
                yield job, pod.slot, pod


def _given(snapshot: Snapshot, uid: str, nodes: dict[Slot, str]) -> Action:
    gang = snapshot.gang(uid)
    if gang.state in ADMITTED:
        return Resize(uid, gang.workers, nodes)
    return Admit(uid, asked_workers(snapshot.jobs[uid]), nodes, whole=False)


@dataclass(frozen=True, slots=True)
class KubeflowSpread(Policy):
    """Starts whole jobs in order of arrival, with the workers they ask for; it scales no job and ignores locality.

    ``backfill``: every job that fits is started, as in DRAGON's code; without it no job passes the oldest one.
    ``seed``: determines the random choice among nodes that count as equal; below 0 the first of them by name is taken.
    ``order``: which nodes count as equal. Under ``chance`` all nodes do, because whole-numbered scores made nearly all
    nodes equal in older kube-schedulers. Under ``turn`` the nodes take turns, so none count as equal.
    """

    name: ClassVar[str] = "kubeflow-spread"

    backfill: bool = True
    seed: int = -1
    order: Order = Order.APART

    @property
    def draws(self) -> bool:
        """Whether another seed may lead to other decisions; this is so unless the nodes take turns."""
        return self.order is not Order.TURN

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Start whole jobs, oldest first; with ``backfill`` also those behind a job that does not fit."""
        if self.order is Order.TURN:
            return self._in_turn(snapshot, now)
        return first_come(self, snapshot, now, self._spread, backfill=self.backfill)

    def next_change(self, snapshot: Snapshot, now: float) -> float:
        """Return when the next back-off ends; nothing else changes the decision by the mere passing of time."""
        return next_return(snapshot, now)

    def _in_turn(self, snapshot: Snapshot, now: float) -> Decision:
        known = snapshot.memory.get(TURN)
        turn = before = known if isinstance(known, int) else 0

        def placed(room: Room, ask: Ask, _: Job) -> dict[Slot, str] | None:
            nonlocal turn
            nodes = in_turn(room, ask, turn)
            turn += len(nodes or ())
            return nodes

        found = first_come(self, snapshot, now, placed, backfill=self.backfill)
        remember = (Remember(TURN, turn),) if turn != before else ()
        return replace(found, actions=(*found.actions, *remember))

    def _spread(self, room: Room, ask: Ask, job: Job) -> dict[Slot, str] | None:
        return spread(room, ask, f"{self.seed}/{job.uid}" if self.seed >= 0 else "", self.order)


@dataclass(frozen=True, slots=True)
class LocalityOnly(Policy):
    """DRAGON's baseline without scaling, its "locality-aware scheduler": it starts whole jobs on the fewest nodes.

    Jobs start in order of arrival, with the workers they ask for. A job that fits may pass older jobs that do not
    (AFCFS in the paper).
    """

    name: ClassVar[str] = "locality-only"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Start every waiting job that fits, in order of arrival."""
        return first_come(self, snapshot, now, lambda room, ask, _: place(room, ask), backfill=True)

    def next_change(self, snapshot: Snapshot, now: float) -> float:
        """Return when the next back-off ends; nothing else changes the decision by the mere passing of time."""
        return next_return(snapshot, now)


@dataclass(frozen=True, slots=True)
class Fifo(Policy):
    """OASiS's baseline: whole jobs strictly in order of arrival, at the workers they ask for, spread over the nodes."""

    name: ClassVar[str] = "fifo"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Start whole jobs in order of arrival, until one does not fit."""
        return first_come(self, snapshot, now, lambda room, ask, _: spread(room, ask), backfill=False)

    def next_change(self, snapshot: Snapshot, now: float) -> float:
        """Return when the next back-off ends; nothing else changes the decision by the mere passing of time."""
        return next_return(snapshot, now)


@dataclass(frozen=True, slots=True)
class RoundRobin(Policy):
    """SpeCon's baseline "DS": jobs are placed as SpeCon first places them, and never moved (section VI-A)."""

    name: ClassVar[str] = "round-robin"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Start whole jobs, first come, first served, each on the next node."""
        return admit_evenly(snapshot, now)


Placement = Callable[[Room, Ask, Job], dict[Slot, str] | None]


def first_come(name: Hashable, snapshot: Snapshot, now: float, placement: Placement, *, backfill: bool) -> Decision:
    """Return the decision that starts whole jobs in order of arrival, with the workers they ask for.

    ``placement``: returns a node for each member of a job, or None if there is no room. ``name``: identifies
    ``placement`` with all its parameters, because requests that found no room are cached under it. ``backfill``:
    younger jobs may pass the oldest job that finds no room.
    """
    found = queue(snapshot, now)
    verdicts, actions = dict(found.barred), list[Action]()
    room, head = Room.of(snapshot), None
    known = misfits(snapshot, name)
    # crowded_out has the requests that found no room after jobs had started in this cycle. They are not added to
    # ``known``, so that the next cycle tries them again.
    crowded_out: set[Ask] = set()
    for job in found.ready:
        if head is not None and not backfill:
            verdicts[job.uid] = Verdict(Reason.BEHIND, f"behind {head.key}", head.uid)
            continue
        ask = ask_of(snapshot, job, workers := asked_workers(job))
        nodes = None if ask in known or ask in crowded_out else placement(room, ask, job)
        if nodes is not None:
            charge(room, ask, nodes)
            actions.append(Admit(job.uid, workers, nodes))
        else:
            head = head or job
            (crowded_out if actions else known).add(ask)
            verdicts[job.uid] = ask.no_room
    return Decision(tuple(actions), verdicts)

"""KOD2 (Jeong and Yu, KTCCS 11(7), 2022): priority weights, preemptive scheduling, scale-in and scale-out.

Section numbers are those of the paper; where its text is silent the decision is stated at the line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from operator import itemgetter

from policy.cluster.actions import Action, Admit, Decision, Resize
from policy.cluster.gang import Gang, State
from policy.cluster.model import Job, Slot
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import Resources
from policy.cluster.snapshot import Snapshot, queued
from policy.placement.gang import Ask, ask_of, charge, place
from policy.placement.grow import grow, leaving, sheds
from policy.placement.holes import ask_for_holes, closed_for, holes, into_holes
from policy.placement.room import Room
from policy.placement.shrink import NOBODY, Offer, Shrink, plan_shrink
from policy.systems.queue import in_order, queue

SAME_WEIGHT = 1e-9
SMALLEST_DEMAND = 1e-6
# A job whose plans keep failing may not have others shrunk and grown for ever: two turns in ten minutes at most (L3).
TURNS = 2
TURN_SECONDS = 600.0


class Gate(Enum):
    """When the head may start: ``LOOSE`` whenever it fits; ``STRICT`` only if nobody runs with more weight."""

    LOOSE = "loose"
    STRICT = "strict"


class ScaleOut(Enum):
    """Where a job grows. ``ANYWHERE``: Algorithm 3 as printed. ``TOGETHER``: at home, if one node could hold it all.

    A remote worker adds less than a local one, and the room it takes is the next job's home.
    """

    TOGETHER = "together"
    ANYWHERE = "anywhere"


class WeightMode(Enum):
    """``PAPER``: m / (c + g), Eq. 1. ``SMALL_FIRST``: 1 / (m (c + g)), which favours the smaller gang (1c.1)."""

    PAPER = "paper"
    SMALL_FIRST = "small-first"


@dataclass(frozen=True, slots=True)
class Kod2:
    """KOD2's parameters. Times in seconds. The paper gives no value for STARVELIMIT."""

    starve_limit: float = 600.0
    gate: Gate = Gate.LOOSE
    backfill: bool = True
    cooldown: float = 60.0
    weight_mode: WeightMode = WeightMode.PAPER
    scale_out: ScaleOut = ScaleOut.TOGETHER

    @property
    def name(self) -> str:
        """``kod2``."""
        return "kod2"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Algorithm 1: start what fits, heaviest first; scale in for the head; scale out when nothing waits."""
        return Pass(self, snapshot, now).run()

    def weights(self, snapshot: Snapshot) -> Callable[[Job], float]:
        """W' (section 3.1): minimum workers over the normalised request of one worker; sorted and compared on this."""
        largest = cache(lambda: largest_node(snapshot))  # not looked at where nobody is weighed
        return lambda job: self._weigh(job, largest())

    def _weigh(self, job: Job, largest: Mapping[str, int]) -> float:
        """W' against the CPU and memory of the largest node."""
        requests = job.worker.requests if job.worker else job.requests(0)
        asked = sum(requests[name] / amount for name, amount in largest.items() if amount)
        minimum = max(1, job.min_workers)
        if self.weight_mode is WeightMode.SMALL_FIRST:
            return job.utility / (minimum * max(asked, SMALLEST_DEMAND))
        return job.utility * minimum / max(asked, SMALLEST_DEMAND)

    def published(self, weight: float) -> float:
        """W (Eq. 1): the sigmoid of W'; in (0.5, 1]."""
        return 1.0 / (1.0 + math.exp(-weight))

    def starving(self, job: Job, now: float) -> bool:
        """Whether a waiting job has waited longer than STARVELIMIT."""
        return now - job.arrival > self.starve_limit


def largest_node(snapshot: Snapshot) -> dict[str, int]:
    """C and G: CPU and memory of the largest node (1a)."""
    nodes = [node.allocatable for node in snapshot.nodes.values()]
    return {name: max((node[name] for node in nodes), default=0) for name in ("cpu", "memory")}


class Pass:
    """One pass of Algorithm 1 on a working copy of the room; ``snapshot`` itself is not changed."""

    def __init__(self, policy: Kod2, snapshot: Snapshot, now: float) -> None:
        self.policy = policy
        self.snapshot = snapshot
        self.now = now
        self.actions: list[Action] = []
        self.verdicts: dict[str, Verdict] = {}
        running = (job for job in snapshot.running() if queued(job))
        self.gangs: dict[str, Gang] = {job.uid: snapshot.gang(job.uid) for job in running}
        self.scaled: set[str] = set()
        self.mending: Job | None = None
        self.misfits: set[Ask] = set()
        self._weight = policy.weights(snapshot)
        self._room: Room | None = None
        self._heaviest: Job | None = None  # of ``gangs``, once somebody has asked

    @property
    def room(self) -> Room:
        """Free room as this pass has left it; made only when somebody asks for it."""
        if self._room is None:
            self._room = Room.of(self.snapshot)
        return self._room

    def run(self) -> Decision:
        """Lines 1-40 of Algorithm 1; a gang that has lost members comes before the queue."""
        self._mend()
        ready, barred = self._queues()
        self.verdicts.update(barred)
        blocked = self._admit(ready)
        if not blocked and self.mending is None:
            self._scale_out()
        return Decision(tuple(self.actions), self.verdicts)

    # -- gangs in repair -----------------------------------------------------------------------

    def _mend(self) -> None:
        """Members that found no room: shrink lighter jobs for them, or else keep what they could use from all others.

        It lasts until the gang's repair deadline; then it is released and queues again.
        """
        lame = [(u, gang) for u, gang in self.gangs.items() if gang.state is State.REPAIRING and gang.whole]
        for uid, gang in sorted(lame, key=itemgetter(0)):
            job = self.snapshot.jobs[uid]
            missing = holes(self.snapshot, job, gang)
            ask = ask_for_holes(self.snapshot, job, gang, missing)
            if ask is None:
                continue
            plan = None if gang.waits_for else plan_shrink(self.room, ask, self._offers(job, self._weight(job)))
            if plan is None:
                self.mending = job
                self._room = self.room.but(closed_for(self.room, job, missing))
                continue
            self._shrink(plan, job)
            nodes = into_holes(plan.nodes, missing)
            charge(self.room, ask, plan.nodes)
            self.actions.append(Resize(uid, gang.workers, nodes, waits_for=plan.waits_for))
            self.gangs[uid] = replace(gang, nodes={**gang.nodes, **nodes}, waits_for=plan.waits_for)

    # -- the queue -----------------------------------------------------------------------------

    def _queues(self) -> tuple[list[Job], dict[str, Verdict]]:
        found = queue(self.snapshot, self.now)
        ready = in_order(found.ready, self._weight, lambda job: self.policy.starving(job, self.now))
        return ready, dict(found.barred)

    def _key(self, job: Job) -> float:
        """A starved job comes before every weight; the base weight counts again once it runs."""
        return math.inf if self.policy.starving(job, self.now) else self._weight(job)

    def _admit(self, ready: list[Job]) -> bool:
        """Step 4. Returns whether a job waits for room (then nobody is scaled out)."""
        blocked_by: Job | None = None
        for job in ready:
            if blocked_by is not None and not self._may_backfill(blocked_by):
                self.verdicts[job.uid] = Verdict(Reason.BEHIND, f"behind {blocked_by.key}", blocked_by.uid)
            elif not self._start(job, head=blocked_by is None):
                blocked_by = blocked_by or job
        return blocked_by is not None

    def _may_backfill(self, head: Job) -> bool:
        """A starved head is passed by nobody, or a stream of small jobs would keep a large gang waiting for ever."""
        return self.policy.backfill and not self.policy.starving(head, self.now)

    def _start(self, job: Job, *, head: bool) -> bool:
        heavier = self._heavier_running(job)
        if self.policy.gate is Gate.STRICT and heavier is not None:
            self.verdicts[job.uid] = Verdict(Reason.BEHIND, f"{heavier.key} runs with more weight", heavier.uid)
            return False
        ask = ask_of(self.snapshot, job, job.min_workers)
        nodes = None if ask in self.misfits else place(self.room, ask)
        if nodes is not None:
            charge(self.room, ask, nodes)
            self._take(job, nodes, ())
            return True
        self.misfits.add(ask)
        if head and self._scale_in(job, ask, may_shrink=heavier is None):
            return True
        self.verdicts[job.uid] = self._no_room(ask)
        return False

    def _no_room(self, ask: Ask) -> Verdict:
        if self.mending is not None:
            return Verdict(Reason.BEHIND, f"{self.mending.key} is being repaired", self.mending.uid)
        return Verdict(Reason.NO_ROOM, ask.text)

    def _heavier_running(self, job: Job) -> Job | None:
        """Line 5: the heaviest running job that has more weight than this one."""
        if self._heaviest is None:
            self._heaviest = max((self.snapshot.jobs[uid] for uid in self.gangs), key=self._rank, default=None)
        if self._heaviest is None or self._key(job) >= self._weight(self._heaviest) - SAME_WEIGHT:
            return None
        return self._heaviest

    def _rank(self, job: Job) -> tuple[float, str]:
        return self._weight(job), job.uid

    def _take(self, job: Job, nodes: Mapping[Slot, str], waits_for: Collection[str]) -> None:
        self.actions.append(Admit(job.uid, job.min_workers, nodes, waits_for))
        self.gangs[job.uid] = Gang(job.uid, State.PLANNED, nodes=nodes, workers=job.min_workers, waits_for=waits_for)
        if self._heaviest is not None:
            self._heaviest = max(self._heaviest, job, key=self._rank)

    # -- Algorithm 2 ---------------------------------------------------------------------------

    def _scale_in(self, job: Job, ask: Ask, *, may_shrink: bool) -> bool:
        """Take workers from lighter jobs so that the job fits; room that is leaving anyway is counted first."""
        offers = self._offers(job, self._key(job)) if may_shrink else self._leaving()
        plan = plan_shrink(self.room, ask, offers)
        if plan is None:
            return False
        self._shrink(plan, job)
        charge(self.room, ask, plan.nodes)
        self._take(job, plan.nodes, plan.waits_for)
        self.misfits.clear()
        return True

    def _offers(self, job: Job, key: float) -> list[Offer]:
        victims = self._victims(job, key)
        given = [Offer(v.uid, tuple(sheds(self.snapshot, v, self.gangs[v.uid]))) for v in victims]
        return [*self._leaving(), *given]

    def _leaving(self) -> list[Offer]:
        claimed = {uid for gang in self.gangs.values() for uid in gang.waits_for}
        return [Offer(NOBODY, (shed,)) for shed in leaving(self.snapshot) if shed.pod_uid not in claimed]

    def _victims(self, job: Job, key: float) -> list[Job]:
        """Running jobs, lightest first, the latest first among equals; never a heavier one, nor an equal older one."""
        found = []
        for uid, gang in sorted(self.gangs.items()):
            victim = self.snapshot.jobs[uid]
            weight = self._weight(victim)
            equal = abs(weight - key) <= SAME_WEIGHT
            lighter = weight < key - SAME_WEIGHT or (equal and victim.arrival > job.arrival)
            if lighter and victim.elastic and self._may_shrink(gang, job):
                found.append((weight, -victim.arrival, victim.key, victim))
        return [victim for *_, victim in sorted(found, key=lambda f: f[:3])]

    def _may_shrink(self, gang: Gang, job: Job) -> bool:
        if gang.state is not State.RUNNING or gang.job_uid in self.scaled or gang.job_uid == job.uid:
            return False
        turns = sum(1 for turn in gang.turns if self.now - turn < TURN_SECONDS)
        return turns < TURNS or not self.snapshot.gang(job.uid).attempts

    def _shrink(self, plan: Shrink, job: Job) -> None:
        for uid, count in plan.taken.items():
            gang = self.gangs[uid]
            self.actions.append(Resize(uid, gang.workers - count, on_behalf_of=job.uid))
            self.gangs[uid] = replace(gang, workers=gang.workers - count)
            self.scaled.add(uid)
        self._room = plan.room

    # -- Algorithm 3 ---------------------------------------------------------------------------

    def _scale_out(self) -> None:
        """Heaviest first; each takes what it can up to its maximum. Never while room is being freed for somebody."""
        if any(gang.waits_for for gang in self.gangs.values()):
            return
        jobs = [job for uid in self.gangs if self._may_grow(job := self.snapshot.jobs[uid])]
        full: set[Resources] = set()
        for job in sorted(jobs, key=lambda j: (-self._weight(j), j.arrival, j.key)):
            together = self.policy.scale_out is ScaleOut.TOGETHER
            added = grow(self.snapshot, self.room, job, self.gangs[job.uid], full, together=together)
            if added:
                self.actions.append(Resize(job.uid, self.gangs[job.uid].workers + len(added), added))

    def _may_grow(self, job: Job) -> bool:
        gang = self.gangs[job.uid]
        # One whose planned nodes are refused is planned anew at its minimum: it grows once it runs, or it would turn.
        sure = gang.state is State.RUNNING or (gang.state is State.PLANNED and not self.snapshot.gang(job.uid).misses)
        settled = sure and job.uid not in self.scaled and not gang.held
        rested = gang.grew is not False or gang.scaled_at is None or self.now - gang.scaled_at >= self.policy.cooldown
        return job.elastic and gang.workers < job.max_workers and settled and rested

"""KOD2 (Jeong and Yu, KTCCS 11(7), 2022): priority weights, preemptive scheduling, scale-in and scale-out.

Section numbers are those of the paper; where its text is silent the decision is stated at the line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from policy.cluster.actions import Action, Admit, Decision, Resize
from policy.cluster.gang import Gang, State
from policy.cluster.model import WORKER, Job, Slot
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import NOTHING
from policy.cluster.snapshot import Snapshot
from policy.placement.gang import Ask, ask_of, charge, place, worker_demand
from policy.placement.grow import Shed, node_for_worker, sheds
from policy.placement.room import Room
from policy.systems.queue import queue

SAME_WEIGHT = 1e-9
SMALLEST_DEMAND = 1e-6


class Gate(Enum):
    """When the head of the queue may start: ``LOOSE`` whenever it fits; ``STRICT`` only if nobody runs with more weight."""

    LOOSE = "loose"
    STRICT = "strict"


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

    @property
    def name(self) -> str:
        """``kod2``."""
        return "kod2"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Algorithm 1: start what fits, heaviest first; scale in for the head; scale out when nothing waits for room."""
        return Pass(self, snapshot, now).run()

    def raw_weight(self, job: Job, snapshot: Snapshot) -> float:
        """W' (section 3.1): minimum workers over the normalised request of one worker; sorted and compared on this."""
        largest = _largest_node(snapshot)
        requests = job.worker.requests if job.worker else job.requests(0)
        asked = sum(requests[name] / amount for name, amount in largest.items() if amount)
        minimum = max(1, job.min_workers)
        if self.weight_mode is WeightMode.SMALL_FIRST:
            return job.utility / (minimum * max(asked, SMALLEST_DEMAND))
        return job.utility * minimum / max(asked, SMALLEST_DEMAND)

    def weight(self, job: Job, snapshot: Snapshot) -> float:
        """W (Eq. 1): the sigmoid of w', published to people; in (0.5, 1]."""
        return 1.0 / (1.0 + math.exp(-self.raw_weight(job, snapshot)))

    def starving(self, job: Job, now: float) -> bool:
        """Whether a waiting job has waited longer than STARVELIMIT."""
        return now - job.arrival > self.starve_limit


def _largest_node(snapshot: Snapshot) -> dict[str, int]:
    """C and G: CPU and memory of the largest node (1a)."""
    nodes = [node.allocatable for node in snapshot.nodes.values()]
    return {name: max((node[name] for node in nodes), default=0) for name in ("cpu", "memory")}


class Pass:
    """One pass of Algorithm 1 on a working copy of the room; ``snapshot`` itself is not changed."""

    def __init__(self, policy: Kod2, snapshot: Snapshot, now: float) -> None:
        self.policy = policy
        self.snapshot = snapshot
        self.now = now
        self.room = Room.of(snapshot)
        self.actions: list[Action] = []
        self.verdicts: dict[str, Verdict] = {}
        self.gangs: dict[str, Gang] = {job.uid: snapshot.gang(job.uid) for job in snapshot.running()}
        self.scaled: set[str] = set()

    def run(self) -> Decision:
        """Lines 1-40 of Algorithm 1."""
        self._obey_bounds()
        ready, barred = self._queues()
        self.verdicts.update(barred)
        blocked = self._admit(ready)
        if not blocked:
            self._scale_out()
        return Decision(tuple(self.actions), self.verdicts)

    # -- the queue -----------------------------------------------------------------------------

    def _queues(self) -> tuple[list[Job], dict[str, Verdict]]:
        found = queue(self.snapshot, self.now)
        ready = sorted(found.ready, key=lambda job: (-self._key(job), job.arrival, job.key))
        return ready, dict(found.barred)

    def _key(self, job: Job) -> float:
        """A starved job comes before every weight; the base weight counts again once it runs."""
        return math.inf if self.policy.starving(job, self.now) else self.policy.raw_weight(job, self.snapshot)

    def _admit(self, ready: list[Job]) -> bool:
        """Step 4. Returns whether a job waits for room (then nobody is scaled out)."""
        blocked_by: Job | None = None
        for job in ready:
            if blocked_by is not None and not self._may_backfill(blocked_by):
                self.verdicts[job.uid] = Verdict(Reason.BEHIND, f"behind {blocked_by.key}", blocked_by.uid)
            elif not self._start(job, may_scale_in=blocked_by is None):
                blocked_by = blocked_by or job
        return blocked_by is not None

    def _may_backfill(self, head: Job) -> bool:
        """A starved head is passed by nobody, or a stream of small jobs would keep a large gang waiting for ever."""
        return self.policy.backfill and not self.policy.starving(head, self.now)

    def _start(self, job: Job, *, may_scale_in: bool) -> bool:
        heaviest = self._passes_gate(job)
        if self.policy.gate is Gate.STRICT and not heaviest:
            self.verdicts[job.uid] = Verdict(Reason.BEHIND, "a running job has more weight")
            return False
        ask = ask_of(self.snapshot, job, job.min_workers)
        nodes = place(self.room, ask)
        if nodes is not None:
            self._take(job, ask, nodes, frozenset())
            return True
        if may_scale_in and heaviest and self._scale_in(job, ask):
            return True
        self.verdicts[job.uid] = Verdict(Reason.NO_ROOM, f"needs {_words(ask)}")
        return False

    def _passes_gate(self, job: Job) -> bool:
        """Line 5: at least the largest weight among the running jobs."""
        weights = [self.policy.raw_weight(self.snapshot.jobs[uid], self.snapshot) for uid in self.gangs]
        return self._key(job) >= max(weights, default=-math.inf) - SAME_WEIGHT

    def _take(self, job: Job, ask: Ask, nodes: dict[Slot, str], waits_for: frozenset[str]) -> None:
        charge(self.room, ask, nodes)
        self.actions.append(Admit(job.uid, job.min_workers, nodes, waits_for))
        self.gangs[job.uid] = Gang(job.uid, State.PLANNED, nodes=nodes, workers=job.min_workers, waits_for=waits_for)

    # -- Algorithm 2 ---------------------------------------------------------------------------

    def _scale_in(self, job: Job, ask: Ask) -> bool:
        """Take workers from lighter jobs so that the job fits; all of the plan or nothing of it."""
        victims = self._victims(job)
        plan = self._cheapest_on_one_node(ask, victims) or self._shed_until(ask, victims, None)
        if plan is None:
            return False
        trial = _without(self.room, plan)
        nodes = place(trial, ask)
        if nodes is None:
            return False
        for victim in victims:
            self._shrink(victim, [shed for owner, shed in plan if owner.uid == victim.uid], job)
        self.room = trial
        self._take(job, ask, nodes, frozenset(shed.pod_uid for _, shed in plan if shed.pod_uid))
        return True

    def _victims(self, job: Job) -> list[Job]:
        """Running jobs, lightest first, the latest first among equals; never a heavier one, nor an equal older one."""
        key = self._key(job)
        found = []
        for uid, gang in sorted(self.gangs.items()):
            victim = self.snapshot.jobs[uid]
            weight = self.policy.raw_weight(victim, self.snapshot)
            equal = abs(weight - key) <= SAME_WEIGHT
            if gang.state is not State.RUNNING or uid in self.scaled or not victim.elastic:
                continue
            if weight < key - SAME_WEIGHT or (equal and victim.arrival > job.arrival):
                found.append((weight, -victim.arrival, victim.key, victim))
        return [victim for *_, victim in sorted(found, key=lambda f: f[:3])]

    def _cheapest_on_one_node(self, ask: Ask, victims: list[Job]) -> list[tuple[Job, Shed]] | None:
        """Prefer the node on which the gang fits whole after the fewest removals (finding 4 of the study)."""
        hosts = sorted({shed.node for victim in victims for shed in self._sheds(victim)})
        plans = [plan for host in hosts if (plan := self._shed_until(ask, victims, host)) is not None]
        return min(plans, key=len, default=None)

    def _shed_until(self, ask: Ask, victims: list[Job], host: str | None) -> list[tuple[Job, Shed]] | None:
        """Lines 9-24: remove workers one by one until the gang fits (on ``host``, where one is named)."""
        plan: list[tuple[Job, Shed]] = []
        trial = self.room.branch()
        for victim in victims:
            for shed in self._useful_sheds(victim, host):
                if _fits(trial, ask, host):
                    return self._minimal(ask, plan, host)
                trial.give(shed.node, shed.requests)
                plan.append((victim, shed))
        return self._minimal(ask, plan, host) if _fits(trial, ask, host) else None

    def _useful_sheds(self, victim: Job, host: str | None) -> list[Shed]:
        """The operator removes the highest index first: for one node, all down to the victim's last worker there."""
        found = list(self._sheds(victim))
        if host is None:
            return found
        last = max((place for place, shed in enumerate(found) if shed.node == host), default=-1)
        return found[: last + 1]

    def _sheds(self, victim: Job) -> Iterator[Shed]:
        return sheds(self.snapshot, victim, self.gangs[victim.uid])

    def _minimal(self, ask: Ask, plan: list[tuple[Job, Shed]], host: str | None) -> list[tuple[Job, Shed]]:
        """Put back what is not needed, from the last victim on; a victim gives back its lowest index first."""
        kept = list(plan)
        for owner in dict.fromkeys(victim.uid for victim, _ in reversed(plan)):
            while True:
                last = max((i for i, (victim, _) in enumerate(kept) if victim.uid == owner), default=None)
                if last is None:
                    break
                fewer = kept[:last] + kept[last + 1 :]
                if not _fits(_without(self.room, fewer), ask, host):
                    break
                kept = fewer
        return kept

    def _shrink(self, victim: Job, shed: list[Shed], job: Job) -> None:
        if not shed:
            return
        gang = self.gangs[victim.uid]
        workers = gang.workers - len(shed)
        self.actions.append(Resize(victim.uid, workers, on_behalf_of=job.uid))
        self.gangs[victim.uid] = replace(gang, workers=workers)
        self.scaled.add(victim.uid)

    # -- Algorithm 3 ---------------------------------------------------------------------------

    def _scale_out(self) -> None:
        """Heaviest first; each takes what it can up to its maximum. Never while room is being freed for somebody."""
        if any(gang.waits_for for gang in self.gangs.values()):
            return
        jobs = [self.snapshot.jobs[uid] for uid in self.gangs]
        order = sorted(jobs, key=lambda j: (-self.policy.raw_weight(j, self.snapshot), j.arrival, j.key))
        for job in order:
            if self._may_grow(job):
                self._grow(job)

    def _may_grow(self, job: Job) -> bool:
        gang = self.gangs[job.uid]
        settled = gang.state in (State.RUNNING, State.PLANNED) and job.uid not in self.scaled
        rested = gang.scaled_at is None or not gang.on_behalf_of or self.now - gang.scaled_at >= self.policy.cooldown
        return job.elastic and settled and rested and not gang.held

    def _grow(self, job: Job) -> None:
        gang = self.gangs[job.uid]
        added: dict[Slot, str] = {}
        while gang.workers + len(added) < job.max_workers:
            placed = replace(gang, nodes={**gang.nodes, **added})
            node = node_for_worker(self.snapshot, self.room, job, placed)
            if node is None:
                break
            added[Slot(WORKER, gang.workers + len(added))] = node
            self.room.take(node, worker_demand(self.snapshot, job))
        if added:
            self.actions.append(Resize(job.uid, gang.workers + len(added), added))

    def _obey_bounds(self) -> None:
        """A user who lowers the maximum shrinks the job, whoever waits; one who raises the minimum grows it."""
        for uid, gang in sorted(self.gangs.items()):
            job = self.snapshot.jobs[uid]
            wanted = min(max(gang.workers, job.min_workers), job.max_workers)
            if wanted != gang.workers and job.worker is not None:
                self.actions.append(Resize(uid, wanted))
                self.gangs[uid] = replace(gang, workers=wanted)
                self.scaled.add(uid)


def _without(room: Room, plan: list[tuple[Job, Shed]]) -> Room:
    trial = room.branch()
    for _, shed in plan:
        trial.give(shed.node, shed.requests)
    return trial


def _fits(trial: Room, ask: Ask, host: str | None) -> bool:
    if host is None:
        return place(trial, ask) is not None
    only = Room({host: trial.nodes[host]}, {host: trial.free(host)}) if host in trial.nodes else None
    return only is not None and place(only, ask) is not None


def _words(ask: Ask) -> str:
    whole = ask.whole - NOTHING
    return ", ".join(f"{name} {whole[name]}" for name in whole if name != "pods")

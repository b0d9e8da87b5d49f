"""KOD2 (Jeong and Yu, KTCCS 11(7), 2022): priority weights, preemptive scheduling, scale-in and scale-out.

Section numbers are those of the paper; where its text is silent the decision is stated at the line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from typing import Any

from policy.cluster.actions import Decision
from policy.cluster.arranged import Place
from policy.cluster.filing import is_filed
from policy.cluster.model import Job, Slot, queued
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import GPU_SUFFIX
from policy.cluster.snapshot import Snapshot
from policy.placement.grow import Where
from policy.systems.base import Policy
from policy.systems.bounds import from_0, patience
from policy.systems.elastic import ElasticPass, next_moment
from policy.systems.queue import Front, Line, line_up

SAME_WEIGHT = 1e-9
SMALLEST_DEMAND = 1e-6


class Gate(Enum):
    """When the head may start: ``LOOSE`` whenever it fits; ``STRICT`` only if nobody runs with more weight."""

    LOOSE = "loose"
    STRICT = "strict"


class WeightMode(Enum):
    """``PAPER``: m / (c + g), Eq. 1. ``SMALL_FIRST``: 1 / (m (c + g)), which favours the smaller gang (1c.1)."""

    PAPER = "paper"
    SMALL_FIRST = "small-first"


@dataclass(frozen=True, slots=True)
class Kod2(Policy):
    """KOD2's parameters. Times in seconds. The paper gives no value for STARVELIMIT.

    ``scale_out``: where a job grows; Algorithm 3 as printed is ``ANYWHERE``. ``by_node``: workers are taken on the one
    node where the fewest have to go; else strictly by weight, as Algorithm 2 is printed. ``restart_seconds``: what a
    change of its workers costs a job; one that reports that it ends too soon to gain so much is not grown; 0: as the
    paper. ``weigh_gpus``: W' counts a worker's GPUs, too, as a share of the largest node's; the paper's has CPU and
    memory. ``behind_head``: jobs are scaled out also while others wait for room that nobody can give, unless the head
    starves; of Algorithm 1 the prose alone is left, which does not say whether.
    """

    starve_limit: float = 600.0
    gate: Gate = Gate.LOOSE
    backfill: bool = True
    cooldown: float = 60.0
    weight_mode: WeightMode = WeightMode.PAPER
    scale_out: Where = Where.TOGETHER
    restart_seconds: float = 30.0
    by_node: bool = True
    weigh_gpus: bool = False
    behind_head: bool = False

    def __post_init__(self) -> None:
        patience(self, "starve_limit")
        from_0(self, "cooldown", "restart_seconds")

    @property
    def name(self) -> str:
        """``kod2``."""
        return "kod2"

    @property
    def grows(self) -> bool:
        """Whether running jobs are given more workers whenever there is room: they are."""
        return True

    @property
    def grows_on(self) -> Where:
        """Which nodes a running job may grow on."""
        return self.scale_out

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Algorithm 1: start what fits, heaviest first; scale in for the head; scale out when nothing waits."""
        return Pass(self, snapshot, now).run()

    def prepare(self, snapshot: Snapshot, now: float) -> None:
        """What a job that must shrink others asks of all that run."""
        Pass(self, snapshot, now).prepare()

    def weights(self, snapshot: Snapshot) -> Callable[[Job], float]:
        """W' (section 3.1): minimum workers over the normalised request of one worker; sorted and compared on this."""
        known = snapshot.index.memo.table(f"kod2's weights, {self.weighing}", most=2 * len(snapshot.jobs))
        largest: list[tuple[tuple[str, int], ...]] = []  # not looked at where nobody is weighed

        def weight(job: Job) -> float:
            found = known.get(job.uid)
            if not largest:
                largest.append(_largest(snapshot, gpus=self.weigh_gpus))
            if found is None or found[0] is not job or (found[1] is not largest[0] and found[1] != largest[0]):
                found = known[job.uid] = job, largest[0], self._weigh(job, largest[0])
            weighed: float = found[2]
            return weighed

        return weight

    @property
    def weighing(self) -> tuple[str, bool]:
        """All that W' hangs on beside the job and the nodes; for the memo: a whole policy is slow to hash."""
        return self.weight_mode.value, self.weigh_gpus

    def _weigh(self, job: Job, largest: Iterable[tuple[str, int]]) -> float:
        """W' against what the largest node has of each resource that counts."""
        worker = job.worker
        requests = (worker.requests if worker is not None else job.requests(0)).amounts
        asked = sum([requests.get(name, 0) / amount for name, amount in largest if amount])
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

    def next_change(self, snapshot: Snapshot, now: float) -> float:
        """When a job starves, a back-off or a cool-down ends, or a turn is forgotten."""
        return next_moment(snapshot, now, self.starve_limit, self.cooldown)


def _largest(snapshot: Snapshot, *, gpus: bool) -> tuple[tuple[str, int], ...]:
    """The same, looked at once for all snapshots with these very nodes."""
    known = snapshot.index.memo.table((largest_node, gpus), most=1)
    found = known.get("largest")
    if found is None or found[0] is not snapshot.nodes:
        found = known["largest"] = snapshot.nodes, tuple(largest_node(snapshot, gpus=gpus).items())
    largest: tuple[tuple[str, int], ...] = found[1]
    return largest


def largest_node(snapshot: Snapshot, *, gpus: bool = False) -> dict[str, int]:
    """C and G: CPU and memory of the largest node (1a); with ``gpus`` also U, the most devices of each vendor."""
    nodes = [node.allocatable for node in snapshot.nodes.values()]
    devices = sorted({name for node in nodes for name in node if name.endswith(GPU_SUFFIX)}) if gpus else []
    return {name: max((node[name] for node in nodes), default=0) for name in ("cpu", "memory", *devices)}


class Pass(ElasticPass):
    """One pass of Algorithm 1."""

    def __init__(self, policy: Kod2, snapshot: Snapshot, now: float) -> None:
        super().__init__(snapshot, now, by_node=policy.by_node)
        self.policy = policy
        self._weight = policy.weights(snapshot)
        self._kind = ("by kod2's weight", *policy.weighing)
        self._heaviest: Job | None = None  # of ``gangs``, once somebody has asked

    def run(self) -> Decision:
        """Lines 1-40 of Algorithm 1; a gang that has lost members comes before the queue."""
        self.mend(lambda job: self.offers(self._victims(job, self._weight(job))))
        lines, barred = line_up(self.snapshot, self.now, (*self._kind, self.policy.gate.value), self._mark)
        self.verdicts.update(barred)
        head = self._admit(Front(lines, self._in_order))
        if self.mending is None and (head is None or self._may_grow_behind(head)):
            self._scale_out()
        return self.decision()

    # -- the queue -----------------------------------------------------------------------------

    def _mark(self, job: Job) -> tuple[float, str]:
        """Its weight; at a strict gate each job is judged by itself."""
        return self._weight(job), job.uid if self.policy.gate is Gate.STRICT else ""

    def _in_order(self, line: Line, arrival: float, key: str) -> tuple[float, float, str]:
        """Step 3: starved jobs before every weight, then the heaviest; among equals the one that came first."""
        starved = self.now - arrival > self.policy.starve_limit
        return -math.inf if starved else -line.mark[0], arrival, key

    def _key(self, job: Job) -> float:
        """A starved job comes before every weight; the base weight counts again once it runs."""
        return math.inf if self.policy.starving(job, self.now) else self._weight(job)

    def _admit(self, front: Front) -> Job | None:
        """Step 4. Returns the first that waits for room; None where nobody does."""
        blocked_by: Job | None = None
        while front:
            job = self.snapshot.jobs[front.uid]
            if blocked_by is not None and not self._may_backfill(blocked_by):
                behind = self.verdict(Reason.BEHIND, f"behind {blocked_by.key}", blocked_by.uid)
                self.leave_waiting(front.everybody(), behind)
                break
            if self._start(job, head=blocked_by is None):
                front.leave()
                continue
            blocked_by = blocked_by or job
            if self._may_backfill(blocked_by):
                self.close_line(front, self.verdicts[job.uid])
            else:
                front.leave()  # those that are alike are behind it as well
        return blocked_by

    def _may_grow_behind(self, head: Job) -> bool:
        """What is free is kept for a head that starves, or jobs that grow would keep it waiting for ever."""
        return self.policy.behind_head and not self.policy.starving(head, self.now)

    def _may_backfill(self, head: Job) -> bool:
        """A starved head is passed by nobody, or a stream of small jobs would keep a large gang waiting for ever."""
        return self.policy.backfill and not self.policy.starving(head, self.now)

    def _start(self, job: Job, *, head: bool) -> bool:
        heavier = self._heavier_running(job) if self.policy.gate is Gate.STRICT else None
        if heavier is not None:
            self.verdicts[job.uid] = Verdict(Reason.BEHIND, f"{heavier.key} runs with more weight", heavier.uid)
            return False
        if self.start(job, job.min_workers) or (head and self._scale_in(job)):
            return True
        self.verdicts[job.uid] = self.no_room(job)
        return False

    def _heavier_running(self, job: Job) -> Job | None:
        """Line 5: the heaviest running job that has more weight than this one."""
        if self._heaviest is None:
            running = self._by_weight("admitted", lambda job: (job.uid,))
            known = [] if not running else [uid for *_, uid in running[max(running)][-1:]]
            jobs = (self.snapshot.jobs[uid] for uid in [*known, *self.gangs.among(())])
            self._heaviest = max(jobs, key=self._rank, default=None)
        if self._heaviest is None or self._key(job) >= self._weight(self._heaviest) - SAME_WEIGHT:
            return None
        return self._heaviest

    def _rank(self, job: Job) -> tuple[float, str]:
        return self._weight(job), job.uid

    def take(self, job: Job, workers: int, nodes: Mapping[Slot, str], waits_for: Collection[str]) -> None:
        """Admit the job on these nodes, whose room is charged already."""
        super().take(job, workers, nodes, waits_for)
        if self._heaviest is not None:
            self._heaviest = max(self._heaviest, job, key=self._rank)

    # -- Algorithm 2 ---------------------------------------------------------------------------

    def _scale_in(self, job: Job) -> bool:
        """Take workers from lighter jobs so that the job fits; room that is leaving anyway is counted first."""
        key = self._key(job)
        some = min(self._yielding(), default=math.inf) <= key + SAME_WEIGHT
        victims = self._victims(job, key) if some and self._heavier_running(job) is None else []
        return self.start_by_shrinking(job, self.offers(victims))

    def _victims(self, job: Job, key: float) -> list[Job]:
        """Running jobs, lightest first, the latest first among equals; never a heavier one, nor an equal older one."""
        running = self._yielding()
        found: list[Job] = []
        for weight in sorted(weight for weight in running if weight <= key + SAME_WEIGHT):
            equal = weight >= key - SAME_WEIGHT
            victims: Iterable[Job] = (self.snapshot.jobs[uid] for *_, uid in running[weight])
            if equal:
                victims = takewhile(lambda victim: victim.arrival > job.arrival, victims)
            found += (victim for victim in victims if self.may_shrink(victim, job))
        return found

    def prepare(self) -> None:
        """Also who is lighter than whom."""
        super().prepare()
        self._yielding()

    def _yielding(self) -> Mapping[Any, tuple[Any, ...]]:
        """Running jobs with workers to give, by weight; among equals the latest first."""
        return self._by_weight("yielding", lambda job: (-job.arrival, job.key, job.uid))

    def _by_weight(self, filed: str, entry: Callable[[Job], tuple[Any, ...]]) -> Mapping[Any, tuple[Any, ...]]:
        """The running jobs that the index has filed so, by weight; those of one weight by ``entry``."""
        snapshot = self.snapshot
        uids: tuple[str, ...] = getattr(snapshot.index, filed)
        if not uids:
            return {}

        def places(uid: str) -> tuple[Place, ...]:
            job = snapshot.jobs.get(uid)
            runs = job is not None and queued(job) and is_filed(uids, uid)
            return ((self._weight(job), entry(job)),) if job is not None and runs else ()

        return snapshot.index.memo.arranged((filed, *self._kind), places, lambda: uids).groups

    # -- Algorithm 3 ---------------------------------------------------------------------------

    def _scale_out(self) -> None:
        """Heaviest first; each takes what it can up to its maximum. Never while room is being freed for somebody."""
        if self.freeing:
            return
        able = (job for job in self.could_grow(self.policy.scale_out) if self._rested(job))
        heaviest_first = sorted(able, key=lambda job: (-self._weight(job), job.arrival, job.key))
        self.grow_greedily(heaviest_first, self.policy.scale_out)

    def _rested(self, job: Job) -> bool:
        gang = self.gangs[job.uid]
        rested = gang.grew is not False or gang.scaled_at is None or self.now - gang.scaled_at >= self.policy.cooldown
        return rested and self.may_grow(job) and self.pays(job, self.policy.restart_seconds)

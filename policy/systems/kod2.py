"""KOD2 (Jeong and Yu, KTCCS 11(7), 2022): priority weights, preemptive scheduling, scale-in and scale-out.

Section numbers are those of the paper. Where the paper leaves a choice open, a comment at the line says what is done.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from typing import Any, ClassVar

from policy.cluster.actions import Decision
from policy.cluster.job import Job, Slot
from policy.cluster.kept import of_each_job, until_nodes_change
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import GPU_SUFFIX
from policy.cluster.snapshot import Snapshot
from policy.placement.grow import Where
from policy.systems.base import Policy, from_0, patience
from policy.systems.elastic import ElasticCycle
from policy.systems.queue import EquivalenceClass, WaitingQueue, equivalence_classes
from policy.systems.resizing import next_moment
from policy.systems.runninggangs import running_by

SAME_WEIGHT = 1e-9
SMALLEST_DEMAND = 1e-6


class Gate(Enum):
    """When the head may start.

    ``LOOSE``: whenever it fits. ``STRICT``: only if no running job has more weight.
    """

    LOOSE = "loose"
    STRICT = "strict"


class WeightMode(Enum):
    """By which formula a job's weight is computed.

    ``PAPER``: m / (c + g), Eq. 1. ``SMALL_FIRST``: 1 / (m (c + g)), which favours the smaller gang.
    """

    PAPER = "paper"
    SMALL_FIRST = "small-first"


@dataclass(frozen=True, slots=True)
class Kod2(Policy):
    """KOD2's parameters. Times are in seconds. The paper gives no value for STARVELIMIT.

    ``starve_limit``: STARVELIMIT, how long a job waits before it starves. ``gate``: see its class. ``backfill``: jobs
    may pass a head that does not starve. ``cooldown``: how long a job that was shrunk is not grown. ``weight_mode``:
    see its class. ``scale_out``: where a job grows; Algorithm 3 as printed is ``ANYWHERE``. ``by_node``: workers are
    taken on the one node where the fewest have to go; otherwise strictly by weight, as Algorithm 2 is printed.
    ``restart_seconds``: how long a change of its workers stops a job; a job that would gain less than that by growing
    is not grown; 0: every job may grow, as in the paper. ``weigh_gpus``: W' also counts a worker's GPUs, as a share of
    the largest node's; the paper has CPU and memory only. ``behind_head``: jobs are also scaled out while others wait
    for room that no shrink can give, unless the first of these starves; the prose of Algorithm 1 leaves this open.
    ``weigh_utility``: W' is multiplied by the job's utility; the paper has none. ``starving_blocks``: no job passes a
    starving head, which the paper only puts first.
    """

    name: ClassVar[str] = "kod2"
    grows: ClassVar[bool] = True

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
    weigh_utility: bool = True
    starving_blocks: bool = True

    def __post_init__(self) -> None:
        patience(self, "starve_limit")
        from_0(self, "cooldown", "restart_seconds")

    @property
    def grows_on(self) -> Where:
        """Which nodes a running job may grow on."""
        return self.scale_out

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Start jobs that fit, the heaviest first; shrink jobs for the head; grow jobs if none waits (Algorithm 1)."""
        return Kod2Cycle(self, snapshot, now).run()

    def prepare(self, snapshot: Snapshot, now: float) -> None:
        """Compute in advance what each running job could give to a job that must shrink others."""
        Kod2Cycle(self, snapshot, now).prepare()

    def weights(self, snapshot: Snapshot) -> Callable[[Job], float]:
        """Return the function that computes a job's W' (section 3.1), by which jobs are sorted and compared.

        W' is the job's minimum of workers, divided by the normalised request of one worker, times the job's utility.
        """
        name = f"kod2's weights, {self.weighing}"
        return of_each_job(snapshot, name, lambda: largest_node(snapshot, self.weigh_gpus), self._weigh)

    @property
    def weighing(self) -> tuple[str, bool, bool]:
        """The parameters on which W' depends, beside the job and the nodes; results are cached under them."""
        return self.weight_mode.value, self.weigh_gpus, self.weigh_utility

    def _weigh(self, job: Job, largest: Mapping[str, int]) -> float:
        """Return W' of the job; ``largest``: how much the largest node has of each resource that counts."""
        worker = job.worker
        requests = (worker.requests if worker is not None else job.requests(0)).amounts
        asked = sum([requests.get(name, 0) / amount for name, amount in largest.items() if amount])
        minimum, utility = max(1, job.min_workers), job.utility if self.weigh_utility else 1.0
        if self.weight_mode is WeightMode.SMALL_FIRST:
            return utility / (minimum * max(asked, SMALLEST_DEMAND))
        return utility * minimum / max(asked, SMALLEST_DEMAND)

    def published(self, weight: float) -> float:
        """Return W (Eq. 1): the sigmoid of W', in (0.5, 1]."""
        return 1.0 / (1.0 + math.exp(-weight))

    def starving(self, job: Job, now: float) -> bool:
        """Tell whether a waiting job has waited longer than STARVELIMIT."""
        return now - job.arrival > self.starve_limit

    def next_change(self, snapshot: Snapshot, now: float) -> float:
        """Return the next time at which a job starves, a back-off or cool-down ends, or a turn (``TURNS`` in
        elastic.py) no longer counts.
        """
        return next_moment(snapshot, now, self.starve_limit, self.cooldown)


@until_nodes_change
def largest_node(snapshot: Snapshot, gpus: bool = False) -> Mapping[str, int]:
    """Return the amounts of CPU and memory of the largest node (C and G); with ``gpus`` also the most GPUs of each
    vendor (U).
    """
    nodes = [node.allocatable for node in snapshot.nodes.values()]
    devices = sorted({name for node in nodes for name in node if name.endswith(GPU_SUFFIX)}) if gpus else []
    return {name: max((node[name] for node in nodes), default=0) for name in ("cpu", "memory", *devices)}


def _latest_first(job: Job) -> tuple[float, str, str]:
    return -job.arrival, job.key, job.uid


class Kod2Cycle(ElasticCycle):
    """One cycle of KOD2 on a working copy of the room."""

    def __init__(self, policy: Kod2, snapshot: Snapshot, now: float) -> None:
        super().__init__(snapshot, now, by_node=policy.by_node)
        self.policy = policy
        self._weight = policy.weights(snapshot)
        self._heaviest: Job | None = None  # The heaviest running job is looked for on first use.

    def run(self) -> Decision:
        """Carry out Algorithm 1, which calls Algorithm 2 (scale-in) and Algorithm 3 (scale-out)."""
        # 0. Not in the paper: a running gang that has lost members comes before the queue.
        self.mend(lambda job: self.reclaimable(self._victims(job, self._weight(job))))
        # 1. Lines 1-4 and 27-29: order the waiting jobs: starving jobs first, then by weight.
        waiting = self._heaviest_first()
        # 2. Lines 5-17: start each job that fits. For the first that does not fit, scale others in (Algorithm 2).
        head = self._start(waiting)
        # 3. Lines 31-36: scale running jobs out (Algorithm 3), unless room is kept for the head or for a gang in
        # repair.
        if self.mending is None and (head is None or self._may_grow_behind(head)):
            self._scale_out()
        # 4. Lines 37-40, jobs that end: nothing to do, because ``step`` has given their room back before the cycle.
        return self.decision()

    # -- The methods below are Algorithm 1, lines 1-4 and 27-29: the waiting queue. ------------------

    def _heaviest_first(self) -> WaitingQueue:
        """Return the waiting jobs: starving ones first, then by weight, the heaviest first; equal ones by arrival."""
        name = (*self.policy.weighing, self.policy.gate.value)
        classes, barred = equivalence_classes(self.snapshot, self.now, name, self._mark)
        self.verdicts.update(barred)
        return WaitingQueue(classes, self._rank_waiting)

    def _mark(self, job: Job) -> tuple[float, str]:
        """Return the mark that jobs of one equivalence class share beside their requests: their weight.

        Under a strict gate the mark includes the uid, so that every job is in a class of its own.
        """
        return self._weight(job), job.uid if self.policy.gate is Gate.STRICT else ""

    def _rank_waiting(self, alike: EquivalenceClass, arrival: float, key: str) -> tuple[float, float, str]:
        starved = self.now - arrival > self.policy.starve_limit
        return -math.inf if starved else -alike.mark[0], arrival, key

    # -- The methods below are Algorithm 1, lines 5-17: starting. ------------------------------------

    def _start(self, waiting: WaitingQueue) -> Job | None:
        """Start all jobs that can start. Return the first job that waits for room; None if none does."""
        head: Job | None = None
        while waiting:
            job = self.snapshot.jobs[waiting.first]
            if head is not None and not self._may_backfill(head):
                behind = self.verdict(Reason.BEHIND, f"behind {head.key}", head.uid)
                self.leave_waiting(waiting.rest(), behind)
                break
            if self._starts(job, is_head=head is None):
                waiting.pop()
                continue
            head = head or job
            if self._may_backfill(head):
                self.leave_class_waiting(waiting, self.verdicts[job.uid])
            else:
                waiting.pop()  # Without backfill no job passes the head, not even a job with the same requests.
        return head

    def _starts(self, job: Job, *, is_head: bool) -> bool:
        """Start the job at its minimum in free room, and tell whether it was started.

        For the head other jobs are shrunk if there is not enough free room. Under a strict gate a job starts only if no
        running job has more weight.
        """
        heavier = self._heavier_running(job) if self.policy.gate is Gate.STRICT else None
        if heavier is not None:
            self.verdicts[job.uid] = Verdict(
                Reason.BEHIND, f"{heavier.key} is running and has more weight", heavier.uid
            )
            return False
        if self.start(job, job.min_workers) or (is_head and self._scale_in(job)):
            return True
        self.verdicts[job.uid] = self.no_room(job)
        return False

    def _may_backfill(self, head: Job) -> bool:
        """Tell whether jobs behind this head may start before it.

        No job passes a starving head, because a stream of small jobs could keep a large gang waiting without end.
        """
        return self.policy.backfill and not (self.policy.starving_blocks and self.policy.starving(head, self.now))

    def _may_grow_behind(self, head: Job) -> bool:
        """Tell whether running jobs may grow while this head waits.

        They may not if it starves, because growing jobs could keep it waiting without end.
        """
        return self.policy.behind_head and not self.policy.starving(head, self.now)

    def _heavier_running(self, job: Job) -> Job | None:
        """Return the heaviest running job if it has more weight than ``job``; otherwise None."""
        if self._heaviest is None:
            running = running_by(self.snapshot, "admitted", self.policy.weighing, self._weight)
            heaviest = [] if not running else [uid for *_, uid in running[max(running)][-1:]]
            jobs = (self.snapshot.jobs[uid] for uid in [*heaviest, *self.gangs.listed(())])
            self._heaviest = max(jobs, key=self._rank_running, default=None)
        if self._heaviest is None or self._key(job) >= self._weight(self._heaviest) - SAME_WEIGHT:
            return None
        return self._heaviest

    def _rank_running(self, job: Job) -> tuple[float, str]:
        return self._weight(job), job.uid

    def _key(self, job: Job) -> float:
        """Return a waiting job's weight for comparisons with running jobs: infinite if the waiting job starves."""
        return math.inf if self.policy.starving(job, self.now) else self._weight(job)

    def take(self, job: Job, workers: int, nodes: Mapping[Slot, str], waits_for: Collection[str]) -> None:
        """Admit the job with these workers and nodes; the room on the nodes is charged already."""
        super().take(job, workers, nodes, waits_for)
        if self._heaviest is not None:
            self._heaviest = max(self._heaviest, job, key=self._rank_running)

    # -- The methods below are Algorithm 2: scale-in. ------------------------------------------------

    def _scale_in(self, job: Job) -> bool:
        """Take workers from lighter jobs if that makes the job fit; tell whether it was started.

        Room that is being freed anyway is used first.
        """
        key = self._key(job)
        some = min(self._lightest_first(), default=math.inf) <= key + SAME_WEIGHT
        victims = self._victims(job, key) if some and self._heavier_running(job) is None else []
        return self.start_by_shrinking(job, self.reclaimable(victims))

    def _victims(self, job: Job, key: float) -> list[Job]:
        """Return the running jobs that may be shrunk for ``job``: the lightest first (line 3), equal ones latest first.

        Heavier jobs are left out, and older ones of equal weight (lines 4-8). key: the weight of ``job``.
        """
        running = self._lightest_first()
        found: list[Job] = []
        for weight in sorted(weight for weight in running if weight <= key + SAME_WEIGHT):
            equal = weight >= key - SAME_WEIGHT
            victims: Iterable[Job] = (self.snapshot.jobs[uid] for *_, uid in running[weight])
            if equal:
                victims = takewhile(lambda victim: victim.arrival > job.arrival, victims)
            found += (victim for victim in victims if self.may_shrink(victim, job))
        return found

    def prepare(self) -> None:
        """Compute in advance what each running job could give, and the order of running jobs by weight."""
        super().prepare()
        self._lightest_first()

    def _lightest_first(self) -> Mapping[Any, tuple[Any, ...]]:
        """Return by weight the running jobs that have workers beyond their minimum.

        The result maps each weight to the sort keys of its jobs, the latest arrival first; a key ends with the uid.
        """
        return running_by(self.snapshot, "yielding", self.policy.weighing, self._weight, _latest_first)

    # -- The methods below are Algorithm 3: scale-out. -----------------------------------------------

    def _scale_out(self) -> None:
        """Grow running jobs, the heaviest first (line 3), each up to its maximum (lines 7-15).

        No job grows while room is being freed for a gang.
        """
        if self.freeing:
            return
        able = (job for job in self.could_grow(self.policy.scale_out) if self._rested(job))
        heaviest_first = sorted(able, key=lambda job: (-self._weight(job), job.arrival, job.key))
        self.grow_greedily(heaviest_first, self.policy.scale_out)

    def _rested(self, job: Job) -> bool:
        gang = self.gangs[job.uid]
        shrunk_at = gang.scaling.scaled_at if gang.scaling.grew is False else None
        rested = shrunk_at is None or self.now - shrunk_at >= self.policy.cooldown
        return rested and self.may_grow(job) and self.pays(job, self.policy.restart_seconds)

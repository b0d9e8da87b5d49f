"""DRS, the dynamic resource scheduler for Kubeflow (Bestari): jobs by utility, gangs packed, scale-down, scale-up.

The source is an article with five listings. Comments mark where a slip in a listing is corrected (docs/policies/drs.md
lists them). Where a listing and the text differ, a parameter selects the listing's reading.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from policy.cluster.actions import Decision
from policy.cluster.job import Job
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import total
from policy.cluster.snapshot import Snapshot, utility_of
from policy.cluster.training import Training
from policy.placement.gang import ask_of
from policy.placement.grow import Where
from policy.placement.shrink import Reclaimable
from policy.systems.base import Policy, above_0, from_0
from policy.systems.elastic import ElasticCycle
from policy.systems.queue import asked_workers, queue

LARGEST_EXPONENT = 700.0


class Worth(Enum):
    """What counts as a job's utility.

    ``STATED``: the number that the job object states. ``SIGMOID``: the value of the job's OASiS curve at its earliest
    possible completion; a job without a curve has the stated number.
    """

    STATED = "stated"
    SIGMOID = "sigmoid"


class Victims(Enum):
    """From which running jobs workers may be taken.

    ``LOWER``: those of jobs with less utility, as the text says. ``ALL``: those of all jobs, the least utility first,
    as the listing says.
    """

    LOWER = "lower"
    ALL = "all"


class Requirement(Enum):
    """Which requirement orders jobs of equal utility: that of the minimum of workers, or of those asked for."""

    MINIMUM = "minimum"
    ASKED = "asked"


@dataclass(frozen=True, slots=True)
class Drs(Policy):
    """DRS's parameters; the article gives a value for none of them. Times are in seconds.

    cooldown: a job that was resized is not scaled up for so long. by_node: workers are taken so that the gang they make
    room for fits on one node. scale_up: where a job grows (the listing: on any node). in_turns: one worker for each job
    in turn; otherwise each grows to its maximum. behind_head: jobs are scaled up also while the head waits for room
    that no shrink can give (main listing, line 26). slot_seconds: length of the time slots in which OASiS's curve
    counts a delay. restart_seconds: how long a change of its workers stops a job; a job that would gain less than that
    by growing is not grown; 0: every job may grow, as in the article.
    """

    name: ClassVar[str] = "drs"
    grows: ClassVar[bool] = True

    worth: Worth = Worth.STATED
    requirement: Requirement = Requirement.MINIMUM
    victims: Victims = Victims.LOWER
    by_node: bool = True
    scale_up: Where = Where.HOSTS
    in_turns: bool = False
    cooldown: float = 15.0
    behind_head: bool = False
    slot_seconds: float = 60.0
    restart_seconds: float = 0.0

    def __post_init__(self) -> None:
        from_0(self, "cooldown", "restart_seconds")
        above_0(self, "slot_seconds")

    @property
    def grows_on(self) -> Where:
        """Which nodes a running job may grow on."""
        return self.scale_up

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Start the job of most utility, by scale-down if need be, then all that fit; else scale up (main listing)."""
        return DrsCycle(self, snapshot, now).run()

    def prepare(self, snapshot: Snapshot, now: float) -> None:
        """Compute in advance what each running job could give to a job that must shrink others."""
        DrsCycle(self, snapshot, now).prepare()

    def weights(self, snapshot: Snapshot) -> Callable[[Job], float]:
        """Return the function that computes a job's utility as of its arrival; people are shown this number."""
        return lambda job: self.utility(snapshot, job, job.arrival)

    def utility(self, snapshot: Snapshot, job: Job, since: float) -> float:
        """Return the job's utility U. ``since``: when the job starts or has started, seconds since the epoch."""
        training = job.training
        if self.worth is Worth.STATED or training is None or training.utility is None:
            return utility_of(snapshot, job)
        curve = training.utility
        delay = (since - job.arrival + shortest_seconds(job, training)) / self.slot_seconds
        exponent = min(curve.steepness * (delay - curve.target), LARGEST_EXPONENT)
        return curve.value / (1.0 + math.exp(exponent))


def shortest_seconds(job: Job, training: Training) -> float:
    """Return how long the job trains at its maximum of workers, with its exchange of gradients (tau + 2 e / b)."""
    return training.worker_seconds / max(1, job.max_workers)


class DrsCycle(ElasticCycle):
    """One cycle of DRS on a working copy of the room."""

    def __init__(self, policy: Drs, snapshot: Snapshot, now: float) -> None:
        super().__init__(snapshot, now, by_node=policy.by_node)
        self.policy = policy
        self._whole = total(node.allocatable for node in snapshot.nodes.values())

    def run(self) -> Decision:
        """Carry out the main algorithm of the article, which calls scale-down and scale-up."""
        # 0. Not in the article: a running gang that has lost members comes before the queue.
        self.mend(self._victims)
        # 1. Weighting listing: order the waiting jobs by utility, then by requirement.
        waiting = self._most_useful_first()
        # 2. Lines 2-16: start the head if it has more utility than every running job, by scale-down if need be.
        head = self._start_head(waiting)
        # 3. Lines 17-25: start all jobs that fit, unless the head waits.
        if head is None:
            self._start_who_fits(waiting)
        # 4. Line 26: scale up if nothing was started or shrunk.
        idle = not self.actions and self.mending is None and not self.freeing
        if idle and (head is None or self.policy.behind_head):
            self._scale_up()
        return self.decision()

    # -- The methods below are the paper's listing for weighting jobs. -------------------------------

    def _most_useful_first(self) -> list[Job]:
        """Return the waiting jobs that may start, most utility first; note the verdicts of the others."""
        found = queue(self.snapshot, self.now)
        self.verdicts.update(found.barred)
        return sorted(found.ready, key=lambda job: (*self._rank(job), job.arrival, job.key))

    def _utility(self, job: Job) -> float:
        gang = self.gangs.get(job.uid)
        started = gang.admitted_at if gang is not None else None
        return self.policy.utility(self.snapshot, job, self.now if started is None else started)

    def _rank(self, job: Job) -> tuple[float, float]:
        """Return the sort key: more utility first, then the larger requirement."""
        return -self._utility(job), -self._requirement(job)

    def _requirement(self, job: Job) -> float:
        """Return the requirement R of a job: its share of the cluster's CPU plus its share of the memory.

        The article's listing adds the plain amounts, in which bytes of memory would outweigh the CPU.
        """
        least = self.policy.requirement is Requirement.MINIMUM
        workers = job.min_workers if least else asked_workers(job)
        asked = ask_of(self.snapshot, job, workers).whole
        return sum(asked[name] / self._whole[name] for name in ("cpu", "memory") if self._whole[name])

    # -- The methods below are the paper's main listing: jobs start. ---------------------------------

    def _start_head(self, waiting: list[Job]) -> Job | None:
        """Start the head if it has more utility than every running job, by shrinking others if need be.

        Return the head if it finds no room and so stops the queue, otherwise None. The listing shrinks others even for
        a head that has just started, and may then start another job in that room; here the room is the head's.
        """
        running = (self._utility(self.snapshot.jobs[uid]) for uid in self.gangs)
        if not waiting or self._utility(waiting[0]) <= max(running, default=-math.inf):
            return None
        head, *others = waiting
        if self.start_with_most(head, asked_workers(head)) or self.start_by_shrinking(head, self._victims(head)):
            return None
        self.verdicts[head.uid] = self.no_room(head)
        self.verdicts.update((job.uid, Verdict(Reason.BEHIND, f"behind {head.key}", head.uid)) for job in others)
        return head

    def _start_who_fits(self, waiting: list[Job]) -> None:
        """Start all waiting jobs that fit, in their order; the article's listing starts only one in each pass."""
        for job in waiting:
            if job.uid not in self.gangs and not self.start_with_most(job, asked_workers(job)):
                self.verdicts[job.uid] = self.no_room(job)

    def prepare(self) -> None:
        """Compute in advance, for each running job, the workers that it could give and its requirement."""
        super().prepare()
        for job in self.yielding():
            self._requirement(job)

    # -- The methods below are the paper's listings for scale-down and scale-up. ---------------------

    def _victims(self, job: Job) -> list[Reclaimable]:
        """Return the room that can be taken for the job: first room that is being freed anyway, then running jobs'
        workers.

        The running jobs come in the order in which they give: the least utility first, then the smaller requirement,
        then the latest start.
        """
        utility, lower = self._utility(job), self.policy.victims is Victims.LOWER
        willing = (victim for victim in self.yielding() if self.may_shrink(victim, job))
        victims = [v for v in willing if not (lower and self._utility(v) >= utility)]
        return self.reclaimable(
            sorted(victims, key=lambda v: (self._utility(v), self._requirement(v), -self._started(v)))
        )

    def _started(self, job: Job) -> float:
        return self.gangs[job.uid].admitted_at or self.now

    def _scale_up(self) -> None:
        """Let running jobs grow in the queue's order; unlike DRAGON, DRS has no idle threshold."""
        jobs = (job for job in self.could_grow(self.policy.scale_up) if self._rested(job))
        ordered = sorted(jobs, key=lambda job: (*self._rank(job), job.arrival, job.key))
        if self.policy.in_turns:
            self.grow_in_turns(ordered, self.policy.scale_up)
        else:
            self.grow_greedily(ordered, self.policy.scale_up)

    def _rested(self, job: Job) -> bool:
        scaled_at = self.gangs[job.uid].scaling.scaled_at
        rested = scaled_at is None or self.now - scaled_at >= self.policy.cooldown
        return rested and self.may_grow(job) and self.pays(job, self.policy.restart_seconds)

"""DRS, the dynamic resource scheduler for Kubeflow (Bestari): jobs by utility, gangs packed, scale-down, scale-up.

Its text is an article with five listings. Their slips are corrected at the line that says so (docs/policies/drs.md has
the list); where a listing and the text differ the listing's reading is a setting.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from policy.cluster.actions import Decision
from policy.cluster.model import Job
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import total
from policy.cluster.snapshot import Snapshot, utility_of
from policy.cluster.training import Training
from policy.placement.gang import ask_of
from policy.placement.grow import Where
from policy.placement.shrink import Reclaimable
from policy.systems.base import Policy
from policy.systems.bounds import above_0, from_0
from policy.systems.elastic import ElasticCycle
from policy.systems.queue import asked_workers, queue

LARGEST_EXPONENT = 700.0


class Worth(Enum):
    """What a job's utility is.

    ``STATED``: the number that the job object gives. ``SIGMOID``: OASiS's curve of the job at its earliest possible
    completion, where the job has one.
    """

    STATED = "stated"
    SIGMOID = "sigmoid"


class Victims(Enum):
    """Whose workers may be taken.

    ``LOWER``: those of jobs with less utility, as the text says. ``ALL``: those of all jobs, the least utility first,
    as the listing has it.
    """

    LOWER = "lower"
    ALL = "all"


class Requirement(Enum):
    """By which requirement equal utilities are ordered: with the minimum of workers, or with those asked for."""

    MINIMUM = "minimum"
    ASKED = "asked"


@dataclass(frozen=True, slots=True)
class Drs(Policy):
    """DRS's parameters, for none of which the article gives a value. Times are in seconds.

    cooldown: a job that was resized is not scaled up for so long. by_node: workers are taken where the gang then is on
    one node. scale_up: where a job grows (the listing: on any node). in_turns: one worker for each job in turn; else
    each to its maximum. behind_head: jobs are scaled up also while the head waits for room that no shrink can give
    (main listing, line 26). slot_seconds: the slot in which OASiS's curve counts a delay. restart_seconds: what a
    change of its workers costs a job: a job that reports that it ends too soon to gain so much is not grown; 0: as in
    the article.
    """

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
    def name(self) -> str:
        """Return ``drs``."""
        return "drs"

    @property
    def grows(self) -> bool:
        """Whether running jobs are given more workers whenever there is room: they are."""
        return True

    @property
    def grows_on(self) -> Where:
        """Which nodes a running job may grow on."""
        return self.scale_up

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Start the most useful job, by scale-down if need be, then whoever fits; else scale up (main listing)."""
        return DrsCycle(self, snapshot, now).run()

    def prepare(self, snapshot: Snapshot, now: float) -> None:
        """Work out what a job that must shrink others asks of all that run."""
        DrsCycle(self, snapshot, now).prepare()

    def weights(self, snapshot: Snapshot) -> Callable[[Job], float]:
        """Return the utility as of the job's arrival, for people; the requirement between equals is not shown."""
        return lambda job: self.utility(snapshot, job, job.arrival)

    def utility(self, snapshot: Snapshot, job: Job, since: float) -> float:
        """Return U. ``since``: when the job starts or has started, seconds since the epoch."""
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
        """Carry out the main listing, which calls scale-down and scale-up."""
        # 0. Ours: a running gang that has lost members comes before the queue.
        self.mend(self._victims)
        # 1. Weighting listing: order the waiting jobs by utility, then by requirement.
        waiting = self._most_useful_first()
        # 2. Lines 2-16: start the head if it is worth more than all that runs, by scale-down if need be.
        head = self._start_head(waiting)
        # 3. Lines 17-25: start whoever fits, unless the head waits.
        if head is None:
            self._start_who_fits(waiting)
        # 4. Line 26: scale up when nothing was started or shrunk.
        idle = not self.actions and self.mending is None and not self.freeing
        if idle and (head is None or self.policy.behind_head):
            self._scale_up()
        return self.decision()

    # -- weighting listing ---------------------------------------------------------------------------

    def _most_useful_first(self) -> list[Job]:
        """Return the waiting jobs that may start; the others are given their verdicts."""
        found = queue(self.snapshot, self.now)
        self.verdicts.update(found.barred)
        return sorted(found.ready, key=lambda job: (*self._rank(job), job.arrival, job.key))

    def _utility(self, job: Job) -> float:
        gang = self.gangs.get(job.uid)
        started = gang.admitted_at if gang is not None else None
        return self.policy.utility(self.snapshot, job, self.now if started is None else started)

    def _rank(self, job: Job) -> tuple[float, float]:
        """Return the sort key: more utility first, among equals the larger requirement."""
        return -self._utility(job), -self._requirement(job)

    def _requirement(self, job: Job) -> float:
        """Return R: CPU and memory, each as its share of the cluster's; the listing adds them as they are."""
        least = self.policy.requirement is Requirement.MINIMUM
        workers = job.min_workers if least else asked_workers(job)
        asked = ask_of(self.snapshot, job, workers).whole
        return sum(asked[name] / self._whole[name] for name in ("cpu", "memory") if self._whole[name])

    # -- main listing --------------------------------------------------------------------------------

    def _start_head(self, waiting: list[Job]) -> Job | None:
        """Start a head with more utility than all that runs, by shrinking others if need be; else it stops the queue.

        Return the head if it waits, else None. The listing shrinks others even for a head that has just started, and
        may then start another job in the room; here the room is the head's.
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
        """Start all that fit, in their order; the listing starts one in each pass."""
        for job in waiting:
            if job.uid not in self.gangs and not self.start_with_most(job, asked_workers(job)):
                self.verdicts[job.uid] = self.no_room(job)

    def prepare(self) -> None:
        """Work out what each running job could give, and how much it requires."""
        super().prepare()
        for job in self.yielding():
            self._requirement(job)

    # -- scale-down and scale-up listings ------------------------------------------------------------

    def _victims(self, job: Job) -> list[Reclaimable]:
        """Return what can be taken: of the least utility first, then of the smaller requirement, then the latest."""
        utility, lower = self._utility(job), self.policy.victims is Victims.LOWER
        willing = (victim for victim in self.yielding() if self.may_shrink(victim, job))
        victims = [v for v in willing if not (lower and self._utility(v) >= utility)]
        return self.reclaimable(
            sorted(victims, key=lambda v: (self._utility(v), self._requirement(v), -self._started(v)))
        )

    def _started(self, job: Job) -> float:
        return self.gangs[job.uid].admitted_at or self.now

    def _scale_up(self) -> None:
        """Let running jobs grow in the queue's order; there is no idle threshold as DRAGON has it."""
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

"""DRAGON (Lin, Yeh and Chou, CLOSER 2019): urgent jobs first, then AFCFS, then a scale-up into idle room.

Box numbers are those of the paper's Figure 5. Where the paper leaves a choice open, a comment at the line says what is
done. "The author's code" is the controller that the paper names, which chooses victims and sizes differently.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from policy.cluster.actions import Decision, Remember
from policy.cluster.frozen import replace
from policy.cluster.job import Job
from policy.cluster.kept import until_nodes_change
from policy.cluster.resources import Resources, total
from policy.cluster.snapshot import Snapshot
from policy.cluster.training import remaining_seconds
from policy.placement.ask import Ask
from policy.placement.gang import worker_demand
from policy.placement.grow import Where
from policy.placement.room import Room
from policy.placement.shrink import NOBODY, Reclaimable, one_by_one
from policy.systems.base import Policy, from_0, patience
from policy.systems.dragonchoices import Idle, Sizes, Urgent, Victims
from policy.systems.elastic import ElasticCycle
from policy.systems.queue import EquivalenceClass, WaitingQueue, asked_workers, equivalence_classes
from policy.systems.resizing import next_moment

# The policy's memory holds under this key when a job was last started or shrunk, or a scale-up was last considered.
ACTED = "dragon/acted"
# The policy's memory holds under this key the free room of each node, and since when that has been the same.
ROOM = "dragon/room"


@dataclass(frozen=True, slots=True)
class Dragon(Policy):
    """DRAGON's parameters. Times are in seconds; the paper gives no values, so these are those of the author's code.

    urgent_threshold (tau): a job that waits longer is urgent. idle_threshold (mu): room that is idle for longer is used
    to scale up. restart_seconds: how long a change of its workers stops a job (section 4.2: 40 s to 1 min); a job that
    would be done in twice that is not scaled up. scale_up: where a job grows (section 3.3: nodes on which it runs).
    in_turns: one worker for each job in turn; otherwise each grows to its maximum. victims, smallest, sizes, idle: see
    their classes. strict_surplus: others are shrunk only if together they have more workers beyond their minima than
    the urgent job's minimum, whatever is idle, as in the author's code; otherwise they are shrunk if those workers and
    the idle room suffice together. behind_urgent: scale up also while an urgent job waits that no shrink can help;
    Figure 5 only demands that nothing was started or shrunk.
    """

    name: ClassVar[str] = "dragon"
    grows: ClassVar[bool] = True

    urgent_threshold: float = 120.0
    idle_threshold: float = 60.0
    victims: Victims = Victims.NODE_AWARE
    smallest: Urgent = Urgent.RESOURCES
    sizes: Sizes = Sizes.MOST
    idle: Idle = Idle.GLOBAL
    scale_up: Where = Where.HOSTS
    in_turns: bool = True
    restart_seconds: float = 50.0
    strict_surplus: bool = False
    behind_urgent: bool = False

    def __post_init__(self) -> None:
        patience(self, "urgent_threshold", "idle_threshold")
        from_0(self, "restart_seconds")

    @property
    def grows_on(self) -> Where:
        """Which nodes a running job may grow on."""
        return self.scale_up

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Start urgent jobs, by scale-down if need be, then all jobs that fit (AFCFS); if nothing was started, scale up
        running jobs (Figure 5).
        """
        return DragonCycle(self, snapshot, now).run()

    def prepare(self, snapshot: Snapshot, now: float) -> None:
        """Compute in advance what each running job could give to a job that must shrink others."""
        DragonCycle(self, snapshot, now).prepare()

    def after_idling(self, snapshot: Snapshot, now: float) -> Snapshot:
        """Return a copy of the snapshot in which all free room has been idle for longer than ``idle_threshold``."""
        long_ago, room = now - self.idle_threshold - 1.0, Room.of(snapshot)
        idle = {ACTED: long_ago, ROOM: {name: (room.free(name), long_ago) for name in room}}
        return replace(snapshot, memory={**snapshot.memory, **idle})

    def next_change(self, snapshot: Snapshot, now: float) -> float:
        """Return the next time at which a job becomes urgent, room has been idle for long enough, a back-off ends, or a
        turn (``TURNS`` in elastic.py) no longer counts.
        """
        acted = snapshot.memory.get(ACTED)
        if self.idle is Idle.NODE or not isinstance(acted, float):
            return now
        idle = acted + self.idle_threshold
        return min(next_moment(snapshot, now, self.urgent_threshold), idle if idle >= now else math.inf)


@until_nodes_change
def whole_cluster(snapshot: Snapshot) -> Resources:
    """Return the resources of all nodes together."""
    return total(node.allocatable for node in snapshot.nodes.values())


class DragonCycle(ElasticCycle):
    """One cycle of DRAGON on a working copy of the room."""

    def __init__(self, policy: Dragon, snapshot: Snapshot, now: float) -> None:
        blind = policy.victims is not Victims.NODE_AWARE
        in_turn = policy.victims is Victims.QUEUE
        super().__init__(snapshot, now, one_by_one if in_turn else self.largest_surplus, by_node=not blind)
        self.policy = policy
        # The dominant share of a worker in the cluster is cached by the worker's requests.
        self._shares: dict[Resources, float] = {}

    def run(self) -> Decision:
        """Carry out the boxes of Figure 5.

        One look at each waiting job is enough, because a start only takes room and never frees any.
        """
        # 0. Not in the paper: a running gang that has lost members comes before the queue.
        self.mend(lambda job: self.reclaimable(self._victims(job)))
        classes, barred = equivalence_classes(self.snapshot, self.now, "workers asked for", asked_workers)
        self.verdicts.update(barred)
        # Boxes 1 and 2: start the urgent jobs, the smallest first, by scale-down if need be.
        urgent_waits = self._start_urgent(classes)
        # Box 3: start all jobs that fit, first come, first served (AFCFS).
        acted = self._start_first_come(WaitingQueue(classes, lambda alike, *arrival_and_key: arrival_and_key))
        # Boxes 4 and 5: scale up if nothing was started or shrunk, and the room has been idle for long enough.
        if acted:
            self._remember(ACTED, self.now)
        elif (self.policy.behind_urgent or not urgent_waits) and self.mending is None and not self.freeing:
            self._scale_up()
        return self.decision()

    # -- The methods below are Figure 5's boxes 1 and 2: urgent jobs start. ------------------------

    def _start_urgent(self, classes: Sequence[EquivalenceClass]) -> bool:
        """Start urgent jobs, the smallest first, in free room or by shrinking other jobs.

        Return True if an urgent job still waits. The first that cannot start ends the loop, for the paper's reason: "If
        we cannot release enough resources for the smallest job, then the larger urgent jobs certainly cannot be
        launched as well."
        """
        waiting = WaitingQueue(classes, self._urgent_in_order)
        while waiting:
            job = self.snapshot.jobs[waiting.first]
            if not (self.start(job, job.min_workers) or self._start_in_place_of(self._victims(job), job)):
                return True
            waiting.pop()
        return False

    def _start_in_place_of(self, victims: Sequence[Job], job: Job) -> bool:
        """Start the job in room that the victims give back, and tell whether it was started.

        Under ``strict_surplus`` it is started only if the victims together have more workers beyond their minima than
        the job's minimum.
        """
        if self.policy.strict_surplus:
            surplus = sum(self.gangs[victim.uid].workers - victim.min_workers for victim in victims)
            if surplus <= job.min_workers:
                return False
        return self.start_by_shrinking(job, self.reclaimable(victims))

    def _urgent_in_order(
        self, alike: EquivalenceClass, arrival: float, key: str
    ) -> tuple[float, int, float, str] | None:
        urgent = self.now - arrival > self.policy.urgent_threshold
        return (*self._size(alike.ask), arrival, key) if urgent else None

    def _size(self, least: Ask) -> tuple[float, int]:
        """Return the size by which urgent jobs are sorted, as the parameter ``smallest`` says.

        ``least`` is the placement request of the job's minimum. By default the size is the dominant share of this
        request, and between equal shares the number of workers.
        """
        if self.policy.smallest is Urgent.ARRIVAL:
            return 0.0, 0
        if self.policy.smallest is Urgent.WORKERS:
            return float(least.workers), 0
        return least.whole.dominant_share(whole_cluster(self.snapshot)), least.workers

    def _victims(self, job: Job) -> list[Job]:
        """Return the running jobs that have workers to give, in the order of their starts."""
        return sorted((victim for victim in self.yielding() if self.may_shrink(victim, job)), key=self._by_start)

    def _by_start(self, job: Job) -> tuple[float, str]:
        return self.gangs[job.uid].admitted_at or self.now, job.uid

    def largest_surplus(self, victims: Sequence[Reclaimable]) -> list[int]:
        """Return the indices of the victims in the order in which they give, one index for each worker that may be
        taken.

        Room that is being freed anyway comes first. Then each worker is taken from the job whose surplus (workers
        beyond its minimum) is the largest at that moment.
        """
        turns = [index for index, victim in enumerate(victims) if victim.job_uid == NOBODY]
        given = ((index, victim) for index, victim in enumerate(victims) if victim.job_uid != NOBODY)
        # A job's surplus shrinks with each worker, so sorting all of them gives the same order as choosing one by one.
        turns += [index for _, index in sorted(self._surpluses(given))]
        return turns

    def _surpluses(self, given: Iterable[tuple[int, Reclaimable]]) -> Iterator[tuple[float, int]]:
        """Yield a pair for each worker that can be taken: the negated surplus of its job before the worker is taken,
        and the job's index. The surplus is counted as a share of the cluster.
        """
        for index, victim in given:
            share = self._share(worker_demand(self.snapshot, self.snapshot.jobs[victim.job_uid]))
            for left in range(len(victim.rooms), 0, -1):
                yield -left * share, index

    def _share(self, demand: Resources) -> float:
        found = self._shares.get(demand)
        if found is None:
            found = self._shares[demand] = demand.dominant_share(whole_cluster(self.snapshot))
        return found

    # -- The methods below are Figure 5's box 3: other jobs start, first come, first served. -------

    def _start_first_come(self, waiting: WaitingQueue) -> bool:
        """Start each job that fits, in order of arrival; tell whether anything was started, urgent jobs included."""
        while waiting:
            job = self.snapshot.jobs[waiting.first]
            if job.uid in self.gangs or self._start(job):
                waiting.pop()
            else:
                self.leave_class_waiting(waiting, self.no_room(job))
        return bool(self.actions)

    def _start(self, job: Job) -> bool:
        asked = asked_workers(job)
        if self.policy.sizes is Sizes.MOST:
            return self.start_with_most(job, asked)
        if self.start(job, asked):
            return True
        return self.policy.sizes is Sizes.ASKED_OR_LEAST and self.start(job, job.min_workers)

    # -- The methods below are Figure 5's boxes 4 and 5: jobs grow. --------------------------------

    def _scale_up(self) -> None:
        """Give idle room to running jobs in the order of their starts."""
        if self.policy.idle is Idle.NODE:
            self._close_busy_nodes()
        elif not self._has_been_idle():
            return
        able = self.could_grow(self.policy.scale_up)
        jobs = sorted((job for job in able if self.may_grow(job) and self._worth_it(job)), key=self._by_start)
        if self.policy.in_turns:
            self.grow_in_turns(jobs, self.policy.scale_up)
        else:
            self.grow_greedily(jobs, self.policy.scale_up)

    def _has_been_idle(self) -> bool:
        """Tell whether no job was started or shrunk for ``idle_threshold`` seconds, so that jobs may be scaled up.

        The time is counted again from each call that answers True; the very first call only begins to count.
        """
        acted = self.snapshot.memory.get(ACTED)
        idle = isinstance(acted, float) and self.now - acted > self.policy.idle_threshold
        if idle or acted is None:
            self._remember(ACTED, self.now)
        return idle

    def _close_busy_nodes(self) -> None:
        """Give no more room in this cycle on nodes whose free room has changed within ``idle_threshold``."""
        known, seen = self.snapshot.memory.get(ROOM), dict[str, tuple[Resources, float]]()
        before: Mapping[str, tuple[Resources, float]] = known if isinstance(known, Mapping) else {}
        for name in self.room:
            free, since = self.room.free(name), self.now
            if name in before and before[name][0] == free:
                since = before[name][1]
            seen[name] = (free, since)
        if seen != before:
            self._remember(ROOM, seen)
        self.close(name for name, (_, since) in seen.items() if self.now - since <= self.policy.idle_threshold)

    def _worth_it(self, job: Job) -> bool:
        """Tell whether the job still runs for at least twice ``restart_seconds``, the time that growing stops it.

        The answer is True if its training does not report how long it still takes.
        """
        left = remaining_seconds(self.snapshot.reports.get(job.uid, ()), self.now)
        return left is None or left >= 2 * self.policy.restart_seconds

    def _remember(self, key: str, value: object) -> None:
        self.actions.append(Remember(key, value))

"""SpeCon (Mao et al., 2021): jobs whose metric has converged are moved away from jobs that still progress.

Section, algorithm and line numbers are those of the paper. Its Algorithm 1 puts each job into a category by the growth
of its metric: progressing (PC), watching (WC) or converged (CC). Algorithm 2 chooses another node for a converged job,
or lets it stay; Algorithm 3 evens the nodes out. These algorithms as printed move nothing (docs/policies/specon.md has
the reasons): the defaults follow the paper's text, and each printed variant can be selected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from policy.cluster.actions import Action, Decision, Migrate, Remember
from policy.cluster.frozen import replace
from policy.cluster.gang import State
from policy.cluster.job import Job
from policy.cluster.snapshot import Snapshot
from policy.cluster.training import REPORTS_KEPT, Goal
from policy.systems.base import Parts, Promised, Rebalancer, above_0, from_0
from policy.systems.evenly import admit_evenly
from policy.systems.fleet import Fleet, Movable, at_rest, movable
from policy.systems.growth import (
    Category,
    Growth,
    Ladder,
    Monitor,
    Progress,
    read_progress,
    sample,
    slowing,
    write_progress,
)
from policy.systems.moving import Balance, Reallocation, rebalance
from policy.systems.speconchoices import FirstNode, Gate

KEY = "specon/job/"
CLOCK = "specon/clock"  # The policy's memory holds the time of the last round under this key.
COUNTS = "specon/counts"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many decisions were made so far.

    requests: requests for another node by Algorithm 1. moves, stays: how often Algorithm 2 moved a job or let it stay.
    balanced: moves by Algorithm 3.
    """

    requests: int = 0
    moves: int = 0
    stays: int = 0
    balanced: int = 0


@dataclass(frozen=True, slots=True)
class SpeCon(Rebalancer):
    """SpeCon's parameters, with the paper's defaults (section VI-A).

    alpha: categorisation threshold, a share of the reduction so far per 30 s, for jobs that do not state their own.
    interval: t_m - t_(m-1), seconds. w_pc, w_wc, w_cc: weights of the categories. growth, ladder, gate, balance,
    first_node: see their classes; first_node has no effect if another system places the jobs. balance_any: Algorithm 3
    moves jobs of any category, and not only converged ones. guard: make only moves after which the new node is still
    the lighter one. hysteresis: a job returns to PC only above alpha * (1 + hysteresis). smoothing: the metric E is the
    median of so many reports. moves_per_job: 1: a job is moved once, by whichever algorithm comes first (a job that
    Algorithm 2 has let stay may still be moved by Algorithm 3, as in the authors' log); 2: once by each algorithm.
    """

    name: ClassVar[str] = "specon"
    keeps: ClassVar[bool] = True

    alpha: float = 0.01
    interval: float = 30.0
    w_pc: float = 2.0
    w_wc: float = 1.5
    w_cc: float = 1.0
    growth: Growth = Growth.NORMALISED
    ladder: Ladder = Ladder.TEXT
    gate: Gate = Gate.GROWING
    balance: Balance = Balance.UNBALANCED
    balance_any: bool = False
    guard: bool = False
    hysteresis: float = 0.0
    smoothing: int = 3
    moves_per_job: int = 1
    first_node: FirstNode = FirstNode.TURN

    def __post_init__(self) -> None:
        above_0(self, "alpha", "interval", "w_pc", "w_wc", "w_cc")
        from_0(self, "hysteresis")
        if not 1 <= self.smoothing < REPORTS_KEPT:
            raise ValueError(f"specon: smoothing is {self.smoothing!r}, must be from 1 to {REPORTS_KEPT - 1} reports")
        if self.moves_per_job not in (1, 2):
            raise ValueError(
                f"specon: moves_per_job is {self.moves_per_job!r}, must be 1 or 2 (once by each algorithm)"
            )

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Admit gangs first come, first served, spread evenly (section VI-A); then move jobs."""
        scores = partial(self._scores, snapshot, now) if self.first_node is FirstNode.SCORE else None
        admitted = admit_evenly(snapshot, now, scores, self.w_pc)
        return replace(admitted, actions=(*admitted.actions, *self.moves(snapshot, admitted, now)))

    def _scores(self, snapshot: Snapshot, now: float) -> dict[str, float]:
        """Return the score S of each node by name, from the jobs' categories in the last round."""
        fleet = Fleet(snapshot, Decision(), SpeConRound(self, snapshot, Decision(), now, None).categories(), None)
        return {name: fleet.score(name, self.category_weights) for name in fleet.room}

    def moves(
        self, snapshot: Snapshot, decided: Decision, now: float, promised: Promised | None = None
    ) -> tuple[Action, ...]:
        """Return the actions of one round of SpeCon's three algorithms, which is due once in each interval; none at
        other times.

        A last round that is later than ``now`` was written while the clock ran ahead, and does not count.
        """
        last = snapshot.memory.get(CLOCK)
        if isinstance(last, float) and last <= now and now // self.interval <= last // self.interval:
            return ()
        return tuple(SpeConRound(self, snapshot, decided, now, promised).run())

    def parts(self, memory: Mapping[str, object]) -> Mapping[str, Parts]:
        """Return by uid what the job's object should hold: its progress, which says whether it was moved."""
        known = ((key.removeprefix(KEY), told) for key, told in memory.items() if key.startswith(KEY))
        return {uid: {self.name: write_progress(told)} for uid, told in known if isinstance(told, Progress)}

    def recalled(self, snapshot: Snapshot, parts: Mapping[str, Parts]) -> Mapping[str, object]:
        """Return the memory, read back from the job objects: each job's progress, and when the last round was."""
        found = ((uid, read_progress(part[self.name])) for uid, part in parts.items() if self.name in part)
        known = {uid: told for uid, told in found if told is not None and not snapshot.jobs[uid].finished}
        memory: dict[str, object] = {KEY + uid: told for uid, told in known.items()}
        # The time of the last round is not written. The last round in which a job reported something new stands in for
        # it, so that the next round is due in time.
        return memory | ({CLOCK: max(told.since for told in known.values())} if known else {})

    def monitor(self, job: Job) -> Monitor:
        """Return Algorithm 1's parameters for that job, which may state its own alpha."""
        own = job.training.alpha if job.training is not None else None
        alpha = self.alpha if own is None else own
        return Monitor(alpha, self.interval, self.growth, self.ladder, self.hysteresis, self.smoothing)

    @property
    def category_weights(self) -> Mapping[Category, float]:
        """The weight in a node's score of one job of each category."""
        return {Category.PROGRESSING: self.w_pc, Category.WATCHING: self.w_wc, Category.CONVERGED: self.w_cc}


class SpeConRound:
    """One round of SpeCon. The memory changes only by the actions that the round returns.

    ``known``: each running job's progress before this round, by uid; ``told``: its progress after this round.
    """

    def __init__(
        self, policy: SpeCon, snapshot: Snapshot, decided: Decision, now: float, promised: Promised | None
    ) -> None:
        self.policy, self.snapshot, self.decided, self.now, self.promised = policy, snapshot, decided, now, promised
        self.known = {job.uid: self._remembered(job) for job in snapshot.running()}
        self.told = dict(self.known)
        counts = snapshot.memory.get(COUNTS)
        self.counts = counts if isinstance(counts, Counts) else Counts()

    def _remembered(self, job: Job) -> Progress:
        known = self.snapshot.memory.get(KEY + job.uid)
        return known.by(self.now) if isinstance(known, Progress) else Progress(since=self.now)

    def run(self) -> Iterator[Action]:
        """Carry out the three algorithms, and yield the moves, then the actions that remember each job's progress."""
        # Algorithm 1, lines 1-12 and 16-22: put each running job into its category by the growth of its metric.
        self._categorise()
        # Not in the paper: nothing is moved while a job waits for room or is being repaired.
        if at_rest(self.snapshot, self.decided):
            fleet = Fleet(self.snapshot, self.decided, self.categories(), self.promised)
            # Algorithm 1, lines 13-15, and Algorithm 2: converged jobs ask for another node, and one is chosen.
            yield from self._reallocate(fleet)
            # Algorithm 3: even the nodes out.
            yield from self._rebalance(fleet)
        yield from self._remember()

    # -- The methods below are Algorithm 1: jobs are put into categories. ----------------------

    def _categorise(self) -> None:
        """Update each running job's category from its newest reports; reports from before a restart do not count."""
        for uid, known in self.known.items():
            job, state = self.snapshot.jobs[uid], self.snapshot.gang(uid).state
            if state is State.MIGRATING and known.restart is not None:
                self.told[uid] = known.restarting(self.now)
            if state is State.RUNNING:
                reports = self.snapshot.reports.get(uid, ())
                goal = job.training.goal if job.training else Goal.MIN
                self.told[uid] = sample(self.policy.monitor(job), known, reports, goal, self.now)

    def _movable(self) -> Iterator[Movable]:
        """Yield the jobs that can be moved and have reported something new lately."""
        for one in movable(self.snapshot, self.decided):
            told = self.told[one.job.uid]
            if not self._silent(one.job.uid):
                yield replace(one, category=told.category, since=told.converged)

    def categories(self) -> Mapping[str, Category]:
        """Return the category by which each job is weighed; a silent job counts as one that has just started."""
        return {uid: Category.PROGRESSING if self._silent(uid) else told.category for uid, told in self.told.items()}

    def _silent(self, uid: str) -> bool:
        return self.told[uid].silent(self.policy.interval, self.now)

    # -- The methods below are Algorithm 2: converged jobs are moved away. ---------------------

    def _reallocate(self, fleet: Fleet) -> Iterator[Migrate]:
        """Yield the moves of Algorithm 2 for the jobs that ask for another node, in the order of their nodes and uids.

        Each job's new node is chosen after the moves of the jobs before it are counted.
        """
        manager = Reallocation(self.policy.category_weights, self.policy.guard)
        asking = [one for one in self._movable() if self._asks(one.job.uid)]
        for one in sorted(asking, key=lambda one: (one.node, one.job.uid)):
            if self._may_ask(fleet, one):
                yield from self._decide(fleet, one, manager.host(fleet, one))

    def _decide(self, fleet: Fleet, one: Movable, node: str | None) -> Iterator[Migrate]:
        """Yield the move of the job to ``node``; yield nothing if that is its own node, where it stays, or None.

        After a move or a stay the job may not ask again (Algorithm 2, lines 9, 15, 20). If ``node`` is None, it may ask
        in a later round.
        """
        counts = replace(self.counts, requests=self.counts.requests + 1)
        told = self.told[one.job.uid]
        if node == one.node:
            counts, told = replace(counts, stays=counts.stays + 1), replace(told, moved=True)
        elif node is not None:
            counts, told = replace(counts, moves=counts.moves + 1), told.restarted(self.now, moved=True)
            yield fleet.move(one, node)
        self.counts, self.told[one.job.uid] = counts, told

    def _asks(self, uid: str) -> bool:
        """Tell whether the job asks for another node (line 13): it was in CC before this round and still slows down.

        A job that Algorithm 2 has moved or let stay does not ask again (V-A).
        """
        known, told = self.known[uid], self.told[uid]
        asked = self._settled(told) or known.category is not Category.CONVERGED
        return not asked and slowing(self.policy.monitor(self.snapshot.jobs[uid]), known, told)

    def _settled(self, told: Progress) -> bool:
        """Tell, by the job's progress ``told``, whether the job no longer asks for another node.

        The reason is that Algorithm 2 has already moved it or let it stay, or that it may not be moved any more.
        """
        return told.moved or self._spent(told)

    def _spent(self, told: Progress) -> bool:
        """Tell, by the job's progress ``told``, whether the job has been moved and each job is moved only once
        (``moves_per_job``).
        """
        return self.policy.moves_per_job == 1 and told.was_moved

    def _may_ask(self, fleet: Fleet, one: Movable) -> bool:
        """Tell whether the gate (line 15) lets the job ask for another node."""
        match self.policy.gate:
            case Gate.OPEN:
                return True
            case Gate.PRINTED:
                on = fleet.on[one.node]
                return on[Category.PROGRESSING] + on[Category.WATCHING] > 1
            case Gate.GROWING:
                return any(self._grows(uid, one) for uid in self.told)

    def _grows(self, uid: str, one: Movable) -> bool:
        """Tell whether job ``uid`` shares a node with the job ``one`` and has lately reported that it progresses.

        A job counts as progressing in every category but CC.
        """
        beside = one.node in self.snapshot.gang(uid).nodes.values() and uid != one.job.uid
        return beside and self.told[uid].category is not Category.CONVERGED and not self._silent(uid)

    # -- The methods below are Algorithm 3: jobs are moved to idle nodes. ----------------------

    def _rebalance(self, fleet: Fleet) -> Iterator[Migrate]:
        balance = self.policy.balance
        literal = balance in (Balance.ALL_MIGRATED, Balance.PRINTED)
        if balance is Balance.OFF or (literal and not all(map(self._settled, self.told.values()))):
            return
        for one, action in rebalance(fleet, filter(self._may_balance, self._movable()), balance):
            uid = one.job.uid
            self.counts = replace(self.counts, balanced=self.counts.balanced + 1)
            self.told[uid] = self.told[uid].restarted(self.now, balanced=True)
            yield action

    def _may_balance(self, one: Movable) -> bool:
        """Tell whether Algorithm 3 may move the job.

        It may do so once for each job, but not in the round in which Algorithm 2 has decided about the job. Only
        converged jobs are moved, unless ``balance_any`` is set.
        """
        known, told = self.known[one.job.uid], self.told[one.job.uid]
        fresh = told.moved is known.moved and not told.balanced and not self._spent(told)
        return fresh and (self.policy.balance_any or told.category is Category.CONVERGED)

    # -- The method below notes what the policy remembers. -------------------------------------

    def _remember(self) -> Iterator[Remember]:
        """Yield the actions that remember the round and changed progress, and forget the progress of ended jobs."""
        memory, jobs = self.snapshot.memory, self.snapshot.jobs
        yield Remember(CLOCK, self.now)
        for uid, told in self.told.items():
            if memory.get(KEY + uid) != told:
                yield Remember(KEY + uid, told)
        for uid in [key.removeprefix(KEY) for key in sorted(memory) if key.startswith(KEY)]:
            if uid not in jobs or jobs[uid].finished:
                yield Remember(KEY + uid, None)
        if self.counts != memory.get(COUNTS):
            yield Remember(COUNTS, self.counts)

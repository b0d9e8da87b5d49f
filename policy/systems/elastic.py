"""One cycle of an elastic system on a working copy of the room: what KOD2, DRS and DRAGON have in common.

A cycle starts gangs, shrinks other jobs for them, repairs gangs that have lost members, and grows running jobs. Each
system chooses the jobs and their order itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from policy.cluster.actions import Action, Admit, Decision, Resize
from policy.cluster.frozen import replace
from policy.cluster.gang import Gang, State
from policy.cluster.job import Job, Slot, queued
from policy.cluster.kept import shared
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.refusedwrite import SET_REPLICAS
from policy.cluster.snapshot import Snapshot, resizes_left
from policy.cluster.training import remaining_seconds
from policy.cluster.words import counted
from policy.placement.ask import Ask
from policy.placement.gang import ask_of, charge, place
from policy.placement.grow import Where, could_grow, grow, growers, leaving
from policy.placement.holes import ask_for_holes, closed_for, holes, into_holes
from policy.placement.room import Room
from policy.placement.shrink import NOBODY, Order, Reclaimable, Shrink, one_by_one, plan_shrink, reclaimable_of
from policy.systems.queue import WaitingQueue
from policy.systems.resizing import may_give
from policy.systems.runninggangs import RunningGangs


class ElasticCycle:
    """The working copy of one cycle; ``snapshot`` is not changed.

    ``gangs``: the running gangs, with the changes of this cycle. ``scaled``: the jobs that this cycle has shrunk.
    ``mending``: the job in repair for which room is kept, if any. ``order``, ``by_node``: how the workers to be taken
    are chosen among the victims (``plan_shrink``).
    """

    def __init__(self, snapshot: Snapshot, now: float, order: Order = one_by_one, *, by_node: bool = True) -> None:
        self.snapshot = snapshot
        self.now = now
        self.actions: list[Action] = []
        self.verdicts: dict[str, Verdict] = {}
        self.gangs = RunningGangs(snapshot)
        self.scaled: set[str] = set()
        self.mending: Job | None = None
        self._order, self._by_node = order, by_node
        self._left = resizes_left(snapshot, now)
        # _limited has the uids of jobs that wait because only shrinks could help, and the limit of resizes is reached.
        self._limited: set[str] = set()
        self._misfits: set[Ask] = set()
        self._grown: dict[str, dict[Slot, str]] = {}
        self._room: Room | None = None

    @property
    def room(self) -> Room:
        """The free room of the nodes, less what this cycle has given to jobs; computed on first use."""
        if self._room is None:
            self._room = Room.of(self.snapshot)
        return self._room

    def close(self, nodes: Iterable[str]) -> None:
        """Give no room on these nodes in the rest of the cycle."""
        self._room = self.room.but(nodes)

    def decision(self) -> Decision:
        """Return the actions and verdicts of this cycle, with one Resize for each job that has grown."""
        grown = [Resize(uid, self.gangs[uid].workers, nodes) for uid, nodes in self._grown.items()]
        return Decision((*self.actions, *grown), self.verdicts)

    # -- The method below shrinks other jobs for gangs in repair. --------------------------------------

    def mend(self, victims: Callable[[Job], list[Reclaimable]]) -> None:
        """Shrink other jobs for gangs in repair whose lost members find no room.

        If shrinking does not suffice for a gang, the room that its lost members could use is given to no other job in
        this cycle. The limit of resizes does not apply. victims: returns, for a gang in repair, the room that other
        jobs can give.
        """
        for uid in self.gangs.listed(self.snapshot.index.repairing):
            job, gang = self.snapshot.jobs[uid], self.gangs[uid]
            if gang.state is not State.REPAIRING or not gang.whole:
                continue
            missing = holes(self.snapshot, job, gang)
            ask = ask_for_holes(self.snapshot, job, gang, missing)
            if ask is None:
                continue
            plan = None if gang.waits_for else self._plan(ask, victims(job))
            if plan is None:
                self.mending = job
                self.close(closed_for(self.room, job, missing))
                continue
            self._shrink(plan, ask, job)
            nodes = into_holes(plan.nodes, missing)
            self.actions.append(Resize(uid, gang.workers, nodes, waits_for=plan.waits_for))
            self.gangs[uid] = replace(gang, nodes={**gang.nodes, **nodes}, waits_for=plan.waits_for)

    # -- The methods below start gangs. ------------------------------------------------------------

    def start(self, job: Job, workers: int) -> bool:
        """Admit the job with ``workers`` workers if there is room for the whole gang; tell whether it was admitted."""
        ask = ask_of(self.snapshot, job, workers)
        nodes = None if ask in self._misfits else place(self.room, ask)
        if nodes is None:
            self._misfits.add(ask)
            return False
        charge(self.room, ask, nodes)
        self.take(job, workers, nodes, ())
        return True

    def start_with_most(self, job: Job, most: int) -> bool:
        """Admit the job with as many workers as fit, from ``most`` down to its minimum; tell whether it succeeded."""
        least = ask_of(self.snapshot, job, job.min_workers)
        if least in self._misfits:
            return False
        counts = range(max(most, job.min_workers), job.min_workers - 1, -1)
        return any(self.start(job, workers) for workers in counts)

    def start_by_shrinking(self, job: Job, victims: list[Reclaimable]) -> bool:
        """Admit the job at its minimum in room that the victims give back; tell whether it succeeded.

        If their room does not suffice, none of them is shrunk.
        """
        ask = ask_of(self.snapshot, job, job.min_workers)
        plan = self._plan(ask, victims) if victims or ask not in self._misfits else None
        if plan is not None and len(plan.taken) > self._left:
            self._limited.add(job.uid)
            plan = None
        if plan is None:
            return False
        self._shrink(plan, ask, job)
        self.take(job, job.min_workers, plan.nodes, plan.waits_for)
        self._misfits.clear()
        return True

    def take(self, job: Job, workers: int, nodes: Mapping[Slot, str], waits_for: Collection[str]) -> None:
        """Admit the job with these workers and nodes; the room on the nodes is charged already."""
        self.actions.append(Admit(job.uid, workers, nodes, waits_for))
        self.gangs[job.uid] = Gang(job.uid, State.PLANNED, nodes=nodes, workers=workers, waits_for=waits_for)

    def no_room(self, job: Job) -> Verdict:
        """Return the verdict that says why a job waits that found no room."""
        if job.uid in self._limited:
            most = self.snapshot.rules.resizes_per_minute
            return self.verdict(
                Reason.RESIZES_LIMITED,
                f"the cluster's limit is {counted(most, 'resize')} in any minute (resizes_per_minute)",
            )
        return self.no_room_for(ask_of(self.snapshot, job, job.min_workers))

    def no_room_for(self, ask: Ask) -> Verdict:
        """Return the verdict that says why jobs with this placement request wait."""
        if self.mending is not None:
            return self.verdict(Reason.BEHIND, f"{self.mending.key} is being repaired", self.mending.uid)
        return ask.no_room

    def verdict(self, reason: Reason, detail: str, behind: str = "") -> Verdict:
        """Return a verdict with these fields; an equal verdict of an earlier step is returned as the same object.

        Comparing the verdicts of two steps is fast then.
        """
        return shared(self.snapshot, Verdict(reason, detail, behind))

    def leave_class_waiting(self, waiting: WaitingQueue, first: Verdict) -> None:
        """Remove the first job, which found no room, and all other jobs of its class from ``waiting``; note why they
        wait.

        first: the verdict of the first job. The other jobs find no room either, but the cycle has not tried to shrink
        jobs for them, so their verdict may differ.
        """
        uid, ask = waiting.first, waiting.ask
        self.leave_waiting(waiting.pop_class(), self.no_room_for(ask))
        self.verdicts[uid] = first

    def leave_waiting(self, uids: Iterable[str], verdict: Verdict) -> None:
        """Note this verdict for each of the jobs."""
        self.verdicts.update(dict.fromkeys(uids, verdict))

    # -- The methods below shrink jobs. ------------------------------------------------------------

    def leaving(self) -> list[Reclaimable]:
        """Return the room of pods of Kohort's jobs that are leaving already, without the room that a plan waits for."""
        if not self.snapshot.index.leaving:
            return []
        freeing = self.gangs.listed(self.snapshot.index.freeing)
        claimed = {pod for uid in freeing for pod in self.gangs[uid].waits_for}
        stays = self._refused_pods()
        rooms = (freed_room for freed_room in leaving(self.snapshot) if freed_room.pod_uid not in claimed | stays)
        return [Reclaimable.of(NOBODY, (freed_room,)) for freed_room in rooms]

    def _refused_pods(self) -> set[str]:
        """Return the uids of the pods of jobs whose resize the API server refuses: their room will not be freed."""
        jobs = (
            uid for uid, writes in self.snapshot.refused_writes.items()
            if any(one.write == SET_REPLICAS and one.lasting for one in writes)
        )  # fmt: skip
        return {pod.uid for uid in jobs for pod in self.snapshot.every_pod_of(uid)}

    def reclaimable(self, victims: Iterable[Job]) -> list[Reclaimable]:
        """Return first the room that is being freed anyway, then the room of each victim's workers beyond its minimum.

        The victims must be jobs that this cycle has not changed.
        """
        return [*self.leaving(), *(reclaimable_of(self.snapshot, victim.uid) for victim in victims)]

    def prepare(self) -> None:
        """Compute in advance what each running job could give; the result is kept until the job changes."""
        for job in self.yielding():
            reclaimable_of(self.snapshot, job.uid)

    def may_shrink(self, victim: Job, job: Job) -> bool:
        """Tell whether the victim may be shrunk for the job now, and has not been shrunk in this cycle."""
        gang = self.gangs.running(victim.uid)
        free = victim.uid not in self.scaled and victim.uid != job.uid
        return free and may_give(self.snapshot, victim, gang, job, self.now)

    def _plan(self, ask: Ask, victims: list[Reclaimable]) -> Shrink | None:
        return plan_shrink(self.room, ask, victims, self._order, by_node=self._by_node)

    def _shrink(self, plan: Shrink, ask: Ask, job: Job) -> None:
        self._left -= len(plan.taken)
        for uid, count in plan.taken.items():
            gang = self.gangs[uid]
            self.actions.append(Resize(uid, gang.workers - count, on_behalf_of=job.uid))
            self.gangs[uid] = replace(gang, workers=gang.workers - count)
            self.scaled.add(uid)
        charge(plan.room, ask, plan.nodes)
        # The plan's room counts room that is still being freed. What is left of that must not be given to other jobs
        # before it is free, so the room is cut to what was free before.
        self._room = plan.room.at_most(self.room)

    # -- The methods below grow jobs. --------------------------------------------------------------

    @property
    def freeing(self) -> bool:
        """Whether a gang with a plan waits for room that other jobs' pods still hold; then no job grows."""
        return any(self.gangs[uid].waits_for for uid in self.gangs.listed(self.snapshot.index.freeing))

    def could_grow(self, where: Where) -> list[Job]:
        """Return the jobs that may find room for a worker, in order of uid; all other jobs cannot grow."""
        room, jobs = self.room, self.snapshot.jobs
        found = self.gangs.listed(growers(self.snapshot, room, where))
        return [job for uid in found if could_grow(self.snapshot, room, job := jobs[uid], self.gangs[uid], where)]

    def yielding(self) -> Iterator[Job]:
        """Yield the jobs that had workers beyond their minimum when this cycle began, in order of uid."""
        jobs = self.snapshot.jobs
        return (job for uid in self.snapshot.index.yielding if queued(job := jobs[uid]))

    def may_grow(self, job: Job) -> bool:
        """Tell whether the job is below its maximum, was not shrunk in this cycle, and has no change under way."""
        gang = self.gangs[job.uid]
        # A gang whose planned nodes were refused is planned again at its minimum. It grows only once it runs: otherwise
        # it would be shrunk and grown again and again.
        misses = self.snapshot.gang(job.uid).tries.misses
        sure = gang.state is State.RUNNING or (gang.state is State.PLANNED and not misses)
        free = sure and self.now >= gang.tries.not_before and job.uid not in self.scaled and not gang.held
        return job.elastic and gang.workers < job.max_workers and free

    def pays(self, job: Job, restart_seconds: float) -> bool:
        """Tell whether growing to its maximum would save the job at least ``restart_seconds``.

        That is the time for which a change of its workers stops the job. The answer is True if the training does not
        report how long it still takes.
        """
        left = remaining_seconds(self.snapshot.reports.get(job.uid, ()), self.now) if restart_seconds else None
        return left is None or left * (1 - self.gangs[job.uid].workers / job.max_workers) >= restart_seconds

    def grow_greedily(self, jobs: Iterable[Job], where: Where) -> None:
        """Grow each job up to its maximum before the next one."""
        for job in jobs:
            self._grow(job, where)

    def grow_in_turns(self, jobs: Iterable[Job], where: Where) -> None:
        """Give one worker to each job in turn, until a round adds none."""
        left = list(jobs)
        while left:
            left = [job for job in left if self._grow(job, where, most=1)]

    def _grow(self, job: Job, where: Where, most: int | None = None) -> bool:
        gang, resized = self.gangs[job.uid], job.uid in self._grown
        if not resized and self._left <= 0:
            return False
        added = grow(self.snapshot, self.room, job, gang, where, most)
        if added:
            self._left -= not resized
            nodes = {**gang.nodes, **added}
            self.gangs[job.uid] = replace(gang, workers=gang.workers + len(added), nodes=nodes)
            self._grown.setdefault(job.uid, {}).update(added)
        return bool(added)

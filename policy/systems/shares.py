"""Helpers for systems that only decide how many workers each job gets: they find nodes and make the actions.

Workers are given only when their room is free. Members are placed round robin.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from itertools import count

from policy.cluster.actions import Action, Admit, Resize
from policy.cluster.constraints import ANYWHERE, Constraints
from policy.cluster.gang import Gang
from policy.cluster.job import PS, WORKER, Job, Slot
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import Resources, total
from policy.cluster.snapshot import Snapshot
from policy.placement.fit import accepts
from policy.placement.gang import done_slots
from policy.placement.room import Room


def stands(jobs: Set[str], before: Set[str], *, barred: Set[str], shares: Set[str], left_out: Set[str]) -> bool:
    """Tell whether a division of the cluster among jobs, which lasts until a job comes or ends, is still valid.

    ``jobs``: the jobs now. ``before``: the jobs for which the division was made. ``barred``: the jobs that cannot start
    now for a reason other than room. ``shares``: the jobs that were given workers. ``left_out``: the jobs that were
    barred when the division was made. The division must be made again if a job that was given workers is barred now,
    or if a job that was left out can start now.
    """
    return jobs == before and barred.isdisjoint(shares) and left_out <= barred


def servers_for(job: Job, workers: int) -> int | None:
    """Return how many ps ``workers`` workers need so that the bandwidth of the ps does not slow them.

    None: the job keeps the number of ps that it asks for.
    """
    if not job.ps_elastic or job.training is None or workers == 0:
        return None
    return max(1, math.ceil(workers / job.training.workers_per_ps - 1e-9))


class Pools:
    """The room for Kohort's jobs, added up over all nodes that accept a role (the role's pool).

    A division by pools may be too large, because the room of a pool is spread over its nodes.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        room = Room.without_jobs(snapshot)
        self._snapshot, self._room = snapshot, room
        self._names: dict[Constraints, frozenset[str]] = {}
        self._done: dict[str, frozenset[Slot]] = {}
        self.free: dict[frozenset[str], dict[str, int]] = {}
        self.all = total(room.free(name) for name in room)

    def _pool(self, constraints: Constraints) -> dict[str, int]:
        if constraints not in self._names:
            names = frozenset(name for name, node in self._room.nodes.items() if accepts(node, constraints))
            self._names[constraints] = names
            self.free.setdefault(names, dict(total(self._room.free(name) for name in names).amounts))
        return self.free[self._names[constraints]]

    def take(self, job: Job, before: int, after: int) -> bool:
        """Take from the pools what ``after`` workers of the job need beyond ``before`` workers, with their ps.

        Return False, and take nothing, if a pool has too little.
        """
        wanted = [(self._pool(constraints), more) for constraints, more in self._more(job, before, after)]
        if not all(pool.get(name, 0) >= amount for pool, more in wanted for name, amount in more.amounts.items()):
            return False
        for pool, more in wanted:
            for name, amount in more.amounts.items():
                pool[name] -= amount
        return True

    def share(self, job: Job, workers: int) -> float:
        """Return the job's dominant share with ``workers`` workers: its largest share of any of the cluster's
        resources.
        """
        taken = total(more for _, more in self._more(job, 0, workers))
        shares = [amount / self.all[name] for name, amount in taken.amounts.items() if self.all[name] > 0]
        return max(shares, default=0.0)

    def _more(self, job: Job, before: int, after: int) -> Iterable[tuple[Constraints, Resources]]:
        """Yield for each role its constraints, and the resources that ``after`` workers need beyond ``before`` workers.

        Workers whose pods have succeeded need nothing.
        """
        if job.uid not in self._done:
            self._done[job.uid] = done_slots(self._snapshot, job)
        done = self._done[job.uid]
        for role in job.roles:
            if role.name == WORKER:
                more = after - before - sum(1 for slot in done if slot.role == WORKER and before <= slot.index < after)
            elif role.name == PS and job.ps_elastic:
                more = (servers_for(job, after) or 0) - (servers_for(job, before) or 0)
            else:
                more = role.replicas if before == 0 else 0
            yield role.constraints, role.requests.times(more)


class Orders:
    """Turns decided numbers of workers into actions with nodes.

    ``whole``: a job starts only with its full number of workers; otherwise its minimum suffices.
    """

    def __init__(self, snapshot: Snapshot, *, whole: bool = False) -> None:
        self._snapshot, self._whole = snapshot, whole
        self._room = Room.of(snapshot)
        self._names = list(self._room)
        self._turn = count(sum(len(gang.nodes) for gang in snapshot.gangs.values()))
        self.actions: list[Action] = []
        self.verdicts: dict[str, Verdict] = {}

    def give(self, workers: Mapping[str, int]) -> None:
        """Make the actions that give each job its number of workers (by uid), in the order of the mapping.

        A job with 0 workers pauses or waits. The mapping must have no job that is barred (``queue``), because only room
        is checked here.
        """
        for uid, given in workers.items():
            job, gang = self._snapshot.jobs[uid], self._snapshot.gang(uid)
            if gang.admitted and given == 0:
                self.actions.append(Resize(uid, 0))
                self.verdicts[uid] = Verdict(Reason.PAUSED)
            elif gang.admitted and given < gang.workers:
                self.actions.append(Resize(uid, given, ps=servers_for(job, given)))
            elif gang.admitted and given > gang.workers:
                self._grow(job, gang, given)
            elif not gang.admitted:
                self._admit(job, given)

    def _admit(self, job: Job, given: int) -> None:
        if given:
            workers, nodes = self._place(job, Gang(job.uid), given)
            if workers >= max(1, given if self._whole else job.min_workers):
                self._charge(job, nodes)
                self.actions.append(Admit(job.uid, workers, nodes, ps=servers_for(job, workers)))
                return
        self.verdicts[job.uid] = Verdict(Reason.NO_ROOM)

    def _grow(self, job: Job, gang: Gang, given: int) -> None:
        workers, nodes = self._place(job, gang, given)
        if nodes:
            self._charge(job, nodes)
            self.actions.append(Resize(job.uid, workers, nodes, ps=servers_for(job, workers)))

    def _place(self, job: Job, gang: Gang, given: int) -> tuple[int, dict[Slot, str]]:
        """Return how many workers the gang can have, up to ``given``, and nodes for the members that it lacks.

        Room is looked for one worker (with its ps) at a time.
        """
        trial, nodes, reached = self._room.branch(), dict[Slot, str](), gang.workers
        done = done_slots(self._snapshot, job)
        for workers in range(gang.workers + 1, given + 1):
            found: dict[Slot, str] = {}
            for slot in job.slots(workers, servers_for(job, workers)):
                if slot in gang.nodes or slot in nodes or slot in done:
                    continue
                node = self._next(trial, job, slot.role)
                if node is None:
                    return reached, nodes
                role = job.role(slot.role)
                trial.take(node, role.requests if role else Resources())
                found[slot] = node
            nodes |= found
            reached = workers
        return reached, nodes

    def _next(self, room: Room, job: Job, name: str) -> str | None:
        """Return the next node, round robin, that takes a member of that role; None if none does."""
        role = job.role(name)
        requests, constraints = (role.requests, role.constraints) if role else (Resources(), ANYWHERE)
        start = next(self._turn) % max(1, len(self._names))
        names = (*self._names[start:], *self._names[:start])
        return next((n for n in names if requests.fits(room.free(n)) and accepts(room.nodes[n], constraints)), None)

    def _charge(self, job: Job, nodes: Mapping[Slot, str]) -> None:
        for slot, node in nodes.items():
            role = job.role(slot.role)
            self._room.take(node, role.requests if role else Resources())

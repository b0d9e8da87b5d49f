"""For systems that decide how many workers each job gets: room by pool, ps for so many workers, and the orders.

What is taken away goes first; what is given waits until its room is free. Members are placed round robin.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from itertools import count

from policy.cluster.actions import Action, Admit, Resize
from policy.cluster.gang import Gang
from policy.cluster.model import ANYWHERE, PS, WORKER, Constraints, Job, Slot
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import Resources, total
from policy.cluster.snapshot import Snapshot
from policy.placement.fit import accepts
from policy.placement.gang import done_slots
from policy.placement.room import Room


def stands(jobs: Set[str], before: Set[str], *, barred: Set[str], shares: Set[str], left_out: Set[str]) -> bool:
    """Tell whether numbers that hold until a job comes or ends still hold.

    ``before``: the jobs that they were made for; ``shares``: those of them that were given something; ``left_out``:
    those that were barred then. A barred job's share goes to the others, and it has one again when it can start. A job
    without a share changes nothing: its pods come and go while it pauses.
    """
    return jobs == before and barred.isdisjoint(shares) and left_out <= barred


def servers_for(job: Job, workers: int) -> int | None:
    """Return the ps beside so many workers, so that their bandwidth is not the bottleneck; None: as the job asks."""
    if not job.ps_elastic or job.training is None or workers == 0:
        return None
    return max(1, math.ceil(workers / job.training.workers_per_ps - 1e-9))


class Pools:
    """Free room summed over the nodes that take a role: how much could be given if nothing were fragmented."""

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
        """Take what more the job needs at ``after`` workers than at ``before``, or nothing where it is not there."""
        wanted = [(self._pool(constraints), more) for constraints, more in self._more(job, before, after)]
        if not all(pool.get(name, 0) >= amount for pool, more in wanted for name, amount in more.amounts.items()):
            return False
        for pool, more in wanted:
            for name, amount in more.amounts.items():
                pool[name] -= amount
        return True

    def share(self, job: Job, workers: int) -> float:
        """Return the job's dominant share at so many workers: that of the resource of which it takes most."""
        taken = total(more for _, more in self._more(job, 0, workers))
        shares = [amount / self.all[name] for name, amount in taken.amounts.items() if self.all[name] > 0]
        return max(shares, default=0.0)

    def _more(self, job: Job, before: int, after: int) -> Iterable[tuple[Constraints, Resources]]:
        """Yield what more each role needs; workers that are done need nothing."""
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
    """Turns numbers of workers into orders. ``whole``: a job gets all that it is given, or nothing."""

    def __init__(self, snapshot: Snapshot, *, whole: bool = False) -> None:
        self._snapshot, self._whole = snapshot, whole
        self._room = Room.of(snapshot)
        self._names = list(self._room)
        self._turn = count(sum(len(gang.nodes) for gang in snapshot.gangs.values()))
        self.actions: list[Action] = []
        self.verdicts: dict[str, Verdict] = {}

    def give(self, workers: Mapping[str, int]) -> None:
        """Order these numbers, in the order of the mapping; a job that is given none pauses or waits.

        None of a job that is barred (``queue``): only room is looked at.
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
        """Return nodes for the members that the gang lacks at ``given`` workers, one worker (with its ps) at a time."""
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
        """Return the next node, round robin from where the last member went, that takes this one."""
        role = job.role(name)
        requests, constraints = (role.requests, role.constraints) if role else (Resources(), ANYWHERE)
        start = next(self._turn) % max(1, len(self._names))
        names = (*self._names[start:], *self._names[:start])
        return next((n for n in names if requests.fits(room.free(n)) and accepts(room.nodes[n], constraints)), None)

    def _charge(self, job: Job, nodes: Mapping[Slot, str]) -> None:
        for slot, node in nodes.items():
            role = job.role(slot.role)
            self._room.take(node, role.requests if role else Resources())

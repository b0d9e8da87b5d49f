"""The executor: it gives every job what its plan says for the present time slot, as far as room is really free.

Workers are taken from jobs first. Jobs are given workers only when the room for these is free, so that no room is
promised twice. Members stay where they are if the other plans leave room for that: a plan only says how many members
are on each node, chosen by price, and to move a member would cost a restart, which the prices do not contain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from policy.cluster.actions import Action, Admit, Resize
from policy.cluster.constraints import ANYWHERE
from policy.cluster.gang import Gang, State
from policy.cluster.job import PS, WORKER, Job, Slot, releasing
from policy.cluster.node import Node
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import BANDWIDTH, NOTHING, Resources
from policy.cluster.snapshot import Snapshot, demand
from policy.placement.fit import accepts
from policy.placement.gang import barred, done_slots
from policy.placement.grow import leaving
from policy.placement.room import Room
from policy.systems.oasis.schedule import Plan, Shift, sizes, taken
from policy.systems.oasis.workload import POOL
from policy.systems.queue import bar

NOT_FREE = Verdict(Reason.NO_ROOM, "its planned nodes are not free yet")
NOT_OFFERED = Verdict(Reason.NODE_NOT_OFFERED, "its planned nodes are asked for again in a moment")


@dataclass
class Slotwork:
    """The actions and verdicts by which the jobs get what their plans say for one time slot.

    ``plans``: the plan of each job by uid; a plan is changed where members stay on other nodes than those planned.
    ``ground``: by name, each usable node with the resources that jobs may take of it. ``righted``: jobs that were
    paused in this time slot because their members were not on their planned nodes.
    """

    snapshot: Snapshot
    plans: dict[str, Plan]
    ground: Mapping[str, tuple[Node, Resources]]
    slot: int
    slot_seconds: float
    now: float
    righted: set[str]
    actions: list[Action] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def run(self) -> None:
        """Decide for every planned job whether it starts, is resized, pauses or goes on unchanged in this time slot."""
        self._room = Room.of(self.snapshot)
        self._free = self._planned_free()
        for uid in sorted(self.plans):
            job, gang = self.snapshot.jobs[uid], self.snapshot.gang(uid)
            shift = self.plans[uid].at(self.slot)
            if gang.admitted:
                if not releasing(job):
                    self._direct(job, gang, shift)
                continue
            starts = shift is not None and within(job, shift)
            servers = self._equip(job, gang, shift if starts else self.plans[uid].after(self.slot))
            if releasing(job):
                continue  # The job's last pods are being deleted; it queues again when they are gone.
            if shift is None or not starts:
                self.verdicts[uid] = self._pausing(uid)
            elif servers is not None:
                self.verdicts[uid] = Verdict(Reason.PAUSED, f"it is given {servers} ps before it starts")
            else:
                self._start(job, shift)

    def _planned_free(self) -> dict[str, Resources]:
        """Return by node the resources that no plan takes in this time slot."""
        free = {name: room for name, (_, room) in self.ground.items()}
        for plan in self.plans.values():
            shift = plan.at(self.slot)
            for node, requests in taken(plan, shift) if shift else ():
                if node in free:
                    free[node] = free[node] - requests
        return free

    def _pausing(self, uid: str) -> Verdict:
        later = self.plans[uid].after(self.slot)
        if later is None:
            return Verdict(Reason.SCHEDULE_OVER)
        seconds = later.slot * self.slot_seconds - self.now
        return Verdict(Reason.PAUSED, f"it goes on in time slot {later.slot}, {seconds:.0f} s from now")

    # -- The methods below direct jobs that have members. ----------------------------------------

    def _direct(self, job: Job, gang: Gang, shift: Shift | None) -> None:
        if shift is None:
            if (later := self.plans[job.uid].after(self.slot)) is not None:
                self._pause(job, later)
            return  # A job that runs past the end of its plan stays unchanged until it ends or is planned again.
        if gang.state is State.MIGRATING or not within(job, shift):
            # The user's new bounds forbid the number of workers that the plan has for this time slot. Only the later
            # time slots are planned again, so the job stays as it is.
            return
        if _lacks_ps(job, shift):
            self._pause(job, shift)
            return
        counts = self._counts(job, shift)
        kept = {slot: node for slot, node in gang.nodes.items() if slot.index < counts.get(slot.role, 0)}
        if not _within(kept, shift):
            changed = self._stay(job, shift, kept)
            if changed is None:
                self._put_right(job, gang, shift)
                return
            shift = changed
        missing = self._assign(job, shift, kept)
        servers = _given_ps(job, shift)
        same = gang.workers == shift.workers and (servers is None or servers == gang.ps)
        if not (missing or not same) or (missing and not self._take(job, missing)):
            return
        self.actions.append(Resize(job.uid, shift.workers, missing, ps=servers))

    def _put_right(self, job: Job, gang: Gang, shift: Shift) -> None:
        """Pause a gang of which a member has to move, so that it starts again on its planned nodes.

        This is done at most once in a time slot. If the planned nodes are taken when the gang starts again, it starts
        on others and stays there, because otherwise it would pause and start without end. A job whose kind cannot be
        suspended stays where it is; it is only shrunk to its planned number of workers.
        """
        if job.suspends and job.uid not in self.righted:
            self.righted.add(job.uid)
            self._pause(job, shift)
        elif shift.workers < gang.workers:
            self.actions.append(Resize(job.uid, shift.workers, ps=gang.ps))

    def _pause(self, job: Job, until: Shift) -> None:
        """Pause the job until the time slot of the shift ``until``.

        If the job has another number of ps then, the new number is ordered while the job is suspended. A job whose kind
        cannot be suspended is not paused, because its pods would have to be deleted.
        """
        if not job.suspends:
            return
        self.actions.append(Resize(job.uid, 0, ps=until.count(PS) if _lacks_ps(job, until) else None))
        self.verdicts[job.uid] = self._pausing(job.uid) if until.slot > self.slot else Verdict(Reason.PAUSED)

    def _counts(self, job: Job, shift: Shift) -> dict[str, int]:
        return {role.name: shift.count(role.name) for role in job.roles}

    def _stay(self, job: Job, shift: Shift, kept: Mapping[Slot, str]) -> Shift | None:
        """Return a changed shift, in which the members in ``kept`` stay on their nodes and the numbers are the same.

        The job's plan gets this shift in place of the old one. None: the other plans leave no room for it.
        """
        plan = self.plans[job.uid]
        free = dict(self._free)
        for node, requests in taken(plan, shift):
            if node in free:
                free[node] = free[node] + requests
        each = sizes(plan)
        placed: Counter[tuple[str, str]] = Counter()
        refused = barred(self.snapshot, job)

        def put(role: str, node: str) -> bool:
            if node in free:
                if not fits(self.ground[node][0], each[role], free[node]):
                    return False
                free[node] = free[node] - each[role]
            placed[role, node] += 1
            return True

        # Members that are already on a node stay there even if the node takes no new members.
        if not all(put(slot.role, node) for slot, node in kept.items()):
            return None
        for role in each:
            wanted = [node for node, count in sorted(shift.on(role).items()) for _ in range(count)]
            there = sum(1 for slot in kept if slot.role == role)
            places = [node for node in (*wanted, *self._open(job, role)) if node in free and node not in refused]
            for _ in range(shift.count(role) - there):
                if not any(put(role, node) for node in places):
                    return None
        made = Shift(shift.slot, tuple((role, node, count) for (role, node), count in sorted(placed.items())))
        self.plans[job.uid] = plan.put(made)
        self._free = free
        return made

    def _open(self, job: Job, role: str) -> list[str]:
        """Return the names of the nodes that take the role, without those that kube-scheduler did not offer lately."""
        found, refused = job.role(role), barred(self.snapshot, job)
        constraints = found.constraints if found else ANYWHERE
        pool = PS if role == PS else WORKER
        return [
            name
            for name, (node, _) in self.ground.items()
            if name not in refused and node.labels.get(POOL, pool) == pool and accepts(node, constraints)
        ]

    # -- The methods below start jobs that have no members. --------------------------------------

    def _equip(self, job: Job, gang: Gang, shift: Shift | None) -> int | None:
        """Order the number of ps that the job object must have before the job starts with this shift; return the
        number.

        The result is None if the job object has that number already. The order is given once, and is withdrawn if the
        user's new bounds forbid the shift's number of workers.
        """
        servers = shift.count(PS) if shift is not None and _lacks_ps(job, shift) else None
        told = gang.ps_next if gang.ps_next != job.servers else None
        if told != servers:
            self.actions.append(Resize(job.uid, 0, ps=servers))
        return servers

    def _start(self, job: Job, shift: Shift) -> None:
        verdict = bar(self.snapshot, job, self.now)
        if verdict is not None:
            self.verdicts[job.uid] = verdict
            return
        nodes = self._assign(job, shift, {})
        if not self._take(job, nodes):
            other = None if self._too_early(job) else self._elsewhere(job, shift)
            if other is None:
                refused = not barred(self.snapshot, job).isdisjoint(nodes.values())
                self.verdicts[job.uid] = NOT_OFFERED if refused else NOT_FREE
                return
            nodes = other
        servers = _given_ps(job, shift)
        self.actions.append(Admit(job.uid, shift.workers, nodes, ps=servers))

    def _too_early(self, job: Job) -> bool:
        """Tell whether the job should wait for its planned nodes a little longer, instead of starting on others.

        It should if room is being freed, or if kube-scheduler has refused a planned node only once so far, because
        kube-scheduler may not yet have seen that the room is free.
        """
        soon = any(isinstance(action, Resize) for action in self.actions) or bool(leaving(self.snapshot))
        return soon or self.snapshot.gang(job.uid).tries.misses == 1

    def _elsewhere(self, job: Job, shift: Shift) -> dict[Slot, str] | None:
        """Return a node for each member by free room alone, whatever the plan says, and charge the room.

        The result is None, and nothing is charged, if there is no room for some member.
        """
        nodes: dict[Slot, str] = {}
        trial = self._room.branch()
        for slot in self._slots(job, shift):
            requests = demand(job, slot, self.snapshot.member(job.uid, slot))
            node = next((n for n in self._open(job, slot.role) if requests.fits(trial.free(n))), None)
            if node is None:
                return None
            trial.take(node, requests)
            nodes[slot] = node
        self._room = trial
        return nodes

    # -- The methods below choose nodes for a job's slots and take their room. -------------------

    def _slots(self, job: Job, shift: Shift) -> list[Slot]:
        """Return the gang's slots in that shift, without slots whose pod has succeeded: they need no room any more."""
        roles = sorted({role for role, _, _ in shift.layout}, key=lambda role: (role == WORKER, role))
        done = done_slots(self.snapshot, job)
        slots = (Slot(role, index) for role in roles for index in range(shift.count(role)))
        return [slot for slot in slots if slot not in done]

    def _assign(self, job: Job, shift: Shift, kept: Mapping[Slot, str]) -> dict[Slot, str]:
        """Return a node for each member of the shift that is not in ``kept``, from the shift's nodes that are left."""
        left = Counter({(role, node): count for role, node, count in shift.layout})
        left.subtract(Counter((slot.role, node) for slot, node in kept.items()))
        spare: dict[str, list[str]] = {}
        for (role, node), count in sorted(left.items()):
            spare.setdefault(role, []).extend([node] * count)
        return {slot: spare[slot.role].pop(0) for slot in self._slots(job, shift) if slot not in kept}

    def _take(self, job: Job, nodes: Mapping[Slot, str]) -> bool:
        """Charge the room for these members, and tell whether it was charged.

        Nothing is charged if a node lacks room, or if kube-scheduler has lately refused one of the nodes.
        """
        if not barred(self.snapshot, job).isdisjoint(nodes.values()):
            return False
        trial = self._room.branch()
        for slot, node in nodes.items():
            requests = demand(job, slot, self.snapshot.member(job.uid, slot))
            if not requests.fits(trial.free(node)) and requests != NOTHING:
                return False
            trial.take(node, requests)
        self._room = trial
        return True


def fits(node: Node, requests: Resources, free: Resources) -> bool:
    """Tell whether the requests fit into the free resources; a node that states no bandwidth has enough of it."""
    if BANDWIDTH not in node.allocatable.amounts and requests[BANDWIDTH]:
        requests = Resources({name: amount for name, amount in requests.amounts.items() if name != BANDWIDTH})
    return requests.fits(free)


def _within(kept: Mapping[Slot, str], shift: Shift) -> bool:
    """Tell whether the shift has at least as many members of each role on each node as ``kept`` has there."""
    have = Counter((slot.role, node) for slot, node in kept.items())
    places = {(role, node): count for role, node, count in shift.layout}
    return all(count <= places.get(place, 0) for place, count in have.items())


def _lacks_ps(job: Job, shift: Shift) -> bool:
    """Tell whether the job must be restarted to get the number of ps that the shift has."""
    return job.ps_restarts and within(job, shift) and shift.count(PS) != job.servers


def _given_ps(job: Job, shift: Shift) -> int | None:
    """Return the shift's number of ps for a job whose ps follow its workers; None: the job keeps the ps it asks for."""
    return shift.count(PS) if job.ps_elastic and job.worker is not None else None


def within(job: Job, shift: Shift) -> bool:
    """Tell whether the shift's workers are within the job's present bounds; always true for a job without workers."""
    return job.worker is None or job.min_workers <= shift.workers <= job.max_workers

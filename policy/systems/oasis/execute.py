"""The executor: at each moment every job has what its plan says for the slot, as far as room is really free.

What is taken away goes first; what is given waits until the room is free, so nothing is ever promised twice. Members
stay where they are wherever the other plans leave the room for it: a plan names counts per node, chosen by price, and
moving a member would cost a restart that the prices do not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from policy.cluster.actions import Action, Admit, Resize
from policy.cluster.gang import Gang, State
from policy.cluster.model import ANYWHERE, PS, WORKER, Job, Node, Slot, releasing
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
    """One slot's orders. ``plans`` are changed where a job's members stay elsewhere than the plan had them.

    ``righted``: jobs that were paused in this slot because they were not where the plan has them.
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
        """Give every planned job its orders."""
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
                continue  # its last pods are going; it is queued again then
            if shift is None or not starts:
                self.verdicts[uid] = self._pausing(uid)
            elif servers is not None:
                self.verdicts[uid] = Verdict(Reason.PAUSED, f"it is given {servers} ps before it starts")
            else:
                self._start(job, shift)

    def _planned_free(self) -> dict[str, Resources]:
        """Return what each node has beside all plans of this slot."""
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
            return Verdict(Reason.PAUSED, "its schedule is over and no room was found for what is left")
        seconds = later.slot * self.slot_seconds - self.now
        return Verdict(Reason.PAUSED, f"it goes on in slot {later.slot}, {seconds:.0f} s from now")

    # -- jobs that have members ------------------------------------------------------------------

    def _direct(self, job: Job, gang: Gang, shift: Shift | None) -> None:
        if shift is None:
            if (later := self.plans[job.uid].after(self.slot)) is not None:
                self._pause(job, later)
            return  # past its plan: it goes on as it is until it ends or is planned anew
        if gang.state is State.MIGRATING or not within(job, shift):
            return  # a user's new bounds hold in this slot, and the next ones are planned under them
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
        """Let the whole gang start again where the plan has it, because a member has to move; once in a slot.

        Where its planned place is not given up, it starts elsewhere and stays there: else it would pause and start for
        ever. A kind that cannot be suspended stays where it is.
        """
        if job.suspends and job.uid not in self.righted:
            self.righted.add(job.uid)
            self._pause(job, shift)
        elif shift.workers < gang.workers:
            self.actions.append(Resize(job.uid, shift.workers, ps=gang.ps))

    def _pause(self, job: Job, until: Shift) -> None:
        """Pause the job until that slot; where it has other ps then, they are given while it is suspended.

        A kind that cannot be suspended holds on: its pods would have to be deleted.
        """
        if not job.suspends:
            return
        self.actions.append(Resize(job.uid, 0, ps=until.count(PS) if _lacks_ps(job, until) else None))
        self.verdicts[job.uid] = self._pausing(job.uid) if until.slot > self.slot else Verdict(Reason.PAUSED)

    def _counts(self, job: Job, shift: Shift) -> dict[str, int]:
        return {role.name: shift.count(role.name) for role in job.roles}

    def _stay(self, job: Job, shift: Shift, kept: Mapping[Slot, str]) -> Shift | None:
        """Return the same counts with the kept members where they are, if other plans of the slot leave the room."""
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

        # On a node that takes nobody new, who is there stays.
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
        """Return the nodes that take the role at all, by name, but those that kube-scheduler did not offer lately."""
        found, refused = job.role(role), barred(self.snapshot, job)
        constraints = found.constraints if found else ANYWHERE
        pool = PS if role == PS else WORKER
        return [
            name
            for name, (node, _) in self.ground.items()
            if name not in refused and node.labels.get(POOL, pool) == pool and accepts(node, constraints)
        ]

    # -- jobs that have none ---------------------------------------------------------------------

    def _equip(self, job: Job, gang: Gang, shift: Shift | None) -> int | None:
        """Order the ps that the job has to ask for before it starts in that slot, and return their number.

        None where it asks for that number already. It is told once. What it was told for a slot that its user's new
        bounds have ended is taken back.
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
        """Tell whether the plan may only be a moment early.

        Room is on its way, or kube-scheduler has not seen it free yet. It has something against a node that it does not
        offer twice in a row.
        """
        soon = any(isinstance(action, Resize) for action in self.actions) or bool(leaving(self.snapshot))
        return soon or self.snapshot.gang(job.uid).tries.misses == 1

    def _elsewhere(self, job: Job, shift: Shift) -> dict[Slot, str] | None:
        """Return any nodes that have the room, because reality differs from the plans; None where there are none."""
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

    # -- slots and room --------------------------------------------------------------------------

    def _slots(self, job: Job, shift: Shift) -> list[Slot]:
        """Return the slot's members, without those that are done: no pod would come for their room."""
        roles = sorted({role for role, _, _ in shift.layout}, key=lambda role: (role == WORKER, role))
        done = done_slots(self.snapshot, job)
        slots = (Slot(role, index) for role in roles for index in range(shift.count(role)))
        return [slot for slot in slots if slot not in done]

    def _assign(self, job: Job, shift: Shift, kept: Mapping[Slot, str]) -> dict[Slot, str]:
        """Return a node for each member that is not kept: those of the layout that no kept member has."""
        left = Counter({(role, node): count for role, node, count in shift.layout})
        left.subtract(Counter((slot.role, node) for slot, node in kept.items()))
        spare: dict[str, list[str]] = {}
        for (role, node), count in sorted(left.items()):
            spare.setdefault(role, []).extend([node] * count)
        return {slot: spare[slot.role].pop(0) for slot in self._slots(job, shift) if slot not in kept}

    def _take(self, job: Job, nodes: Mapping[Slot, str]) -> bool:
        """Charge these members' room, or nothing where some of it is not free now, or was not offered lately."""
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
    """Tell whether the requests fit into what is free; a node that does not state its bandwidth has enough of it."""
    if BANDWIDTH not in node.allocatable.amounts and requests[BANDWIDTH]:
        requests = Resources({name: amount for name, amount in requests.amounts.items() if name != BANDWIDTH})
    return requests.fits(free)


def _within(kept: Mapping[Slot, str], shift: Shift) -> bool:
    """Tell whether the layout has a place for every kept member where it is."""
    have = Counter((slot.role, node) for slot, node in kept.items())
    places = {(role, node): count for role, node, count in shift.layout}
    return all(count <= places.get(place, 0) for place, count in have.items())


def _lacks_ps(job: Job, shift: Shift) -> bool:
    """Tell whether the slot has another number of ps than the job asks for, to be had after a restart."""
    return job.ps_restarts and within(job, shift) and shift.count(PS) != job.servers


def _given_ps(job: Job, shift: Shift) -> int | None:
    """Return the ps of the slot, where they come and go with the workers; None: those that it asks for."""
    return shift.count(PS) if job.ps_elastic and job.worker is not None else None


def within(job: Job, shift: Shift) -> bool:
    """Tell whether the slot's workers are within the bounds that the job has now; a job without workers has none."""
    return job.worker is None or job.min_workers <= shift.workers <= job.max_workers

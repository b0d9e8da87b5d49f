"""The draft of the next snapshot, which a step edits. Each map is copied at its first change, once per step."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import fields
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, cast

from policy.cluster.charges import NO_CHARGE, key_of, planned_charge, pod_charge, promised_charge
from policy.cluster.draftvalues import Now
from policy.cluster.gang import Gang, no_gang
from policy.cluster.index import Index, News
from policy.cluster.job import Job, Slot
from policy.cluster.kinds import deadline
from policy.cluster.layered import copied
from policy.cluster.node import Node
from policy.cluster.pod import Phase, Pod
from policy.cluster.preemption import NOTHING_PROMISED, VACATED_SECONDS, Preemption, concerns, taken_on
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.snapshot import Charge, Snapshot


class Draft:
    """The next snapshot while a step edits it.

    base: the snapshot before the step. now: the current values of the fields.
    filled: names of nodes on which a fact of this step has left less room.
    _touched: uids of jobs whose gang must be looked at again. _stale: uids of jobs whose charge is out of date.
    _news: the changes that are not in the index yet.
    _renewed: names of changed nodes whose jobs have not been touched yet.
    """

    def __init__(self, base: Snapshot) -> None:
        self.base = base
        self._touched: set[str] = set()
        self.filled: set[str] = set()
        self._stale: set[str] = set()
        self._news = News()
        self._renewed: set[str] = set()
        # The values stay in the order of the fields, because ``view`` passes them on by position.
        fields_now = SimpleNamespace(**dict(zip(_NAMES, _VALUES(base), strict=True)))
        self.now = cast(Now, fields_now)
        self._now: dict[str, Any] = vars(fields_now)
        # _own has the names of the fields that this draft has copied or replaced.
        self._own: set[str] = set()
        self._view: Snapshot | None = base
        # _indexed is False if a map was replaced since the index was last compared with the maps.
        self._indexed = True

    def edit(self, name: str) -> MutableMapping[Any, Any]:
        """Return the map of that field as a copy that may be changed; the copy is made on first use.

        Use this only for fields that have no method of their own (``put_node``, ``put_gang`` and so on).
        """
        if name not in self._own:
            self.set(name, copied(self._now[name]))
        owned: MutableMapping[Any, Any] = self._now[name]
        return owned

    def set(self, name: str, value: object) -> None:
        """Replace the value of the field with that name."""
        self._now[name] = value
        self._own.add(name)
        self._view, self._indexed = None, False

    @property
    def index(self) -> Index:
        """The index of the draft's current fields; it is updated first if it lacks changes."""
        self._follow_nodes()
        index = self.now.index
        if self._news or not self._indexed:
            news, self._news = self._news, News()
            if news or not index.made_from(self.now):
                index = index.after(self.now, news)
                self.set("index", index)
            self._indexed = True
        return index

    def due(self, now: float) -> list[str]:
        """Return the sorted uids of the jobs whose barrier window or deadline is over at ``now``."""
        last = self.now.index
        late = self._news.jobs.union(uid for uid, at in last.deadlines.items() if at <= now)
        return sorted(uid for uid in late if (at := deadline(self.gang(uid))) is not None and at <= now)

    def freeing(self) -> frozenset[str]:
        """Return the uids of the jobs whose plans waited for pods to go when the index was last updated.

        This method does not update the index. So a job that has changed since then may be missing; ``touched`` has it.
        """
        return frozenset(self.now.index.freeing)

    def view(self) -> Snapshot:
        """Return the draft as a snapshot. It shares the draft's maps, so it is valid only until the next edit."""
        self._now["index"] = self.index
        if self._view is None:
            self._view = Snapshot(*self._now.values())
        return self._view

    def freeze(self) -> Snapshot:
        """Return the finished next snapshot, with all charges up to date and the next generation number."""
        self.settle()
        self.set("generation", self.base.generation + 1)
        return self.view()

    def touched(self) -> frozenset[str]:
        """Return the uids of the jobs whose gang must be looked at again in this step."""
        self._follow_nodes()
        return frozenset(self._touched)

    def gang(self, job_uid: str) -> Gang:
        """Return the job's gang; a waiting gang without a plan if the job has none."""
        return self.now.gangs.get(job_uid) or no_gang(job_uid)

    def touch(self, job_uid: str) -> None:
        """Mark the job: its gang is looked at again in this step, and its charge is computed again."""
        self._touched.add(job_uid)
        self._stale.add(job_uid)
        self._news.jobs.add(job_uid)

    def _follow_nodes(self) -> None:
        """Touch the jobs that have planned slots or pods on changed nodes.

        Waiting jobs are included, because after a restart a bound pod may be seen before its node.
        """
        if not self._renewed:
            return
        gangs, pods = self.now.gangs, self.now.pods.values()
        found = {uid for uid, gang in gangs.items() if not self._renewed.isdisjoint(gang.nodes.values())}
        found.update(pod.job_uid for pod in pods if pod.job_uid and pod.node in self._renewed)
        self._touched |= found
        self._news.jobs |= found
        self._renewed.clear()

    def touch_all(self) -> None:
        """Mark every job, so that its gang is looked at again in this step."""
        self._touched.update(self.now.jobs)

    def put_node(self, node: Node) -> None:
        """Add or replace a node."""
        old = self.now.nodes.get(node.name)
        self.edit("nodes")[node.name] = node
        self._news.nodes.add(node.name)
        if old is None or _openness(old) != _openness(node):
            self._renewed.add(node.name)

    def drop_node(self, name: str) -> None:
        """Remove a deleted node."""
        self.edit("nodes").pop(name, None)
        self._news.nodes.add(name)
        self._renewed.add(name)

    def put_job(self, job: Job) -> None:
        """Add or replace a job."""
        self.edit("jobs")[job.uid] = job
        self.touch(job.uid)

    def put_refusal(self, job_uid: str, node: str, until: float) -> None:
        """Note that the node is not to be used for the job before ``until`` (seconds since the epoch)."""
        self.edit("not_offered")[job_uid, node] = until
        self._news.jobs.add(job_uid)

    def drop_refusal(self, job_uid: str, node: str) -> None:
        """Remove the note that the node is not to be used for the job."""
        del self.edit("not_offered")[job_uid, node]
        self._news.jobs.add(job_uid)

    def drop_job(self, uid: str) -> None:
        """Remove a deleted job; its gang and its pods are not removed."""
        self.edit("jobs").pop(uid, None)
        self.touch(uid)

    def put_gang(self, gang: Gang) -> None:
        """Add or replace a job's gang."""
        old = self.gang(gang.job_uid)
        self.edit("gangs")[gang.job_uid] = gang
        self._touched.add(gang.job_uid)
        self._news.jobs.add(gang.job_uid)
        # The charge depends on the gang's nodes and bindings in flight, and is computed again only if these change.
        if old.nodes is not gang.nodes or old.in_flight is not gang.in_flight:
            self._stale.add(gang.job_uid)

    def drop_gang(self, job_uid: str) -> None:
        """Remove a job's gang."""
        if job_uid in self.now.gangs:
            del self.edit("gangs")[job_uid]
        self.touch(job_uid)

    def put_pod(self, pod: Pod, now: float = 0.0) -> None:
        """Add or replace a pod, and update its charge.

        If the pod is a victim of preemption that has just gone, its room is kept for some seconds from ``now`` on.
        """
        old = self.now.pods.get(pod.uid)
        if old is not None and (old.job_uid, old.slot) != (pod.job_uid, pod.slot):
            self._file(old, gone=True)
        self.edit("pods")[pod.uid] = pod
        self._file(pod)
        self._recharge(pod.uid, pod_charge(pod))
        self._recount_foreign(old, pod)
        self._recount_promised(old, pod, now)
        self._put_or_drop("repelling", pod.uid, () if pod.ended else pod.repels)
        if pod.holds_room and not (old is not None and old.holds_room):
            self.filled.add(pod.node)

    def drop_pod(self, uid: str, now: float = 0.0) -> None:
        """Remove a pod and its charge. ``now`` has the same meaning as in ``put_pod``."""
        old = self.now.pods.get(uid)
        if old is not None:
            self._file(old, gone=True)
            del self.edit("pods")[uid]
            self._recharge(uid, NO_CHARGE)
            self._recount_foreign(old, None)
            self._recount_promised(old, None, now)
            self._put_or_drop("repelling", uid, ())

    def settle(self) -> None:
        """Compute the charges of changed gangs again: the planned room that no bound pod holds yet."""
        for uid in sorted(self._stale):
            self._recharge(uid, planned_charge(self.now, uid))
        self._stale.clear()

    # -- A job's pods: the newest pod of a slot is its member; replaced pods are called strays. ---

    def _file(self, pod: Pod, *, gone: bool = False) -> None:
        """Update which pods of the job are members and which are replaced pods, after ``pod`` has changed or is
        gone.
        """
        if not pod.job_uid:
            self._news.pods.add(pod.uid)
            return
        self.touch(pod.job_uid)
        strays = self.now.strays.get(pod.job_uid, frozenset())
        holder = self.now.members.get(pod.job_uid, {}).get(pod.slot) if pod.slot is not None else None
        if gone or holder != pod.uid or strays:
            uids = strays | ({holder} if holder else set())
            self._share_out(pod.job_uid, pod.slot, uids - {pod.uid} if gone else uids | {pod.uid})

    def _share_out(self, job_uid: str, slot: Slot | None, uids: frozenset[str]) -> None:
        """Make one pod among ``uids`` the member in the slot: the newest living one, if there is one.

        All other pods among ``uids`` become strays: pods of the job that hold no slot.
        """
        pods = self.now.pods
        rivals = [pods[uid] for uid in uids if slot is not None and pods[uid].slot == slot]
        best = max(rivals, key=_claim, default=None)
        slots = dict(self.now.members.get(job_uid, {}))
        if slot is not None:
            slots.pop(slot, None)
            if best is not None:
                slots[slot] = best.uid
        self._put_or_drop("members", job_uid, slots)
        self._put_or_drop("strays", job_uid, uids - {best.uid} if best is not None else uids)

    def _put_or_drop(self, name: str, key: str, value: Any) -> None:
        if value:
            self.edit(name)[key] = value
        elif key in self._now[name]:
            del self.edit(name)[key]

    # -- The methods below keep the charges (the room of each pod and plan) and their sums by node. --

    def _recharge(self, key: str, charge: Charge) -> None:
        old = self.now.charges.get(key, NO_CHARGE)
        if old == charge:
            return
        for part, (node, resources) in old.items():
            if charge.get(part) != (node, resources):
                self._shift("charged", node, resources, -1)
        for part, (node, resources) in charge.items():
            if old.get(part) != (node, resources):
                self._shift("charged", node, resources)
        self._put_or_drop("charges", key, charge)

    def _recount_foreign(self, old: Pod | None, new: Pod | None) -> None:
        for pod, sign in ((old, -1), (new, 1)):
            if pod is not None and pod.holds_room and not pod.opted_in:
                self._shift("foreign", pod.node, pod.requests, sign)

    def _recount_promised(self, old: Pod | None, new: Pod | None, now: float) -> None:
        for node in sorted(concerns(old, new)):
            known = self.now.preemptions.get(node, NOTHING_PROMISED)
            self.put_promised(node, known.seen(node, old, new, now + VACATED_SECONDS))

    def put_promised(self, node: str, promised: Preemption) -> None:
        """Replace the record of the room that other schedulers keep on the node, and update the node's charge."""
        before = taken_on(self.now.preemptions, node)
        self._put_or_drop("preemptions", node, promised)
        after = taken_on(self.now.preemptions, node)
        self._recharge(key_of(node), promised_charge(self.now.preemptions, node))
        self._shift("foreign", node, after - before)
        if not after.within(before):
            self.filled.add(node)

    def _shift(self, name: str, node: str, change: Resources, sign: int = 1) -> None:
        taken: Resources = self._now[name].get(node, NOTHING)
        self._put_or_drop(name, node, taken + change if sign > 0 else taken - change)
        (self._news.charged if name == "charged" else self._news.foreign).add(node)


def _openness(node: Node) -> tuple[bool, bool, bool]:
    """Return what decides whether the node takes pods; a change of it touches the jobs on the node."""
    return node.ready, node.unschedulable, node.barred


_NAMES = tuple(field.name for field in fields(Snapshot))
_VALUES = attrgetter(*_NAMES)


def _claim(pod: Pod) -> tuple[bool, bool, float, str]:
    """Return the key by which pods of the same slot are ranked; the pod with the greatest key is the member.

    Living pods rank above failed ones, and failed ones above terminating ones, whatever their age. Age alone would not
    do: a Deployment's failed pods stay, and may be as young as the pods that replace them.
    """
    return (pod.phase is not Phase.FAILED and not pod.terminating, not pod.terminating, pod.since, pod.uid)

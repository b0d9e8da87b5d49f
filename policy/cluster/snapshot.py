"""The whole state, immutable, and the draft in which a batch of changes makes the next one.

Every field says in its metadata how it comes back after a restart: ``derived`` from API objects, ``persisted`` on
one, or ``volatile``, and then why losing it is harmless. A test holds a live and a rebuilt snapshot equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.model import Job, Node, Pod, Slot
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import NOTHING, Resources

# A gang that is being released keeps the room of bindings whose outcome is not known.
CHARGED = ADMITTED | {State.RELEASING}
Charge = tuple[tuple[str, Resources], ...]


def _kept(how: str) -> dict[str, Any]:
    return {"kept": how}


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that the transitions obey. Seconds, members, as the names say."""

    window_seconds: float = 8.0
    binding_seconds: float = 4.0
    plan_seconds: float = 30.0
    repair_seconds: float = 30.0
    backoff_initial_seconds: float = 5.0
    backoff_max_seconds: float = 120.0
    refusal_memory_seconds: float = 60.0
    largest_gang: int = 400
    gangs_at_once: int = 16
    ranked: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a decision may look at."""

    rules: Rules = field(default_factory=Rules, metadata=_kept("derived: the configuration file"))
    generation: int = field(default=0, metadata=_kept("volatile: counts steps of this process"))
    synced: bool = field(default=False, metadata=_kept("volatile: true again once every list is in"))
    leading: bool = field(default=True, metadata=_kept("derived: kube-scheduler's Lease"))
    nodes: Mapping[str, Node] = field(default_factory=dict, metadata=_kept("derived: nodes"))
    jobs: Mapping[str, Job] = field(default_factory=dict, metadata=_kept("derived: job objects, by uid"))
    pods: Mapping[str, Pod] = field(default_factory=dict, metadata=_kept("derived: pods, by uid"))
    members: Mapping[str, Mapping[Slot, str]] = field(
        default_factory=dict, metadata=_kept("derived: pods of each job by slot (job uid -> slot -> pod uid)")
    )
    gangs: Mapping[str, Gang] = field(
        default_factory=dict,
        metadata=_kept("volatile: RUNNING and COMPLETED follow from pods; plans in flight are made anew"),
    )
    charges: Mapping[str, Charge] = field(
        default_factory=dict, metadata=_kept("derived: pods and plans (pod or job uid -> node, resources)")
    )
    charged: Mapping[str, Resources] = field(
        default_factory=dict, metadata=_kept("derived: sum of the charges by node")
    )
    not_offered: Mapping[tuple[str, str], float] = field(
        default_factory=dict, metadata=_kept("volatile: learned again at the next filter call (job uid, node -> until)")
    )
    verdicts: Mapping[str, Verdict] = field(default_factory=dict, metadata=_kept("volatile: the last decision's"))
    memory: Mapping[str, object] = field(default_factory=dict, metadata=_kept("persisted: annotation of the job"))

    def free(self, node: str) -> Resources:
        """What no pod and no plan has taken on the node; negative where room is promised before it is freed."""
        known = self.nodes.get(node)
        return known.allocatable - self.charged.get(node, NOTHING) if known else NOTHING

    def gang(self, job_uid: str) -> Gang:
        """The ledger's entry of the job; a waiting one where there is none."""
        return self.gangs.get(job_uid) or Gang(job_uid)

    def member(self, job_uid: str, slot: Slot) -> Pod | None:
        """The pod in that slot of the job."""
        uid = self.members.get(job_uid, {}).get(slot)
        return self.pods.get(uid) if uid else None

    def pods_of(self, job_uid: str) -> Iterator[Pod]:
        """The job's pods in slot order."""
        for _, uid in sorted(self.members.get(job_uid, {}).items()):
            yield self.pods[uid]

    def waiting(self) -> Iterator[Job]:
        """Jobs that are in the queue: valid, not finished, not suspended, without a plan."""
        for uid in sorted(self.jobs):
            job = self.jobs[uid]
            if queued(job) and self.gang(uid).state in (State.WAITING, State.RELEASING):
                yield job

    def running(self) -> Iterator[Job]:
        """Jobs that have been given room."""
        for uid in sorted(self.gangs):
            if self.gangs[uid].state in ADMITTED and uid in self.jobs:
                yield self.jobs[uid]

    def missing(self, job: Job, slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        """Those of the slots that have no living pod."""
        found = self.members.get(job.uid, {})
        return tuple(slot for slot in slots if slot not in found or self.pods[found[slot]].terminating)


def queued(job: Job) -> bool:
    """Whether the job is one that waits or runs at all."""
    return not (job.invalid or job.finished or job.suspended or job.deleting)


class Draft:
    """A snapshot being edited by one batch. Each map is copied at its first change, once per batch.

    ``touched`` collects the jobs whose gang must be looked at again, ``_stale`` those whose charge is out of date.
    """

    def __init__(self, base: Snapshot) -> None:
        self.base = base
        self.touched: set[str] = set()
        self._stale: set[str] = set()
        self._own: dict[str, Any] = {}

    def read(self, name: str) -> Any:
        """The map or value of that name as it stands in the draft."""
        return self._own.get(name, getattr(self.base, name))

    def edit(self, name: str) -> dict[Any, Any]:
        """The map of that name, copied on first use."""
        if name not in self._own:
            self._own[name] = dict(getattr(self.base, name))
        owned: dict[Any, Any] = self._own[name]
        return owned

    def set(self, name: str, value: object) -> None:
        """Replace a plain field."""
        self._own[name] = value

    def view(self) -> Snapshot:
        """The draft as a snapshot; it shares the draft's maps, so use it before the next edit."""
        return replace(self.base, **self._own)

    def freeze(self) -> Snapshot:
        """The next snapshot."""
        self.settle()
        return replace(self.base, generation=self.base.generation + 1, **self._own)

    # -- what the transitions use ------------------------------------------------------------

    def gang(self, job_uid: str) -> Gang:
        return self.read("gangs").get(job_uid) or Gang(job_uid)

    def put_job(self, job: Job) -> None:
        self.edit("jobs")[job.uid] = job
        self._touch(job.uid)

    def put_gang(self, gang: Gang) -> None:
        old = self.gang(gang.job_uid)
        self.edit("gangs")[gang.job_uid] = gang
        self.touched.add(gang.job_uid)
        if old.nodes is not gang.nodes or old.state is not gang.state:
            self._stale.add(gang.job_uid)

    def drop_gang(self, job_uid: str) -> None:
        if job_uid in self.read("gangs"):
            del self.edit("gangs")[job_uid]
        self._touch(job_uid)

    def _touch(self, job_uid: str) -> None:
        self.touched.add(job_uid)
        self._stale.add(job_uid)

    def put_pod(self, pod: Pod) -> None:
        self._forget_member(pod.uid)
        self.edit("pods")[pod.uid] = pod
        if pod.job_uid and pod.slot is not None:
            self._put_member(pod)
        self._recharge(pod.uid, ((pod.node, pod.requests),) if pod.holds_room else ())

    def drop_pod(self, uid: str) -> None:
        self._forget_member(uid)
        self.edit("pods").pop(uid, None)
        self._recharge(uid, ())

    def settle(self) -> None:
        """Charge what the plans of changed gangs promise and no bound pod holds yet."""
        snapshot = self.view()
        for uid in sorted(self._stale):
            self._recharge(uid, planned_charge(snapshot, uid))
        self._stale.clear()

    def _put_member(self, pod: Pod) -> None:
        slots = dict(self.read("members").get(pod.job_uid, {}))
        there = self.read("pods").get(slots.get(pod.slot, ""))
        # A terminating pod and its successor may both exist for a moment: the slot is the successor's.
        if there is None or there.uid == pod.uid or not (there.since > pod.since or pod.terminating):
            slots[pod.slot] = pod.uid
        self.edit("members")[pod.job_uid] = slots
        self._touch(pod.job_uid)

    def _forget_member(self, uid: str) -> None:
        old: Pod | None = self.read("pods").get(uid)
        if old is None or not old.job_uid or old.slot is None:
            return
        slots = dict(self.read("members").get(old.job_uid, {}))
        if slots.get(old.slot) == uid:
            del slots[old.slot]
        members = self.edit("members")
        if slots:
            members[old.job_uid] = slots
        else:
            members.pop(old.job_uid, None)
        self._touch(old.job_uid)

    def _recharge(self, key: str, charge: Charge) -> None:
        old: Charge = self.read("charges").get(key, ())
        if old == charge:
            return
        charged, charges = self.edit("charged"), self.edit("charges")
        for node, resources in old:
            charged[node] = charged.get(node, NOTHING) - resources
        for node, resources in charge:
            charged[node] = charged.get(node, NOTHING) + resources
        for node, _ in old:
            if node in charged and not charged[node]:
                del charged[node]
        if charge:
            charges[key] = charge
        else:
            charges.pop(key, None)


def planned_charge(snapshot: Snapshot, job_uid: str) -> Charge:
    """What a gang's plan takes beyond its bound pods: one entry per slot that is planned and not held by a pod."""
    job, gang = snapshot.jobs.get(job_uid), snapshot.gangs.get(job_uid)
    if job is None or gang is None or gang.state not in CHARGED:
        return ()
    found = ((slot, node, snapshot.member(job_uid, slot)) for slot, node in sorted(gang.nodes.items()))
    return tuple((node, demand(job, slot, pod)) for slot, node, pod in found if not _settled(pod, node))


def _settled(pod: Pod | None, node: str) -> bool:
    return pod is not None and (pod.ended or (pod.holds_room and pod.node == node))


def demand(job: Job, slot: Slot, pod: Pod | None) -> Resources:
    """What the slot asks for: the real pod's requests (LimitRange, sidecars, overhead) or else the template's."""
    if pod is not None:
        return pod.requests
    role = job.role(slot.role)
    return role.requests if role else NOTHING


def reason_of(snapshot: Snapshot, job: Job) -> Verdict:
    """Why the job has no room now, before any policy is asked; the last decision's verdict where nothing bars it."""
    gang = snapshot.gang(job.uid)
    if job.invalid:
        return Verdict(Reason.INVALID, job.invalid)
    if job.finished:
        return Verdict(Reason.FINISHED)
    if job.suspended:
        return Verdict(Reason.SUSPENDED)
    if gang.state is State.RELEASING:
        return Verdict(Reason.RELEASING)
    return snapshot.verdicts.get(job.uid, Verdict(Reason.NO_ROOM))

"""The snapshot: the whole state, as an immutable value.

The metadata of each field say how it comes back after a restart. It is ``derived`` from API objects, or ``persisted``
in an annotation of one, or ``volatile``; then the text says why losing it is harmless. A test checks that a live
snapshot and one that was rebuilt from API objects are equal.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from policy.cluster.failures import Failures, Suspicions
from policy.cluster.frozen import quick
from policy.cluster.gang import Gang, State, no_gang
from policy.cluster.index import Facts, Index
from policy.cluster.job import PS, WORKER, Job, Slot
from policy.cluster.kept import until_job_changes
from policy.cluster.node import Node
from policy.cluster.pod import Phase, Pod
from policy.cluster.preemption import Preemptions
from policy.cluster.quota import Quota
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.refusedwrite import RefusedWrite
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.training import Report
from policy.cluster.trouble import trouble_of
from policy.cluster.words import ending_in_words, listed

MINUTE = 60.0
MOST_NAMED = 3
# A charge maps each part of what a pod or a plan takes to a node and the resources taken there. A part is named by a
# pod's uid (bound, or with a binding in flight), a planned slot, or a node (for room that is promised there).
Charge = Mapping[object, tuple[str, Resources]]


def _kept(how: str) -> dict[str, Any]:
    return {"kept": how}


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that the transitions obey; times are in seconds.

    gangs: whether the policy binds members together; if so, a job that is partly bound after a restart is repaired.
    stores: whether the policy's memory of a job must be on the job object before the job first gets room.
    resizes_per_minute: how many jobs an elastic policy may shrink or grow within a minute; 0 sets no limit.
    ranked: whether kube-scheduler may place a pod on another node than the planned one (setting ``answer: ranked``).
    commit_first: whether an eligible gang is bound at its first bind call (setting ``barrier.commit: first``).
    plugins: the plugins that kube-scheduler's profile has beyond its defaults (setting ``scheduler.plugins``).
    half_life_seconds, watch_seconds: the settings ``nodes``; a half-life of 0: failures on nodes do not count.
    """

    window_seconds: float = 8.0
    hold_seconds: float = 20.0
    binding_seconds: float = 4.0
    plan_seconds: float = 20.0
    freeing_seconds: float = 120.0
    checkpoint_seconds: float = 0.0
    growing_seconds: float = 60.0
    repair_seconds: float = 20.0
    backoff_initial_seconds: float = 5.0
    backoff_max_seconds: float = 120.0
    refusal_memory_seconds: float = 60.0
    largest_gang: int = 400
    gangs_at_once: int = 1024
    ranked: bool = False
    commit_first: bool = False
    plugins: tuple[str, ...] = ()
    gangs: bool = True
    stores: bool = False
    resizes_per_minute: int = 0
    half_life_seconds: float = 0.0
    watch_seconds: float = 15.0


@quick
@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state: facts about the cluster, plans, and the policy's memory. A decision depends on nothing else."""

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
    strays: Mapping[str, frozenset[str]] = field(
        default_factory=dict, metadata=_kept("derived: pods of each job that hold no slot: a newer pod has theirs")
    )
    gone: Mapping[str, float] = field(
        default_factory=dict,
        metadata=_kept("volatile: uids of deleted pods, against late filter calls; none are late after a restart"),
    )
    gangs: Mapping[str, Gang] = field(
        default_factory=dict,
        metadata=_kept("volatile: RUNNING and COMPLETED follow from pods; plans in flight are made anew"),
    )
    charges: Mapping[str, Charge] = field(
        default_factory=dict,
        metadata=_kept("derived: pods and plans (pod or job uid, or node/NAME -> part -> node, resources)"),
    )
    charged: Mapping[str, Resources] = field(
        default_factory=dict, metadata=_kept("derived: sum of the charges by node")
    )
    foreign: Mapping[str, Resources] = field(
        default_factory=dict,
        metadata=_kept("derived: the part of ``charged`` that pods took which did not opt in, or are promised"),
    )
    preemptions: Preemptions = field(
        default_factory=dict,
        metadata=_kept(
            "derived: nominations and victims of other schedulers' preemptions, by node; volatile: the room of victims "
            "that are gone, which is kept for seconds until the nomination is seen"
        ),
    )
    not_offered: Mapping[tuple[str, str], float] = field(
        default_factory=dict, metadata=_kept("volatile: learned again at the next filter call (job uid, node -> until)")
    )
    quotas: Mapping[str, Quota] = field(
        default_factory=dict, metadata=_kept("derived: ResourceQuotas (namespace/name -> quota)")
    )
    short: Mapping[str, float] = field(
        default_factory=dict,
        metadata=_kept(
            "volatile: since when quotas leave no room for pods that a job waits for; after a restart that time begins "
            "anew (job uid -> seconds since the epoch)"
        ),
    )
    reports: Mapping[str, tuple[Report, ...]] = field(
        default_factory=dict, metadata=_kept("persisted: annotation of the job (job uid -> first, then the last few)")
    )
    usage: Mapping[str, Resources] = field(
        default_factory=dict, metadata=_kept("volatile: measured again within a minute; requests stand in until then")
    )
    verdicts: Mapping[str, Verdict] = field(default_factory=dict, metadata=_kept("volatile: the last decision's"))
    resizes: tuple[float, ...] = field(
        default=(),
        metadata=_kept("volatile: when jobs were resized, of the last minute; a new leader begins with none"),
    )
    memory: Mapping[str, object] = field(
        default_factory=dict,
        metadata=_kept("persisted: what is of one job, by an annotation of it; volatile: turns and statistics of all"),
    )
    refused_writes: Mapping[str, tuple[RefusedWrite, ...]] = field(
        default_factory=dict,
        metadata=_kept("volatile: the controller tells it again (job uid, or empty of the gate -> refused writes)"),
    )
    texts: Mapping[str, str] = field(
        default_factory=dict, metadata=_kept("derived: ``memory`` as the job objects should hold it (job uid -> text)")
    )
    repelling: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict, metadata=_kept("derived: pods with a required anti-affinity (uid -> ``Pod.repels``)")
    )
    failures: Mapping[str, Failures] = field(
        default_factory=dict,
        metadata=_kept("persisted: annotation of the node (node -> failures of members there, one for each job)"),
    )
    suspected: Suspicions = field(
        default_factory=dict,
        metadata=_kept("volatile: failures of the last seconds, which may not count (job uid, node -> until when)"),
    )
    index: Index = field(default_factory=Index, metadata=_kept("derived: jobs by what is to be done about them"))

    def __post_init__(self) -> None:
        """Build the index, unless the snapshot was given one that was made from the same maps."""
        if not self.index.made_from(self):
            object.__setattr__(self, "index", Index.of(self))

    def free(self, node: str) -> Resources:
        """Return the node's allocatable resources less all charges.

        Amounts are negative if a plan takes over room that other pods still hold. An unknown node has nothing.
        """
        known = self.nodes.get(node)
        return known.allocatable - self.charged.get(node, NOTHING) if known else NOTHING

    def gang(self, job_uid: str) -> Gang:
        """Return the job's gang; a waiting gang without a plan if the ledger has no entry for the job."""
        return self.gangs.get(job_uid) or no_gang(job_uid)

    def member(self, job_uid: str, slot: Slot) -> Pod | None:
        """Return the pod in that slot of the job; None if there is none."""
        uid = self.members.get(job_uid, {}).get(slot)
        return self.pods.get(uid) if uid else None

    def pods_of(self, job_uid: str) -> Iterator[Pod]:
        """Yield the members of the job, in the order of their slots."""
        for _, uid in sorted(self.members.get(job_uid, {}).items()):
            yield self.pods[uid]

    def every_pod_of(self, job_uid: str) -> Iterator[Pod]:
        """Yield the members of the job in the order of their slots, then its replaced pods."""
        yield from self.pods_of(job_uid)
        yield from (self.pods[uid] for uid in sorted(self.strays.get(job_uid, ())))

    def waiting(self) -> Iterator[Job]:
        """Return the jobs in the queue, paused ones included: valid, not finished, not suspended by a user, no plan."""
        return (self.jobs[uid] for uid in self.index.waiting)

    def running(self) -> Iterator[Job]:
        """Return the admitted jobs: those that have a plan or run."""
        return (self.jobs[uid] for uid in self.index.admitted)


def demand(job: Job, slot: Slot, pod: Pod | None) -> Resources:
    """Return the resource requests of a slot: its pod's, or the template's if there is no pod yet (``pod`` is None).

    A pod's requests may be larger than the template's because of a LimitRange, sidecars or the pod overhead.
    """
    if pod is not None:
        return pod.requests
    role = job.role(slot.role)
    return role.requests if role else NOTHING


def priority_of(facts: Facts, job_uid: str) -> int:
    """Return the lowest priority among the job's pods; 0 if the job has none yet.

    This priority counts for the whole gang, because all members outrank whatever their lowest one outranks.
    """
    pods = facts.pods
    return min((pods[uid].priority for uid in facts.members.get(job_uid, {}).values()), default=0)


def utility_of(snapshot: Snapshot, job: Job) -> float:
    """Return the job's utility: what it states, else its pods' highest priority if that is above 0, else 1."""
    if job.utility_stated:
        return job.utility
    highest = max((snapshot.pods[uid].priority for uid in snapshot.members.get(job.uid, {}).values()), default=0)
    return float(highest) if highest > 0 else job.utility


def missing_pods(snapshot: Snapshot, job: Job) -> str:
    """Return in words which pods of the gang's minimum do not exist yet, by role: ``ps 0 of 1, worker 1 of 2``.

    Pods that are terminating are named, because their successors cannot come before they are gone. The result is empty
    if all pods exist.
    """
    found = members_there(snapshot, job).items()
    lacking = ", ".join(f"{name} {there} of {least}" for name, (there, least) in found if there < least)
    return "; ".join(part for part in (lacking, ending(snapshot, job)) if part) if lacking else ""


def members_there(snapshot: Snapshot, job: Job) -> dict[str, tuple[int, int]]:
    """Return, by role, how many pods of the job exist or have done their work, and how many its minimum needs."""
    pods, members = snapshot.pods, snapshot.members.get(job.uid, {})
    there = {slot for slot, uid in members.items() if _living(pods[uid])}
    there |= {slot for slot in job.over if is_over(job, slot, snapshot.member(job.uid, slot))}
    wanted = {role.name: role.replicas for role in job.rigid} | ({WORKER: job.min_workers} if job.worker else {})
    servers = snapshot.gang(job.uid).ps
    wanted |= {PS: servers} if servers is not None else {}
    living = Counter(slot.role for slot in there)
    return {name: (living[name], least) for name, least in wanted.items()}


def ending(snapshot: Snapshot, job: Job) -> str:
    """Return in words which pods of the job are terminating, and which finalizers keep them; empty if none is."""
    pods = [pod for pod in snapshot.every_pod_of(job.uid) if pod.terminating]
    return listed([ending_in_words(pod) for pod in pods], MOST_NAMED)


def is_over(job: Job, slot: Slot, pod: Pod | None) -> bool:
    """Tell whether the slot is done: no pod will come for the slot again, and its last pod has ended.

    ``pod`` is that last pod; None if there is no pod in the slot.
    """
    return slot in job.over and (pod is None or pod.ended)


def _living(pod: Pod) -> bool:
    return not pod.terminating and pod.phase is not Phase.FAILED


def reason_of(snapshot: Snapshot, job: Job) -> Verdict:
    """Return why the job has no room now: a reason that holds under every policy, else the policy's last verdict."""
    gang = snapshot.gang(job.uid)
    if job.finished:
        return Verdict(Reason.FINISHED)
    if job.deleting:
        return Verdict(Reason.DELETING)
    if job.invalid:
        return Verdict(Reason.INVALID, job.invalid)
    if job.suspended:
        return Verdict(Reason.SUSPENDED)
    if job.released or gang.state is State.RELEASING:
        return Verdict(Reason.RELEASING, ending(snapshot, job))
    if not snapshot.leading:
        return Verdict(Reason.NOT_LEADING)
    verdict = snapshot.verdicts.get(job.uid) or _undecided(snapshot, job)
    return _with_trouble(snapshot, job, verdict) if verdict.reason in TROUBLED else verdict


TROUBLED = (Reason.BACKING_OFF, Reason.NODE_NOT_OFFERED)


def _with_trouble(snapshot: Snapshot, job: Job, verdict: Verdict) -> Verdict:
    """Return the verdict with kube-scheduler's message about a member added, which explains why the plan failed."""
    parts = (part for part in (verdict.detail, _trouble_of(snapshot, job.uid)) if part)
    return Verdict(verdict.reason, "; ".join(parts), verdict.behind)


@until_job_changes
def _trouble_of(snapshot: Snapshot, job_uid: str) -> str:
    return trouble_of(snapshot, job_uid)


def _undecided(snapshot: Snapshot, job: Job) -> Verdict:
    """Return the verdict for a job about which the policy has not decided yet."""
    missing = missing_pods(snapshot, job)
    return Verdict(Reason.WAITING_FOR_PODS, missing) if missing else Verdict(Reason.NO_ROOM)


def resizes_left(snapshot: Snapshot, now: float) -> float:
    """Return how many more jobs may be resized now; infinity if ``Rules.resizes_per_minute`` sets no limit."""
    limit = snapshot.rules.resizes_per_minute
    return limit - len(recent_resizes(snapshot.resizes, now)) if limit else math.inf


def recent_resizes(resizes: tuple[float, ...], now: float) -> tuple[float, ...]:
    """Return those of the times of resizes (seconds since the epoch) that lie within the minute before ``now``."""
    return tuple(at for at in resizes if now - at < MINUTE)

"""Why a job stands where it stands, for people: its needs, what each node lacks, who is ahead, and what mends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.model import Job
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import Resources
from policy.cluster.snapshot import Snapshot, missing_pods, reason_of
from policy.placement.gang import ask_of, barred, takes_all
from policy.systems.base import Policy

MENDS: dict[Reason, str] = {
    Reason.INVALID: "correct the field that is named; the job is taken up again at once",
    Reason.UNSUPPORTED: "remove the constraint from the pod template, or use another schedulerName for this job",
    Reason.SUSPENDED: "set spec.runPolicy.suspend to false",
    Reason.WAITING_FOR_PODS: "see the events of the job: a ResourceQuota or the operator may hold back its pods",
    Reason.NO_ROOM: "lower kohort.dev/min-workers or the requests, or wait for a job to end",
    Reason.ROOM_HELD: "set cleanPodPolicy: Running on the finished jobs, or delete them",
    Reason.BEHIND: "raise kohort.dev/utility, or wait: it comes first once it has waited for the starvation limit",
    Reason.TOO_LARGE: "lower kohort.dev/min-workers or the requests, or add nodes",
    Reason.WINDOW_TOO_SHORT: "raise barrier.window_seconds and httpTimeout together, see kohort check-config",
    Reason.NODE_NOT_OFFERED: "see the PodScheduled condition: a plugin of kube-scheduler refuses the planned nodes",
    Reason.NOT_SYNCED: "wait; see /readyz for the watch that has not delivered its list",
    Reason.NOT_LEADING: "ask the replica that leads",
}


@runtime_checkable
class Weighs(Protocol):
    """A policy that orders its queue by weight."""

    def raw_weight(self, job: Job, snapshot: Snapshot) -> float:
        """The weight that is compared."""
        ...

    def starving(self, job: Job, now: float) -> bool:
        """Whether the job goes before every weight."""
        ...


@dataclass(frozen=True, slots=True)
class RoleNeed:
    """What one role asks for: so many members, each with these requests."""

    role: str
    members: int
    requests: Resources


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """One node as the job sees it. ``missing``: what it lacks for the whole gang; ``refused``: why it is no choice."""

    node: str
    free: Resources
    missing: Resources
    refused: str = ""


@dataclass(frozen=True, slots=True)
class HeldRoom:
    """Room that the pods of a finished job still hold (cleanPodPolicy None)."""

    job: str
    pod: str
    node: str
    requests: Resources


@dataclass(frozen=True, slots=True)
class Explanation:
    """A job's story now. ``reason`` is None where nothing is amiss; names are ``namespace/name``."""

    job: str
    state: State
    reason: Reason | None
    detail: str
    mend: str
    needs: tuple[RoleNeed, ...]
    nodes: tuple[NodeRoom, ...]
    ahead: tuple[str, ...]
    plan: tuple[tuple[str, str], ...]
    shrunk_for: str
    missing_pods: str
    waits_for: tuple[str, ...]
    held: tuple[HeldRoom, ...]

    @property
    def text(self) -> str:
        """The constant sentence of the reason."""
        return self.reason.text if self.reason else ""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One waiting job in the order in which the policy looks at it; ``position`` counts from 1."""

    position: int
    job: str
    weight: float | None
    starving: bool
    waited_seconds: float
    needs: Resources
    reason: Reason
    detail: str


def explain(snapshot: Snapshot, job_uid: str, policy: Policy, now: float) -> Explanation | None:
    """Why the job stands where it stands; None if there is no such job."""
    job = snapshot.jobs.get(job_uid)
    if job is None:
        return None
    gang, verdict = snapshot.gang(job_uid), verdict_of(snapshot, job)
    waits = gang.state not in (*ADMITTED, State.COMPLETED)
    return Explanation(
        job=job.key,
        state=gang.state,
        reason=verdict.reason if verdict else None,
        detail=verdict.detail if verdict else "",
        mend=MENDS.get(verdict.reason, "") if verdict else "",
        needs=_needs(job),
        nodes=_nodes(snapshot, job) if waits else (),
        ahead=_ahead(snapshot, job, policy, now) if waits else (),
        plan=tuple((str(slot), node) for slot, node in sorted(gang.nodes.items())),
        shrunk_for=_name(snapshot, gang.on_behalf_of),
        missing_pods=missing_pods(snapshot, job),
        waits_for=_pods(snapshot, gang),
        held=held_room(snapshot) if waits else (),
    )


def verdict_of(snapshot: Snapshot, job: Job) -> Verdict | None:
    """Why the job is not simply running; None if it is, or if all it needs is on its way."""
    gang = snapshot.gang(job.uid)
    if not snapshot.synced:
        return Verdict(Reason.NOT_SYNCED)
    if gang.state not in ADMITTED:
        return reason_of(snapshot, job)
    if gang.waits_for:
        return Verdict(Reason.ROOM_BEING_FREED, f"{len(gang.waits_for)} pods are to go")
    if missing := missing_pods(snapshot, job):
        return Verdict(Reason.WAITING_FOR_PODS, missing)
    return None


def queue_rows(snapshot: Snapshot, policy: Policy, now: float) -> tuple[QueueRow, ...]:
    """The waiting jobs, in the policy's own order."""
    rows = []
    for position, job in enumerate(_in_order(snapshot, policy, now), start=1):
        verdict = reason_of(snapshot, job)
        rows.append(
            QueueRow(
                position=position,
                job=job.key,
                weight=policy.raw_weight(job, snapshot) if isinstance(policy, Weighs) else None,
                starving=isinstance(policy, Weighs) and policy.starving(job, now),
                waited_seconds=max(0.0, now - job.arrival),
                needs=job.requests(job.min_workers),
                reason=verdict.reason,
                detail=verdict.detail,
            )
        )
    return tuple(rows)


def held_room(snapshot: Snapshot) -> tuple[HeldRoom, ...]:
    """Pods of finished jobs that still hold room, and will until the job is deleted."""
    return tuple(
        HeldRoom(job.key, pod.name, pod.node, pod.requests)
        for uid, job in sorted(snapshot.jobs.items())
        if job.finished and job.keeps_pods
        for pod in snapshot.every_pod_of(uid)
        if pod.holds_room
    )


def _in_order(snapshot: Snapshot, policy: Policy, now: float) -> list[Job]:
    if not isinstance(policy, Weighs):
        return sorted(snapshot.waiting(), key=lambda job: (job.arrival, job.key))
    return sorted(
        snapshot.waiting(),
        key=lambda job: (not policy.starving(job, now),
                         0.0 if policy.starving(job, now) else -policy.raw_weight(job, snapshot), job.arrival, job.key),
    )  # fmt: skip


def _ahead(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> tuple[str, ...]:
    """Those that the policy looks at first, and the one that its verdict names."""
    behind = _name(snapshot, reason_of(snapshot, job).behind)
    order = [other.key for other in _in_order(snapshot, policy, now)]
    before = order[: order.index(job.key)] if job.key in order else []
    return tuple(dict.fromkeys([*([behind] if behind else []), *before]))


def _needs(job: Job) -> tuple[RoleNeed, ...]:
    rigid = [RoleNeed(role.name, role.replicas, role.requests) for role in job.rigid]
    worker = [RoleNeed(job.worker.name, job.min_workers, job.worker.requests)] if job.worker else []
    return (*rigid, *worker)


def _nodes(snapshot: Snapshot, job: Job) -> tuple[NodeRoom, ...]:
    ask = ask_of(snapshot, job, job.min_workers)
    rows = []
    for name, node in sorted(snapshot.nodes.items()):
        refused = ""
        if not node.ready:
            refused = "not ready"
        elif node.unschedulable:
            refused = "cordoned"
        elif name in barred(snapshot, job):
            refused = "not offered by kube-scheduler"
        elif not takes_all(node, ask):
            refused = "taints, selector or affinity"
        free = snapshot.free(name)
        rows.append(NodeRoom(name, free, ask.whole.shortfall(free), refused))
    return tuple(rows)


def _name(snapshot: Snapshot, job_uid: str) -> str:
    job = snapshot.jobs.get(job_uid)
    return job.key if job else ""


def _pods(snapshot: Snapshot, gang: Gang) -> tuple[str, ...]:
    pods = [snapshot.pods[uid] for uid in gang.waits_for if uid in snapshot.pods]
    return tuple(sorted(f"{pod.namespace}/{pod.name}" for pod in pods))

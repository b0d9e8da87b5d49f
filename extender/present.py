"""Makes views of a snapshot, a plan and the journal: pure functions, no I/O; ``now`` is an argument."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Literal, Protocol, assert_never, runtime_checkable

from extender.journal import Entry
from extender.resizes import Direction, Workers
from extender.views import (
    DecisionView,
    DesiredView,
    Guest,
    JobDetail,
    JobName,
    JobView,
    MemberView,
    NodeView,
    PlanView,
    PodOrderView,
    QueuedJob,
    ReplicaOrderView,
    RoleView,
    Waits,
    amounts,
)
from policy.cluster.actions import Admit, Bind, Effect, RefuseBind, Reject, Released, Remember, Resize
from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.model import Job, Pod, Slot
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot, reason_of
from policy.desired import Desired, PodOrder, ReplicaOrder
from policy.systems.base import Policy

MemberState = Literal["bound", "at barrier", "binding", "planned", "gated", "waiting", "ended"]
GateSetting = Literal["when-queued", "always", "never"]


@runtime_checkable
class Weighs(Protocol):
    """A policy that orders its queue by weight."""

    def weight(self, job: Job, snapshot: Snapshot) -> float:
        """The weight that is published."""
        ...

    def raw_weight(self, job: Job, snapshot: Snapshot) -> float:
        """The weight that is compared."""
        ...

    def starving(self, job: Job, now: float) -> bool:
        """Whether the job goes before every weight."""
        ...


# -- jobs ----------------------------------------------------------------------------------------


def job_view(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> JobView:
    """One job with its bounds and where it stands."""
    gang = snapshot.gang(job.uid)
    admitted = gang.state in ADMITTED
    return JobView(
        **_named(job),
        state=_state(job, gang),
        min_workers=job.min_workers,
        workers=gang.workers,
        max_workers=job.max_workers,
        replicas=job.worker.replicas if job.worker else 0,
        elastic=job.elastic,
        utility=job.utility,
        weight=_weight(snapshot, job, policy),
        arrival=job.arrival,
        waited_seconds=max(0.0, now - job.arrival) if _in_queue(job, gang) else None,
        admitted_at=gang.admitted_at,
        scaled_at=gang.scaled_at,
        keeps_pods=job.keeps_pods,
        gated_pods=_gated(snapshot, job),
        waits=None if admitted and not gang.waits_for else waits(snapshot, job),
    )


def job_detail(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> JobDetail:
    """One job with its roles and members."""
    roles = tuple(
        RoleView(role=role.name, replicas=role.replicas, requests=amounts(role.requests)) for role in job.roles
    )
    view = job_view(snapshot, job, policy, now)
    return JobDetail(**dict(view), roles=roles, members=tuple(_members(snapshot, job)))


def _named(job: Job) -> dict[str, str]:
    return {"namespace": job.namespace, "name": job.name, "kind": job.kind, "uid": api_uid(job.namespace, job.uid)}


def api_uid(namespace: str, uid: str) -> str:
    """The UID that the API gave the job; the ledger knows it by ``namespace/uid``."""
    return uid.removeprefix(f"{namespace}/")


def _state(job: Job, gang: Gang) -> str:
    if job.invalid:
        return "invalid"
    if job.suspended and gang.state is State.WAITING:
        return "suspended"
    return gang.state.value


def _in_queue(job: Job, gang: Gang) -> bool:
    return not (job.invalid or job.finished) and gang.state in (State.WAITING, State.RELEASING)


def _weight(snapshot: Snapshot, job: Job, policy: Policy) -> float | None:
    return policy.weight(job, snapshot) if isinstance(policy, Weighs) and not job.invalid else None


def _gated(snapshot: Snapshot, job: Job) -> int:
    return sum(1 for pod in snapshot.pods_of(job.uid) if pod.gated)


def _members(snapshot: Snapshot, job: Job) -> Iterator[MemberView]:
    gang = snapshot.gang(job.uid)
    known = snapshot.members.get(job.uid, {})
    for slot in sorted({*job.slots(gang.workers or job.min_workers), *known, *gang.nodes}, key=_rigid_first):
        pod = snapshot.member(job.uid, slot)
        node = (pod.node if pod else "") or gang.nodes.get(slot, "")
        name = pod.name if pod else ""
        yield MemberView(role=slot.role, index=slot.index, pod=name, node=node, state=_member_state(gang, slot, pod))


def _rigid_first(slot: Slot) -> tuple[bool, Slot]:
    return slot.role == "worker", slot


def _member_state(gang: Gang, slot: Slot, pod: Pod | None) -> MemberState:
    planned = slot in gang.nodes
    if pod is None:
        return "planned" if planned else "waiting"
    if pod.ended:
        return "ended"
    if pod.node:
        return "bound"
    if pod.uid in gang.held:
        return "at barrier"
    if pod.uid in gang.in_flight:
        return "binding"
    if pod.gated:
        return "gated"
    return "planned" if planned else "waiting"


def waits(snapshot: Snapshot, job: Job) -> Waits:
    """Why the job is not running."""
    verdict = _verdict(snapshot, job)
    ahead = snapshot.jobs.get(verdict.behind)
    return Waits(
        reason=verdict.reason.value,
        text=verdict.reason.text,
        detail=verdict.detail,
        behind=ahead.key if ahead is not None else "",
    )


def _verdict(snapshot: Snapshot, job: Job) -> Verdict:
    known = job.invalid or job.finished or job.suspended
    if not known and not snapshot.synced:
        return Verdict(Reason.NOT_SYNCED)
    if not known and not snapshot.leading:
        return Verdict(Reason.NOT_LEADING)
    if snapshot.gang(job.uid).waits_for:
        return Verdict(Reason.ROOM_BEING_FREED)
    return reason_of(snapshot, job)


# -- queue ---------------------------------------------------------------------------------------


def queue_view(snapshot: Snapshot, policy: Policy, now: float) -> tuple[QueuedJob, ...]:
    """The waiting jobs in the order in which the policy looks at them."""
    ordered = sorted(snapshot.waiting(), key=lambda job: (-_urgency(snapshot, job, policy, now), job.arrival, job.key))
    return tuple(
        QueuedJob(
            **_named(job),
            position=position,
            weight=_weight(snapshot, job, policy),
            starving=isinstance(policy, Weighs) and policy.starving(job, now),
            waited_seconds=max(0.0, now - job.arrival),
            members=job.size,
            min_workers=job.min_workers,
            max_workers=job.max_workers,
            needs=amounts(job.requests(job.min_workers)),
            gated_pods=_gated(snapshot, job),
            waits=waits(snapshot, job),
        )
        for position, job in enumerate(ordered, start=1)
    )


def _urgency(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> float:
    if not isinstance(policy, Weighs):
        return 0.0
    return math.inf if policy.starving(job, now) else policy.raw_weight(job, snapshot)


# -- nodes and plans -----------------------------------------------------------------------------


def nodes_view(snapshot: Snapshot) -> tuple[NodeView, ...]:
    """Every node with the members that are on it or planned there."""
    guests: dict[str, list[Guest]] = defaultdict(list)
    for uid in sorted(snapshot.jobs, key=lambda uid: snapshot.jobs[uid].key):
        job = snapshot.jobs[uid]
        for member in _members(snapshot, job):
            if member.node and member.state != "ended":
                guests[member.node].append(
                    Guest(job=job.key, role=member.role, index=member.index, pod=member.pod, state=member.state)
                )
    others: dict[str, int] = defaultdict(int)
    for pod in snapshot.pods.values():
        if pod.holds_room and not pod.opted_in:
            others[pod.node] += 1
    return tuple(
        NodeView(
            name=name,
            ready=node.ready,
            unschedulable=node.unschedulable,
            allocatable=amounts(node.allocatable),
            free=amounts(snapshot.free(name)),
            members=tuple(guests[name]),
            other_pods=others[name],
        )
        for name, node in sorted(snapshot.nodes.items())
    )


def plans_view(snapshot: Snapshot, now: float) -> tuple[PlanView, ...]:
    """Every gang that has a plan, by job."""
    jobs = sorted(snapshot.running(), key=lambda job: job.key)
    return tuple(_plan(snapshot, job, snapshot.gang(job.uid), now) for job in jobs)


def _plan(snapshot: Snapshot, job: Job, gang: Gang, now: float) -> PlanView:
    freeing = [snapshot.pods[uid] for uid in sorted(gang.waits_for) if uid in snapshot.pods]
    rival = snapshot.jobs.get(gang.on_behalf_of)
    return PlanView(
        **_named(job),
        plan=gang.plan,
        state=gang.state.value,
        workers=gang.workers,
        nodes={str(slot): gang.nodes[slot] for slot in sorted(gang.nodes, key=_rigid_first)},
        waits_for=tuple(f"{pod.namespace}/{pod.name}" for pod in freeing),
        at_barrier=tuple(str(slot) for slot in sorted(gang.held.values(), key=_rigid_first)),
        in_flight=len(gang.in_flight),
        window_ends_in_seconds=None if gang.window_ends is None else gang.window_ends - now,
        deadline_in_seconds=None if gang.deadline is None else gang.deadline - now,
        attempts=gang.attempts,
        on_behalf_of=rival.key if rival is not None else "",
    )


# -- what to do ----------------------------------------------------------------------------------


def desired_view(snapshot: Snapshot, wanted: Desired, gate: GateSetting, instance: str) -> DesiredView:
    """The controller's orders; ``gate`` is the setting. While nobody may decide, the gate stays as it is."""
    decides = snapshot.synced and snapshot.leading
    on = {"always": True, "never": False, "when-queued": wanted.gate}[gate]
    return DesiredView(
        instance=instance,
        generation=snapshot.generation,
        gate=on if decides else None,
        ungate=_pod_orders(wanted.ungate),
        wake=_pod_orders(wanted.wake),
        nominate=_pod_orders(wanted.nominate),
        replicas=tuple(_replica_order(order) for order in wanted.replicas),
        release=_pod_orders(wanted.release),
    )


def _pod_orders(orders: Iterable[PodOrder]) -> tuple[PodOrderView, ...]:
    return tuple(PodOrderView(uid=o.uid, namespace=o.namespace, name=o.name, value=o.value) for o in orders)


def _replica_order(order: ReplicaOrder) -> ReplicaOrderView:
    return ReplicaOrderView(
        uid=api_uid(order.namespace, order.uid), namespace=order.namespace, name=order.name, kind=order.kind,
        workers=order.workers, replicas=order.replicas, version=order.version,
    )  # fmt: skip


# -- what was decided ----------------------------------------------------------------------------


def decisions_view(snapshot: Snapshot, entries: Iterable[Entry], since: int, most: int) -> tuple[DecisionView, ...]:
    """The entries after ``since`` in words; the earlier ones tell which way a resize goes."""
    workers, views = Workers(), list[DecisionView]()
    for entry in entries:
        way = workers.follow(entry.effect)
        if entry.sequence > since and len(views) < most:
            views.append(_decision(snapshot, entry, way))
    return tuple(views)


def _decision(snapshot: Snapshot, entry: Entry, way: Direction) -> DecisionView:
    """One entry; names are those of jobs that still exist."""
    effect = entry.effect
    job = snapshot.jobs.get(_job_of(snapshot, effect))
    base = DecisionView(
        sequence=entry.sequence,
        at=entry.at,
        generation=entry.generation,
        cause=entry.cause,
        action=type(effect).__name__,
        job=JobName(**_named(job)) if job is not None else None,
        text="",
    )
    return base.model_copy(update=_told(snapshot, effect, way))


def _job_of(snapshot: Snapshot, effect: Effect) -> str:
    match effect:
        case Admit() | Resize() | Reject() | Released():
            return effect.job_uid
        case Bind() | RefuseBind():
            pod = snapshot.pods.get(effect.uid)
            return pod.job_uid if pod is not None else ""
        case Remember():
            return ""
        case _:
            assert_never(effect)


def _told(snapshot: Snapshot, effect: Effect, way: Direction) -> dict[str, object]:
    match effect:
        case Admit():
            hosts = len(set(effect.nodes.values()))
            text = f"started with {_count(effect.workers, 'worker')} on {_count(hosts, 'node')}"
            return {"workers": effect.workers, "nodes": _by_member(effect), "text": text}
        case Resize():
            return _resized(snapshot, effect, way)
        case Reject() | Released():
            return {"reason": effect.reason.value, "text": effect.reason.text}
        case Bind():
            return {"pod": effect.name, "nodes": {str(effect.slot): effect.node}, "text": f"bound to {effect.node}"}
        case RefuseBind():
            pod = snapshot.pods.get(effect.uid)
            name = pod.name if pod is not None else effect.uid
            return {"pod": name, "reason": effect.reason.value, "text": effect.reason.text}
        case Remember():
            return {"text": f"remembered {effect.key}"}
        case _:
            assert_never(effect)


def _resized(snapshot: Snapshot, resize: Resize, way: Direction) -> dict[str, object]:
    rival = snapshot.jobs.get(resize.on_behalf_of)
    ahead = rival.key if rival is not None else ""
    scaled = f"scaled {way} to {_count(resize.workers, 'worker')}" + (f" for {ahead}" if ahead else "")
    text = scaled if way else f"{_count(len(resize.nodes), 'member')} placed anew"
    named = {"workers": resize.workers, "direction": way, "nodes": _by_member(resize)}
    return {**named, "on_behalf_of": ahead, "text": text}


def _by_member(effect: Admit | Resize) -> dict[str, str]:
    return {str(slot): effect.nodes[slot] for slot in sorted(effect.nodes, key=_rigid_first)}


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"

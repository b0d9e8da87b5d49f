"""Runs a copy of the snapshot forward, as if job operators, the controller and kube-scheduler acted at once.

All decisions are made by ``step``. What a decision orders is turned into the facts that would show it carried out, and
these are given to the next step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from policy.cluster.draft import Draft
from policy.cluster.events import Event, JobSeen, PodGone, PodSeen, Tick
from policy.cluster.gang import Gang, State
from policy.cluster.job import WORKER, Job, Slot
from policy.cluster.pod import Phase, Pod
from policy.cluster.snapshot import Snapshot
from policy.step import step
from policy.systems.base import Policy

ROUNDS = 6  # Decisions are carried out on the copy at most ROUNDS times, which suffices to shrink, start and grow jobs.


def forward(snapshot: Snapshot, events: Iterable[Event], policy: Policy, now: float) -> Snapshot:
    """Return the snapshot that follows when these facts are applied and the policy's decisions are carried out on it.

    ResourceQuotas do not count here, because only the API server knows how much of them is used. ``now``: seconds since
    the epoch.
    """
    snapshot = replace(snapshot, quotas={}) if snapshot.quotas else snapshot
    batch = [*events, Tick()]
    for _ in range(ROUNDS):
        snapshot, _ = step(snapshot, batch, policy, now)
        if any(_gives_up(snapshot, uid) for uid in snapshot.index.unsettled):
            # In a real cluster a suspended job's pods take time to go, so the policy decides once while they exist.
            snapshot, _ = step(snapshot, [Tick()], policy, now)
        batch = list(_carried_out(snapshot, now))
        if not batch:
            break
    return snapshot


def without(snapshot: Snapshot, *uids: str) -> Snapshot:
    """Return a copy of the snapshot without the jobs ``uids``, their gangs and their pods.

    Pods that a finalizer keeps stay. The policy has not decided yet about the room that is free then.
    """
    draft = Draft(snapshot)
    for uid in uids:
        for pod in list(snapshot.every_pod_of(uid)):
            if not pod.kept:
                draft.drop_pod(pod.uid)
        draft.drop_job(uid)
        draft.drop_gang(uid)
    return draft.freeze()


def _carried_out(snapshot: Snapshot, now: float) -> Iterator[Event]:
    for job in list(snapshot.running()):
        yield from _running(snapshot, job, snapshot.gang(job.uid), now)
    for uid in snapshot.index.unsettled:
        if _gives_up(snapshot, uid):
            yield from _given_up(snapshot, snapshot.jobs[uid], now)


def _running(snapshot: Snapshot, job: Job, gang: Gang, now: float) -> Iterator[Event]:
    """Yield the facts that show the gang's plan carried out: surplus pods are gone, and pods run on planned nodes."""
    if job.worker is not None and job.worker.replicas != gang.workers:
        roles = tuple(replace(role, replicas=gang.workers) if role.name == WORKER else role for role in job.roles)
        yield JobSeen(replace(job, roles=roles, version=job.version + 1))
    there: set[Slot] = set()
    for pod in list(snapshot.every_pod_of(job.uid)):
        slot = pod.slot
        if slot is None or not gang.gives(slot):
            if not pod.kept:
                yield PodGone(pod.uid)
            continue
        there.add(slot)
        planned = gang.nodes.get(slot, "")
        if pod.node and planned not in ("", pod.node) and not pod.kept:  # The gang migrates to its planned nodes.
            yield PodGone(pod.uid)
            yield PodSeen(_fresh(job, slot, planned, now))
        elif planned and not pod.node and not gang.waits_for:
            yield PodSeen(_bound(pod, planned, gang))
    if not gang.waits_for:
        for slot, planned in gang.nodes.items():
            if slot not in there:
                yield PodSeen(_fresh(job, slot, planned, now))


def _gives_up(snapshot: Snapshot, uid: str) -> bool:
    """Tell whether the gang is being released or is paused while its pods still hold room."""
    given_up = snapshot.gang(uid).state in (State.RELEASING, State.PAUSED) and uid in snapshot.jobs
    return given_up and any(pod.holds_room and not pod.kept for pod in snapshot.every_pod_of(uid))


def _given_up(snapshot: Snapshot, job: Job, now: float) -> Iterator[Event]:
    """Yield the facts that a released or paused gang's pods are gone, and that new, unbound pods have their slots."""
    for pod in list(snapshot.every_pod_of(job.uid)):
        if pod.holds_room and pod.slot is not None and not pod.kept:
            yield PodGone(pod.uid)
            yield PodSeen(_fresh(job, pod.slot, "", now))


def _bound(pod: Pod, node: str, gang: Gang) -> Pod:
    return replace(pod, node=node, phase=Phase.RUNNING, gated=False, plan=gang.plan, version=pod.version + 1)


def _fresh(job: Job, slot: Slot, node: str, now: float) -> Pod:
    """Return the pod that the operator would create for the slot; it runs on ``node`` unless that is empty."""
    role = job.role(slot.role)
    pod = Pod(f"{job.uid}/{slot}@{now}", job.namespace, f"{job.name}-{slot}", job_uid=job.uid, slot=slot,
              opted_in=True, since=now)  # fmt: skip
    pod = replace(pod, requests=role.requests) if role is not None else pod
    return replace(pod, node=node, phase=Phase.RUNNING) if node else pod

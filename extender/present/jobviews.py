"""Views of the jobs, their members, the queue, and the reason for which each job waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal

from extender.present.names import named, rigid_first
from extender.present.views.jobs import (
    InvalidJob,
    JobDetail,
    JobView,
    MemberView,
    QueuedJob,
    RoleView,
    UnplacedMembers,
)
from extender.present.views.refused import RefusedView
from policy.answers.explain import in_words, verdict_of
from policy.answers.explanation import Start, Waits
from policy.answers.queue import Place, places, weights
from policy.answers.refusals import refusals
from policy.answers.unplaced import unplaced, unplaced_in_words
from policy.cluster.amounts import amounts
from policy.cluster.gang import Gang, State, state_name
from policy.cluster.job import Job, Slot
from policy.cluster.pod import Pod
from policy.cluster.snapshot import Snapshot, reason_of
from policy.systems.base import Policy

MemberState = Literal["bound", "at barrier", "binding", "planned", "gated", "waiting", "ended", "gone"]
Weight = Callable[[Job], float | None]
RefusedByJob = Mapping[str, tuple[RefusedView, ...]]
NOT_ASKED: Final[Mapping[str, Start]] = {}


# -- The functions below make views of jobs. ---------------------------------------------------------


def jobs_view(snapshot: Snapshot, policy: Policy, now: float) -> tuple[JobView, ...]:
    """Return every job, in order of arrival."""
    weight = weights(snapshot, policy)
    jobs = sorted(snapshot.jobs.values(), key=lambda job: (job.arrival, job.key))
    refused = refused_views(snapshot)
    return tuple(_job_view(snapshot, job, weight, now, refused) for job in jobs)


def job_view(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> JobView:
    """Return the view of one job: its bounds, its state, and why it waits."""
    return _job_view(snapshot, job, weights(snapshot, policy), now, refused_views(snapshot))


def _job_view(snapshot: Snapshot, job: Job, weight: Weight, now: float, refused: RefusedByJob) -> JobView:
    gang = snapshot.gang(job.uid)
    return JobView(
        **named(job),
        state=state_name(job, gang),
        min_workers=job.min_workers,
        workers=gang.workers,
        max_workers=job.max_workers,
        replicas=job.worker.replicas if job.worker else 0,
        elastic=job.elastic,
        note=job.note,
        utility=job.utility,
        weight=weight(job),
        arrival=job.arrival,
        waited_seconds=max(0.0, now - job.arrival) if _in_queue(job, gang) else None,
        admitted_at=gang.admitted_at,
        scaled_at=gang.scaling.scaled_at,
        keeps_pods=job.keeps_pods,
        gated_pods=_gated(snapshot, job),
        waits=waits(snapshot, job),
        refused=refused.get(job.uid, ()),
    )


def job_detail(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> JobDetail:
    """Return the view of one job with its roles and members in addition."""
    roles = tuple(
        RoleView(role=role.name, replicas=role.replicas, requests=amounts(role.requests)) for role in job.roles
    )
    view = job_view(snapshot, job, policy, now)
    return JobDetail(**dict(view), roles=roles, members=tuple(members_view(snapshot, job)))


def _in_queue(job: Job, gang: Gang) -> bool:
    """Tell whether the job waits, so that its waiting time counts.

    A job that its user has suspended does not wait, although it keeps its arrival time.
    """
    stopped = job.invalid or job.finished or job.suspended
    return not stopped and gang.state in (State.WAITING, State.RELEASING, State.PAUSED)


def _gated(snapshot: Snapshot, job: Job) -> int:
    return sum(1 for pod in snapshot.pods_of(job.uid) if pod.gated)


def members_view(snapshot: Snapshot, job: Job) -> Iterator[MemberView]:
    """Yield a view of each slot that the gang needs, has planned or has a pod in; rigid roles come first."""
    gang = snapshot.gang(job.uid)
    known = snapshot.members.get(job.uid, {})
    for slot in sorted({*job.slots(gang.workers or job.min_workers, gang.ps), *known, *gang.nodes}, key=rigid_first):
        pod = snapshot.member(job.uid, slot)
        node = (pod.node if pod else "") or gang.nodes.get(slot, "")
        name = pod.name if pod else ""
        yield MemberView(role=slot.role, index=slot.index, pod=name, node=node, state=_member_state(gang, slot, pod))


def _member_state(gang: Gang, slot: Slot, pod: Pod | None) -> MemberState:
    planned = slot in gang.nodes
    if pod is None and gang.state is State.COMPLETED:
        return "gone"
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


def waits(snapshot: Snapshot, job: Job) -> Waits | None:
    """Return why the job waits, or what keeps it from running as planned; None if it runs as planned."""
    verdict = verdict_of(snapshot, job)
    return None if verdict is None else in_words(snapshot, verdict)


def refused_views(snapshot: Snapshot) -> RefusedByJob:
    """Return the writes that the API server refuses, by the UID of each job whose view must show them."""
    found: dict[str, tuple[RefusedView, ...]] = {}
    for told_to, whose, one in refusals(snapshot):
        job = snapshot.jobs.get(whose)
        view = RefusedView(job=job.key if job is not None else "", write=one.write, text=one.text)
        found[told_to] = (*found.get(told_to, ()), view)
    return found


# -- The functions below make views of the queue. ----------------------------------------------------


def queue_view(
    snapshot: Snapshot, policy: Policy, now: float, starts: Mapping[str, Start] = NOT_ASKED
) -> tuple[QueuedJob, ...]:
    """Return the waiting jobs in the order in which the policy considers them.

    starts: when each job may start, by UID; empty if that was not computed.
    """
    refused = refused_views(snapshot)
    return tuple(_queued(snapshot, place, now, starts, refused) for place in places(snapshot, policy, now))


def invalid_jobs(snapshot: Snapshot) -> tuple[InvalidJob, ...]:
    """Return the malformed jobs, in order of name."""
    found = sorted((job for job in snapshot.jobs.values() if job.invalid), key=lambda job: job.key)
    return tuple(InvalidJob(**named(job), detail=job.invalid) for job in found)


def unplaced_members(snapshot: Snapshot) -> tuple[UnplacedMembers, ...]:
    """Return the running jobs that have members without a node, in order of name."""
    return tuple(
        UnplacedMembers(
            **named(job),
            members=len(missing),
            detail=unplaced_in_words(snapshot, job, snapshot.gang(job.uid), missing),
        )
        for job, missing in unplaced(snapshot)
    )


def _queued(
    snapshot: Snapshot, place: Place, now: float, starts: Mapping[str, Start], refused: RefusedByJob
) -> QueuedJob:
    job = place.job
    start = starts.get(job.uid)
    return QueuedJob(
        **named(job),
        position=place.position,
        weight=place.weight,
        starving=place.starving,
        waited_seconds=max(0.0, now - job.arrival),
        members=job.size,
        min_workers=job.min_workers,
        max_workers=job.max_workers,
        needs=amounts(job.requests(job.min_workers)),
        gated_pods=_gated(snapshot, job),
        waits=in_words(snapshot, verdict_of(snapshot, job) or reason_of(snapshot, job)),
        refused=refused.get(job.uid, ()),
        expected=start.seen_at(now) if start is not None else None,
    )

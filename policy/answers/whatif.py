"""What would happen: the same ``step`` on a copy of the snapshot, and who then stands elsewhere. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from policy.answers.explain import verdict_of
from policy.cluster.events import Event, JobSeen, PodSeen
from policy.cluster.gang import State
from policy.cluster.model import Job, Pod, Slot
from policy.cluster.reasons import Verdict
from policy.cluster.snapshot import Snapshot
from policy.step import step
from policy.systems.base import Policy


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a job stands: its state, the workers it was given, the nodes of its members, and why it waits, if so."""

    state: State
    workers: int
    nodes: Mapping[Slot, str]
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A job that would stand elsewhere; ``before`` is None of one that is not there yet."""

    job: Job
    before: Standing | None
    after: Standing


def what_if(snapshot: Snapshot, events: Iterable[Event], policy: Policy, now: float) -> tuple[Moved, ...]:
    """The jobs that would stand elsewhere after one decision of ``policy`` with these facts, by arrival.

    A shrink is shown as decided: the room that it frees is waited for, as the state of the job that it is for says.
    """
    after, _ = step(snapshot, events, policy, now)
    return tuple(_moved(snapshot, after))


def submitted(job: Job) -> Iterator[Event]:
    """The facts of a job with all pods that it asks for, as its operator would have created them.

    One that asks for fewer workers than its minimum has that: it is given them while it waits.
    """
    yield JobSeen(job)
    workers = max(job.worker.replicas, job.min_workers) if job.worker else 0
    for slot in job.slots(workers):
        role = job.role(slot.role)
        if role is not None:
            name = f"{job.name}-{slot}"
            uid = f"{job.uid}/{slot}"
            yield PodSeen(
                Pod(
                    uid,
                    job.namespace,
                    name,
                    role.requests,
                    job_uid=job.uid,
                    slot=slot,
                    opted_in=True,
                    since=job.arrival,
                )
            )


def _moved(before: Snapshot, after: Snapshot) -> Iterator[Moved]:
    for job in sorted(after.jobs.values(), key=lambda job: (job.arrival, job.key)):
        was = standing(before, job) if job.uid in before.jobs else None
        would = standing(after, job)
        if was is None or _differs(was, would):
            yield Moved(job, was, would)


def standing(snapshot: Snapshot, job: Job) -> Standing:
    """Where the job stands in that snapshot."""
    gang = snapshot.gang(job.uid)
    return Standing(gang.state, gang.workers, gang.nodes, verdict_of(snapshot, job))


def _differs(was: Standing, would: Standing) -> bool:
    reasons = (standing.verdict.reason if standing.verdict else None for standing in (was, would))
    return (was.state, was.workers, was.nodes, next(reasons)) != (
        would.state,
        would.workers,
        would.nodes,
        next(reasons),
    )

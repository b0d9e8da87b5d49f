"""What would happen: the same ``step`` on a copy of the snapshot, and who then stands elsewhere. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from policy.answers.explain import verdict_of
from policy.answers.queue import places
from policy.cluster.events import Event, JobSeen, PodSeen
from policy.cluster.gang import State
from policy.cluster.model import Job, Pod, Slot
from policy.cluster.reasons import Verdict
from policy.cluster.snapshot import Snapshot
from policy.step import step
from policy.systems.base import Policy


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a job stands: its state, the workers it was given, the nodes of its members, and why it waits, if so.

    ``position``: in the queue, from 1; None where it does not wait. ``ahead``: the waiting job directly before it.
    """

    state: State
    workers: int
    nodes: Mapping[Slot, str]
    verdict: Verdict | None
    position: int | None
    ahead: Job | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A job that would stand elsewhere; ``before`` is None of one that is not there yet."""

    job: Job
    before: Standing | None
    after: Standing


Standings = Callable[[Job], Standing]


def what_if(
    snapshot: Snapshot, events: Iterable[Event], policy: Policy, now: float, in_force: Policy | None = None
) -> tuple[Moved, ...]:
    """Return the jobs that would stand elsewhere after one decision of ``policy`` with these facts, by arrival.

    A shrink is shown as decided: the room that it frees is waited for, as the state of the job that it is for says.
    ``in_force``: the policy whose queue it is now; None: the same.
    """
    after, _ = step(snapshot, events, policy, now)
    was, would = _standings(snapshot, in_force or policy, now), _standings(after, policy, now)
    return tuple(_moved(snapshot, after, was, would))


def submitted(job: Job) -> Iterator[Event]:
    """Yield the facts of a job with all pods that it asks for, as its operator would have created them.

    A job that asks for fewer workers than its minimum is given its minimum: it would be while it waits.
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


def _moved(before: Snapshot, after: Snapshot, standing: Standings, then: Standings) -> Iterator[Moved]:
    for job in sorted(after.jobs.values(), key=lambda job: (job.arrival, job.key)):
        was = standing(job) if job.uid in before.jobs else None
        would = then(job)
        if was is None or _compared(was) != _compared(would):
            yield Moved(job, was, would)


def _standings(snapshot: Snapshot, policy: Policy, now: float) -> Standings:
    """Return where any job stands in that snapshot, as a function.

    The queue is sorted once, so ask once for many jobs.
    """
    order = places(snapshot, policy, now)
    ahead = (None, *(place.job for place in order))
    queued = {place.job.uid: (place.position, before) for place, before in zip(order, ahead, strict=False)}

    def standing(job: Job) -> Standing:
        gang = snapshot.gang(job.uid)
        verdict = verdict_of(snapshot, job)
        return Standing(gang.state, gang.workers, gang.nodes, verdict, *queued.get(job.uid, (None, None)))

    return standing


def _compared(standing: Standing) -> tuple[object, ...]:
    """Return what makes a difference; the figures behind a reason and who is ahead do not."""
    reason = standing.verdict.reason if standing.verdict else None
    return standing.state, standing.workers, standing.nodes, reason, standing.position

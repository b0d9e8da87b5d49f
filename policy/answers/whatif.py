"""Answers what would happen after some events: runs ``step`` on the snapshot, and lists the jobs whose standing
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from policy.answers.explain import verdict_of
from policy.answers.queue import places
from policy.cluster.events import Event, JobSeen, PodSeen
from policy.cluster.gang import State
from policy.cluster.job import Job, Slot
from policy.cluster.pod import Pod
from policy.cluster.reasons import Verdict
from policy.cluster.snapshot import Snapshot
from policy.step import step
from policy.systems.base import Policy


@dataclass(frozen=True, slots=True)
class Standing:
    """A job's standing: its state, its target of workers, the nodes of its members, and why it does not run as it
    should.

    position: the job's position in the queue, from 1; None if it does not wait. ahead: the waiting job directly before
    it; None if there is none.
    """

    state: State
    workers: int
    nodes: Mapping[Slot, str]
    verdict: Verdict | None
    position: int | None
    ahead: Job | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A job whose standing would change; ``before`` is None for a job that does not exist yet."""

    job: Job
    before: Standing | None
    after: Standing


Standings = Callable[[Job], Standing]


def what_if(
    snapshot: Snapshot, events: Iterable[Event], policy: Policy, now: float, in_force: Policy | None = None
) -> tuple[Moved, ...]:
    """Return the jobs whose standing would change if these events came and ``policy`` decided once, by arrival.

    A shrink would then be decided but not carried out yet, so the job for which another one is shrunk still waits for
    the room. ``in_force``: the policy that orders the queue now; None: the same policy.
    """
    after, _ = step(snapshot, events, policy, now)
    was, would = _standings(snapshot, in_force or policy, now), _standings(after, policy, now)
    return tuple(_moved(snapshot, after, was, would))


def submitted(job: Job) -> Iterator[Event]:
    """Yield the facts of a new job and of all pods that it asks for, as its operator would create them.

    A job that asks for fewer workers than its minimum gets pods for its minimum, as such a job does while it waits.
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
    """Return a function that gives a job's standing in that snapshot.

    The function is costly to make, because it sorts the queue, and cheap to call: make it once for many jobs.
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
    """Return the parts of a standing by which two standings are compared: all but the reason's figures and the job
    ahead.
    """
    reason = standing.verdict.reason if standing.verdict else None
    return standing.state, standing.workers, standing.nodes, reason, standing.position

"""A record once more under some policy: what came from outside comes as recorded, what was made of it is made anew.

From outside come nodes, others' pods, jobs, and what users changed of them. A job that finished in the record finishes
here once it has had as many worker-seconds; one that did not runs on. Pods come, are bound and go at once
(``operated``), so two policies are compared with one another here, and with the record only as far as that is so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from policy.answers.load import Load, load
from policy.answers.operated import forward, without
from policy.answers.whatif import submitted
from policy.cluster.events import (
    Event,
    JobGone,
    JobSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    Reported,
    Synced,
)
from policy.cluster.gang import State
from policy.cluster.model import Job
from policy.cluster.snapshot import Snapshot
from policy.systems import POD_BY_POD
from policy.systems.base import Policy

AT_WORK = (State.RUNNING, State.MIGRATING, State.REPAIRING)


class Works:
    """What recorded jobs ran for until they finished. ``done``: worker-seconds by uid, of those that did."""

    def __init__(self, at: float) -> None:
        self._at = at
        self._so_far: dict[str, float] = {}
        self.done: dict[str, float] = {}

    def look(self, snapshot: Snapshot, at: float) -> None:
        """Count the time that has passed in that state until ``at`` (seconds since the epoch)."""
        passed, self._at = at - self._at, at
        for uid, workers in _working(snapshot):
            self._so_far[uid] = self._so_far.get(uid, 0.0) + passed * workers

    def finish(self, events: Iterable[Event]) -> None:
        """Keep what those had that finish with these events."""
        for event in events:
            if isinstance(event, JobSeen) and event.job.finished and event.job.uid not in self.done:
                self.done[event.job.uid] = self._so_far.pop(event.job.uid, 0.0)


def finishes(events: Iterable[Event]) -> bool:
    """Tell whether a job finishes with one of these events."""
    return any(isinstance(event, JobSeen) and event.job.finished for event in events)


def _working(snapshot: Snapshot) -> Iterator[tuple[str, int]]:
    """Yield the jobs that compute, with their workers; a job that has none of its own counts as one."""
    for uid in snapshot.index.admitted:
        gang = snapshot.gang(uid)
        if gang.state in AT_WORK:
            yield uid, max(1, gang.workers)


class Rerun:
    """The recorded cluster under ``policy``. work: worker-seconds by uid of the jobs that are to finish.

    started, ended: jobs so far. ``same``: the policy is the recorded one, which goes on from what it remembered.
    """

    def __init__(self, begun: Snapshot, policy: Policy, work: Mapping[str, float], at: float, *, same: bool) -> None:
        rules = replace(begun.rules, stores=False, gangs=policy.base.name not in POD_BY_POD)
        memory = begun.memory if same else {}
        self._snapshot = replace(begun, rules=rules, leading=True, memory=memory)
        self._policy, self._work, self._at = policy, work, at
        self._left: dict[str, float] = {}
        self._gone: set[str] = set()
        self._others = {pod.uid for pod in begun.pods.values() if not pod.job_uid}
        self._running = frozenset(begun.index.admitted)
        self.started = self.ended = 0

    def to(self, at: float, events: Sequence[Event]) -> Load:
        """Let time pass until ``at`` with these facts on the way, and decide once. How busy the cluster is then."""
        passed, self._at = at - self._at, at
        for uid, workers in _working(self._snapshot):
            if uid in self._work:
                left = self._left.get(uid, self._work[uid]) - passed * workers
                self._left[uid] = left
                if left <= 0:
                    self._end(uid)
        self._snapshot = forward(self._snapshot, list(self._outside(events)), self._policy, at)
        running = frozenset(self._snapshot.index.admitted)
        self.started += len(running - self._running)
        self._running = running
        return load(self._snapshot)

    def _end(self, uid: str) -> None:
        self._snapshot = without(self._snapshot, uid)
        self._gone.add(uid)
        self.ended += 1

    def _outside(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield what does not follow from the recorded policy's decisions: before the first of them, everything."""
        jobs, synced = dict(self._snapshot.jobs), self._snapshot.synced
        for event in events:
            match event:
                case JobSeen() | JobGone() | PodSeen() | PodGone() if not synced:
                    self._note(event, jobs)
                    yield event
                case Synced():
                    synced = True
                    yield event
                case NodeSeen() | NodeGone() | Reported():
                    yield event
                case PodSeen(pod) if not pod.job_uid:
                    self._others.add(pod.uid)
                    yield event
                case PodGone(uid) if uid in self._others:
                    self._others.discard(uid)
                    yield event
                case JobSeen(job) if job.uid not in self._gone and not job.finished:
                    known = jobs.get(job.uid)
                    yield from self._seen(job, known)
                    jobs[job.uid] = job if known is None else replace(job, roles=known.roles)
                case JobGone(uid) if uid not in self._work:
                    self._gone.add(uid)
                    yield from self._pods_go(uid)
                    yield event
                case _:
                    pass

    def _note(self, event: Event, jobs: dict[str, Job]) -> None:
        """Note which jobs are there when deciding begins."""
        if isinstance(event, JobSeen):
            jobs[event.job.uid] = event.job
        elif isinstance(event, PodSeen) and not event.pod.job_uid:
            self._others.add(event.pod.uid)

    def _seen(self, job: Job, known: Job | None) -> Iterator[Event]:
        """Yield the facts of a new job with its pods, and of a known one what its user changed.

        How many workers it has is decided here.
        """
        if known is None:
            yield from submitted(replace(job, released=False)) if not job.suspended else (JobSeen(job),)
            return
        changed = replace(job, roles=known.roles, released=False, version=known.version)
        if changed == known:
            return
        changed = replace(changed, version=known.version + 1)
        if changed.suspended == known.suspended:
            yield JobSeen(changed)
        elif changed.suspended:
            yield JobSeen(changed)
            yield from self._pods_go(job.uid)
        else:
            yield from self._resumed(changed)

    def _resumed(self, job: Job) -> Iterator[Event]:
        """Yield the facts by which its operator makes new pods; those that were there are gone for good."""
        for event in submitted(job):
            if isinstance(event, PodSeen):
                yield PodSeen(replace(event.pod, uid=f"{event.pod.uid}@{self._at}"))
            else:
                yield event

    def _pods_go(self, uid: str) -> Iterator[Event]:
        yield from (PodGone(pod.uid) for pod in self._snapshot.every_pod_of(uid))

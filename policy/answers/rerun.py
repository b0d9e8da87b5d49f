"""Simulates a recorded cluster again under any policy: external facts are taken from the record, all others are
computed.

External facts are about nodes, foreign pods, jobs, and users' changes of jobs. A job that finished in the record
finishes here once it has run for as many worker-seconds; a job that did not finish runs on. Pods are created, bound and
deleted at once (``operated``), unlike in the record. So two policies should be compared with each other by two
simulations, and not one policy with the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from policy.answers.load import Load, load
from policy.answers.operated import forward, without
from policy.answers.whatif import submitted
from policy.cluster.events import Event, JobGone, JobSeen, NodeGone, NodeSeen, PodGone, PodSeen, Reported, Synced
from policy.cluster.gang import State
from policy.cluster.job import Job
from policy.cluster.snapshot import Snapshot
from policy.systems import POD_BY_POD
from policy.systems.base import Policy

AT_WORK = (State.RUNNING, State.MIGRATING, State.REPAIRING)


class Works:
    """Adds up how much work each recorded job did until it finished.

    done: by uid, the worker-seconds of each job that has finished.
    """

    def __init__(self, at: float) -> None:
        self._at = at
        self._so_far: dict[str, float] = {}
        self.done: dict[str, float] = {}

    def look(self, snapshot: Snapshot, at: float) -> None:
        """Add the work since the last call to each job that runs in ``snapshot``: the time passed, times its workers.

        at: the present time in the record, in seconds since the epoch.
        """
        passed, self._at = at - self._at, at
        for uid, workers in _working(snapshot):
            self._so_far[uid] = self._so_far.get(uid, 0.0) + passed * workers

    def finish(self, events: Iterable[Event]) -> None:
        """Put the work of the jobs that finish with these events into ``done``."""
        for event in events:
            if isinstance(event, JobSeen) and event.job.finished and event.job.uid not in self.done:
                self.done[event.job.uid] = self._so_far.pop(event.job.uid, 0.0)


def finishes(events: Iterable[Event]) -> bool:
    """Tell whether a job finishes with one of these events."""
    return any(isinstance(event, JobSeen) and event.job.finished for event in events)


def _working(snapshot: Snapshot) -> Iterator[tuple[str, int]]:
    """Yield the uid of each job that trains now, with its number of workers; a job without workers counts as one."""
    for uid in snapshot.index.admitted:
        gang = snapshot.gang(uid)
        if gang.state in AT_WORK:
            yield uid, max(1, gang.workers)


class Rerun:
    """The recorded cluster as it would develop under ``policy``.

    begun: the snapshot from which the simulation starts. work: by uid, the worker-seconds after which a job finishes.
    at: the time at the start, in seconds since the epoch. same: the policy is the recorded one, and so keeps its memory
    in ``begun``. started, ended: how many jobs have started and ended so far.
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
        """Let time pass until ``at``, apply the external facts among ``events``, and let the policy decide.

        Return the cluster's load after that.
        """
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
        """Yield the external events among ``events``: those that do not follow from the recorded policy's decisions.

        All events before the first decision count as external, because they are the cluster's state at the start.
        """
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
        """Remember a job or foreign pod that existed before the first decision."""
        if isinstance(event, JobSeen):
            jobs[event.job.uid] = event.job
        elif isinstance(event, PodSeen) and not event.pod.job_uid:
            self._others.add(event.pod.uid)

    def _seen(self, job: Job, known: Job | None) -> Iterator[Event]:
        """Yield the facts of a new job and its pods, or of a user's changes of a known job.

        The recorded number of workers of a known job is not taken over, because the simulated policy decides it.
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
        """Yield the facts of a job that is resumed, with new pods under new uids, because the old pods are gone."""
        for event in submitted(job):
            if isinstance(event, PodSeen):
                yield PodSeen(replace(event.pod, uid=f"{event.pod.uid}@{self._at}"))
            else:
                yield event

    def _pods_go(self, uid: str) -> Iterator[Event]:
        yield from (PodGone(pod.uid) for pod in self._snapshot.every_pod_of(uid))

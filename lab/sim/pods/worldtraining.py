"""The progress of training: which jobs compute, how fast, and when their work is done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from lab.sim.objects import JobObject, PodObject
from lab.sim.pods.worldcore import DONE, WorldCore
from lab.sim.speed import training_rate
from policy.cluster.job import PS, WORKER
from policy.cluster.node import Node
from policy.cluster.pod import Phase

EVALUATOR = "evaluator"


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """A job's progress in seconds of one worker's work; with ``rate`` 0 it holds its room but does not compute.

    ``members`` are the UIDs of the pods that compute, and the job is restarting until ``paused_until``. ``workers`` is
    the number of replicas asked for when it last started. ``restarts`` counts its starts after the first, each with
    another number of workers or after it had stopped.
    """

    done: float = 0.0
    rate: float = 0.0
    since: float = 0.0
    paused_until: float = 0.0
    members: tuple[str, ...] = ()
    restarts: int = 0
    workers: int | None = None
    ticket: int = 0

    def at(self, now: float) -> float:
        """Return the work done at that time, in seconds of one worker's work."""
        return self.done + self.rate * max(0.0, now - max(self.since, self.paused_until))


class WorldTraining:
    """All jobs' progress; a job computes when all rigid members and at least its minimum of workers run."""

    def __init__(self, core: WorldCore) -> None:
        self._core = core
        self.progress: dict[str, TrainingProgress] = {}
        self._ending: set[str] = set()
        core.pod_listeners.append(lambda pod: self._look(pod.owner))
        core.job_listeners.append(lambda job: self._look(job.uid))
        core.node_listeners.append(self._node_changed)

    def _node_changed(self, node: Node) -> None:
        owners = {pod.owner: None for pod in self._core.store.pods.values() if pod.node == node.name}
        for uid in owners:
            self._look(uid)

    def _look(self, job_uid: str) -> None:
        """Account for the work done so far, and let the job continue at the rate that its working pods now give it."""
        job = self._core.store.jobs.get(job_uid)
        if job is None or job.phase.ended:
            self._stop(job_uid)
            return
        workers, servers, members = self._layout(job)
        old = self.progress.get(job_uid, TrainingProgress())
        if old.done >= job.spec.work_seconds:
            self._end_members(job_uid)
            return
        if members == old.members:
            return
        rate = training_rate(workers, servers, job.spec.contention, self._core.settings.remote) if members else 0.0
        self._go_on(job, old, members, rate)

    def _layout(self, job: JobObject) -> tuple[list[str], list[str], tuple[str, ...]]:
        """Return the nodes of working workers and ps, and the UIDs that compute (none unless the gang is whole)."""
        working = [pod for pod in self._core.store.pods_of(job.uid) if self._works(pod)]
        nodes = {pod.slot: pod.node for pod in working if pod.slot is not None}
        workers = [node for slot, node in nodes.items() if slot.role not in (PS, EVALUATOR)]
        servers = [node for slot, node in nodes.items() if slot.role == PS]
        rigid = all(slot in nodes for slot in job.spec.slots if slot.role != WORKER)
        there = sum(1 for slot in nodes if slot.role == WORKER) + len(job.over)
        whole = rigid and bool(nodes) and there >= job.spec.min_workers
        return workers, servers, tuple(pod.uid for pod in working) if whole else ()

    def _works(self, pod: PodObject) -> bool:
        node = self._core.store.nodes.get(pod.node)
        return pod.works and node is not None and node.ready

    def _go_on(self, job: JobObject, old: TrainingProgress, members: tuple[str, ...], rate: float) -> None:
        now = self._core.now
        asked = job.spec.workers if members else old.workers
        stopped = old.workers is not None and (asked != old.workers or not old.members)
        restarted = bool(members) and stopped
        paused = now + self._core.settings.restart_seconds if restarted else old.paused_until
        done = old.at(now)
        self._core.engine.cancel(old.ticket)
        ticket = 0
        if rate > 0:
            left = max(0.0, job.spec.work_seconds - done)
            at = max(now, paused) + left / rate
            ticket = self._core.engine.schedule(at, partial(self._finish, job.uid), DONE)
        self.progress[job.uid] = TrainingProgress(
            done, rate, now, paused, members, old.restarts + restarted, asked, ticket
        )

    def _finish(self, job_uid: str) -> None:
        """Record that all of the job's work is done, and let its members end."""
        done, old = self._core.store.jobs[job_uid].spec.work_seconds, self.progress[job_uid]
        self.progress[job_uid] = replace(old, done=done, rate=0.0, since=self._core.now, members=())
        self._end_members(job_uid)

    def _end_members(self, job_uid: str) -> None:
        """Let every running member except the ps succeed, also one that has just started; a ps runs until deleted.

        Pods of a kind that does not end stay idle until their user deletes the job, because a pod that exits is
        restarted.
        """
        if job_uid in self._ending or not self._core.store.jobs[job_uid].spec.kind.ends:
            # The writes below make the listeners call this method again for the same job, which then does nothing.
            return
        self._ending.add(job_uid)
        for pod in self._core.store.pods_of(job_uid):
            if self._works(pod) and pod.slot is not None and pod.slot.role != PS:
                self._core.write_pod(replace(pod, phase=Phase.SUCCEEDED, ended=self._core.now))
        self._ending.discard(job_uid)

    def _stop(self, job_uid: str) -> None:
        old = self.progress.get(job_uid)
        if old is not None and old.members:
            self._core.engine.cancel(old.ticket)
            self.progress[job_uid] = replace(old, done=old.at(self._core.now), rate=0.0, members=(), ticket=0)

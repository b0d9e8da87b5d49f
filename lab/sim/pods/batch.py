"""The controller of Indexed Jobs: ``syncJob`` and ``manageJob`` of pkg/controller/job/job_controller.go.

A pod that fails or terminates gets a successor with its index at once (podReplacementPolicy TerminatingOrFailed). A
succeeded pod is counted once; the real controller uses a finalizer for this, and here a set of UIDs does. An index
beyond the completions is dropped. Not simulated: back-off between failures and its limit, slow start, deadlines, and
pod failure policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.sim.objects import JobObject, JobPhase, PodObject, WorkloadKind
from lab.sim.pods.apps import safe
from lab.sim.pods.reconciler import Reconciler
from lab.sim.pods.worldcore import Do, WorldCore
from policy.cluster.job import WORKER, Slot
from policy.cluster.pod import Phase

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
REQUEST = 1.0


class IndexedJobController(Reconciler):
    """The controller of Indexed Jobs."""

    def __init__(self, core: WorldCore) -> None:
        super().__init__(core, REQUEST)
        self._counted: set[str] = set()  # UIDs of pods whose success is in their job's status
        self._made = 0

    def _is_ours(self, job: JobObject) -> bool:
        return job.spec.kind is WorkloadKind.INDEXED_JOB

    def _next(self, job: JobObject) -> tuple[float, Do] | None:
        pods = self._core.store.pods_of(job.uid)
        updated = self._status(job, pods)
        if updated != job:
            return REQUEST, lambda: self._write_status(updated, pods)
        surplus = _surplus(job, [pod for pod in pods if pod.active])
        if surplus is not None:
            return REQUEST, lambda: self._core.delete_pod(surplus)
        if (index := _missing(job, pods)) is not None:
            return REQUEST, lambda: self._create_worker(job, index)
        return None

    def _status(self, job: JobObject, pods: Sequence[PodObject]) -> JobObject:
        """Return the job with the indices that are complete now; it has ended once all are and no pod is active."""
        if job.phase.ended:
            return job
        new = (pod.slot.index for pod in self._succeeded(pods) if pod.slot is not None)
        over = tuple(sorted({index for index in (*job.over, *new) if index < job.spec.workers}))
        now, phase, started, ended = self._core.now, job.phase, job.started, None
        if any(pod.phase is Phase.RUNNING for pod in pods):
            phase, started = JobPhase.RUNNING, now if started is None else started
        if len(over) == job.spec.workers > 0 and not any(pod.active for pod in pods):
            phase, ended = JobPhase.SUCCEEDED, now
        return replace(job, over=over, phase=phase, started=started, ended=ended)

    def _succeeded(self, pods: Sequence[PodObject]) -> list[PodObject]:
        return [pod for pod in pods if pod.phase is Phase.SUCCEEDED and pod.uid not in self._counted]

    def _write_status(self, job: JobObject, pods: Sequence[PodObject]) -> None:
        self._counted.update(pod.uid for pod in self._succeeded(pods))
        self._core.write_job(job)

    def _create_worker(self, job: JobObject, index: int) -> None:
        role = job.spec.role(WORKER)
        self._made += 1
        name, labels = f"{job.spec.name}-{index}-{safe(self._made * 7_368_787, 5)}", {COMPLETION_INDEX: str(index)}
        if role is not None:
            self._create(job, role, Slot(WORKER, index), name, notes=job.spec.annotations, labels=labels)


def _index(pod: PodObject) -> int:
    return pod.slot.index if pod.slot is not None else 0


def _surplus(job: JobObject, active: Sequence[PodObject]) -> PodObject | None:
    """Return an active pod to delete, or None.

    For a suspended or ended job, this is any active pod. For another job, it is a pod whose index is complete or too
    high, or the second pod of an index.
    """
    if job.suspended or job.phase.ended:
        return active[0] if active else None
    first = {_index(pod): pod for pod in reversed(active)}
    beyond = (pod for pod in active if _index(pod) >= job.spec.workers or _index(pod) in job.over)
    twice = (pod for pod in active if first[_index(pod)] is not pod)
    return max((*beyond, *twice), key=_index, default=None)


def _missing(job: JobObject, pods: Sequence[PodObject]) -> int | None:
    """Return the first index that is not complete and has no active pod, or None."""
    if job.suspended or job.phase.ended:
        return None
    there = {_index(pod) for pod in pods if pod.active} | set(job.over)
    return next((index for index in range(job.spec.workers) if index not in there), None)

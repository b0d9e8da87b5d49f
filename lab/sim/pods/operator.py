"""The Kubeflow training operator: bring a job's pods in line with its spec at a limited rate, and set conditions.

Like the real one it is level-triggered: it has a queue of jobs and reconciles each until nothing is left to do, with
one rate limit for all jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lab.sim.objects import CleanPods, JobObject, JobPhase, PodObject, WorkloadKind
from lab.sim.pods.reconciler import Reconciler
from lab.sim.pods.worldcore import Do, WorldCore
from policy.cluster.job import WORKER, Slot
from policy.cluster.pod import Phase

REQUESTS_PER_POD = 2.0  # The operator sends two requests for each pod: one creates the pod, and one its service.


class Operator(Reconciler):
    """The training operator, which handles TFJobs."""

    def __init__(self, core: WorldCore) -> None:
        super().__init__(core, REQUESTS_PER_POD)

    def _is_ours(self, job: JobObject) -> bool:
        return job.spec.kind is WorkloadKind.TFJOB

    def _next(self, job: JobObject) -> tuple[float, Do] | None:
        pods = self._core.store.pods_of(job.uid)
        phase = self._phase(job, pods)
        if phase is not job.phase:
            return 0.0, lambda: self._set_phase(job, phase)
        if surplus := self._surplus(job, pods):
            return REQUESTS_PER_POD, lambda: self._core.delete_pod(surplus)
        if (slot := self._missing(job, pods)) is not None:
            return REQUESTS_PER_POD, lambda: self._create_member(job, slot)
        return None

    def _phase(self, job: JobObject, pods: Iterable[PodObject]) -> JobPhase:
        """Return the job's phase: Succeeded if its chief, master or else worker 0 has; Running with any running pod."""
        if job.phase.ended:
            return job.phase
        if any(pod.phase is Phase.FAILED for pod in pods) and not job.spec.restarts:
            return JobPhase.FAILED
        leader = next((name for name in ("chief", "master") if job.spec.role(name)), WORKER)
        leads = (pod for pod in pods if pod.slot is not None and pod.slot.role == leader and pod.slot.index == 0)
        if any(pod.phase is Phase.SUCCEEDED for pod in leads):
            return JobPhase.SUCCEEDED
        return JobPhase.RUNNING if any(pod.phase is Phase.RUNNING for pod in pods) else job.phase

    def _set_phase(self, job: JobObject, phase: JobPhase) -> None:
        now = self._core.now
        started = job.started if job.started is not None or phase is not JobPhase.RUNNING else now
        self._core.write_job(replace(job, phase=phase, started=started, ended=now if phase.ended else None))

    def _surplus(self, job: JobObject, pods: Iterable[PodObject]) -> PodObject | None:
        """Return the pod to delete next, or None: surplus pods are deleted by index, the highest first."""
        living = [pod for pod in pods if pod.deleted is None]
        if job.phase.ended:
            policy = job.spec.clean_pods
            surplus = [pod for pod in living if policy is CleanPods.ALL or (policy is CleanPods.RUNNING and _open(pod))]
        elif job.suspended:
            surplus = living
        else:
            wanted = set(job.spec.slots)
            surplus = [pod for pod in living if pod.slot not in wanted or pod.phase is Phase.FAILED]
        return max(surplus, key=lambda pod: (pod.slot.index if pod.slot else 0, pod.name), default=None)

    def _missing(self, job: JobObject, pods: Iterable[PodObject]) -> Slot | None:
        """Return the first replica without a pod, or None; a terminating pod still occupies its name."""
        if job.phase.ended or job.suspended:
            return None
        there = {pod.slot for pod in pods}
        return next((slot for slot in job.spec.slots if slot not in there), None)

    def _create_member(self, job: JobObject, slot: Slot) -> None:
        role = job.spec.role(slot.role)
        if role is not None:
            self._create(job, role, slot, f"{job.spec.name}-{slot}", notes=job.spec.annotations, labels={})


def _open(pod: PodObject) -> bool:
    """Tell whether the pod is pending or running.

    CleanPods.RUNNING deletes pending pods, too, because a pending pod would be orphaned if it started later.
    """
    return pod.phase in (Phase.PENDING, Phase.RUNNING)

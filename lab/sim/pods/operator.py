"""The Kubeflow training operator: makes a job's pods be what its spec says, slowly, and sets its conditions.

Level-triggered like the original: a queue of jobs, each looked at until nothing is left to do; one rate for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lab.sim.objects import CleanPods, JobKind, JobObject, JobPhase, PodObject
from lab.sim.pods.ground import Do, Ground
from lab.sim.pods.reconciler import Reconciler
from policy.cluster.model import WORKER, Phase, Slot

REQUESTS_PER_POD = 2.0  # the pod and its service


class Operator(Reconciler):
    """The one training operator of the world: of TFJobs."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground, REQUESTS_PER_POD)

    def _is_ours(self, job: JobObject) -> bool:
        return job.spec.kind is JobKind.TFJOB

    def _next(self, job: JobObject) -> tuple[float, Do] | None:
        pods = self._ground.store.pods_of(job.uid)
        phase = self._phase(job, pods)
        if phase is not job.phase:
            return 0.0, lambda: self._set_phase(job, phase)
        if surplus := self._surplus(job, pods):
            return REQUESTS_PER_POD, lambda: self._ground.delete_pod(surplus)
        if (slot := self._missing(job, pods)) is not None:
            return REQUESTS_PER_POD, lambda: self._create_member(job, slot)
        return None

    def _phase(self, job: JobObject, pods: Iterable[PodObject]) -> JobPhase:
        """Succeeded with its chief, master or else worker 0; running with its first running pod."""
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
        now = self._ground.now
        started = job.started if job.started is not None or phase is not JobPhase.RUNNING else now
        self._ground.write_job(replace(job, phase=phase, started=started, ended=now if phase.ended else None))

    def _surplus(self, job: JobObject, pods: Iterable[PodObject]) -> PodObject | None:
        """A pod that has to go: the highest index first."""
        living = [pod for pod in pods if pod.deleted is None]
        if job.phase.ended:
            policy = job.spec.clean_pods
            doomed = [pod for pod in living if policy is CleanPods.ALL or (policy is CleanPods.RUNNING and _open(pod))]
        elif job.suspended:
            doomed = living
        else:
            wanted = set(job.spec.slots)
            doomed = [pod for pod in living if pod.slot not in wanted or pod.phase is Phase.FAILED]
        return max(doomed, key=lambda pod: (pod.slot.index if pod.slot else 0, pod.name), default=None)

    def _missing(self, job: JobObject, pods: Iterable[PodObject]) -> Slot | None:
        """The first replica without a pod; one that still terminates has the name."""
        if job.phase.ended or job.suspended:
            return None
        there = {pod.slot for pod in pods}
        return next((slot for slot in job.spec.slots if slot not in there), None)

    def _create_member(self, job: JobObject, slot: Slot) -> None:
        role = job.spec.role(slot.role)
        if role is not None:
            self._create(job, role, slot, f"{job.spec.name}-{slot}", notes=job.spec.annotations, labels={})


def _open(pod: PodObject) -> bool:
    """Not ended; a pending pod counts as a running one, or it would be an orphan once it starts."""
    return pod.phase in (Phase.PENDING, Phase.RUNNING)

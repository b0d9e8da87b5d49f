"""Measures a pod-level run from the objects of the simulated world, independently of the ledger's snapshot."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lab.sim.objects import JobObject, JobPhase, PodObject, WorldChange
from lab.sim.pods.world import SimulatedWorld
from lab.sim.report import JobOutcome, RunResult
from policy.cluster.job import PS, WORKER
from policy.cluster.pod import Phase


@dataclass(frozen=True, slots=True)
class _Record:
    """One job's history so far; ``stalled_since`` is when it began to hold pods without computing."""

    computed_at: float | None = None
    workers: int = 0
    resizes: int = 0
    pairs: int = 0
    cross_pairs: int = 0
    stalled_since: float | None = None


class PodMeter:
    """Measures the CPU held and used over time, and each job's workers, pairs and stalls; call ``look`` after each
    instant with a change.
    """

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._start = self._at = world.now
        self._held = self._computing = 0
        self._held_sum = self._computing_sum = 0.0
        self._jobs: dict[str, _Record] = {}
        self._bound: set[str] = set()

    def run_to(self, now: float) -> None:
        """Count the CPU that is held and used, unchanged since the last ``look``, for the time until ``now``."""
        self._held_sum += self._held * (now - self._at)
        self._computing_sum += self._computing * (now - self._at)
        self._at = now

    def look(self, changes: list[WorldChange]) -> None:
        """Update the jobs' records and the CPU held and used by the changes of this instant."""
        for change in changes:
            if isinstance(change.object, JobObject):
                self._see_job(change.object)
            elif isinstance(change.object, PodObject):
                self._see_pod(change.object)
        self._weigh()
        self._see_stalls()

    def stalled_since(self, job_uid: str) -> float | None:
        """Return the time since which the job has held pods without computing, or None if it holds none or computes."""
        return self._jobs[job_uid].stalled_since if job_uid in self._jobs else None

    def _see_job(self, job: JobObject) -> None:
        old = self._jobs.get(job.uid, _Record(workers=job.spec.workers))
        resized = old.workers != job.spec.workers and old.computed_at is not None
        self._jobs[job.uid] = replace(old, workers=job.spec.workers, resizes=old.resizes + resized)

    def _see_pod(self, pod: PodObject) -> None:
        """Count the ps-worker pairs that a new binding forms with bound members of its job."""
        if not pod.node or pod.uid in self._bound or pod.slot is None or pod.owner not in self._jobs:
            return
        self._bound.add(pod.uid)
        other = {PS: WORKER, WORKER: PS}.get(pod.slot.role)
        siblings = [p for p in self._world.store.pods_of(pod.owner) if p.uid in self._bound and p.deleted is None]
        pairs = [p.node for p in siblings if p.slot is not None and p.slot.role == other]
        old = self._jobs[pod.owner]
        cross = sum(1 for node in pairs if node != pod.node)
        self._jobs[pod.owner] = replace(old, pairs=old.pairs + len(pairs), cross_pairs=old.cross_pairs + cross)

    def _weigh(self) -> None:
        pods = [pod for pod in self._world.store.pods.values() if pod.holds_room]
        computing = {uid: set(self._world.progress(uid).members) for uid in self._world.store.jobs}
        self._held = sum(pod.requests["cpu"] for pod in pods)
        self._computing = sum(pod.requests["cpu"] for pod in pods if pod.uid in computing.get(pod.owner, ()))

    def _see_stalls(self) -> None:
        for uid, job in self._world.store.jobs.items():
            old = self._jobs[uid]
            computes = bool(self._world.progress(uid).members)
            holds = any(pod.holds_room for pod in self._world.store.pods_of(uid)) and not job.phase.ended
            done = any(pod.phase is Phase.SUCCEEDED for pod in self._world.store.pods_of(uid))
            since = (old.stalled_since or self._at) if holds and not computes and not done else None
            first = self._at if computes and old.computed_at is None else old.computed_at
            self._jobs[uid] = replace(old, stalled_since=since, computed_at=first)

    def result(self, policy: str, horizon: float) -> RunResult:
        """Return the result of the run; a run is stopped ``horizon`` seconds after its start, and open jobs count until
        then.
        """
        stop = self._start + horizon
        outcomes = tuple(self._outcome(job, stop) for job in self._world.store.jobs.values())
        last = max((outcome.ended for outcome in outcomes), default=0.0)
        first = min((outcome.arrival for outcome in outcomes), default=0.0)
        capacity = sum(node.allocatable["cpu"] for node in self._world.store.nodes.values()) * (last - first)
        used, held = (total / capacity if capacity else 0.0 for total in (self._computing_sum, self._held_sum))
        return RunResult(policy, outcomes, last - first, used, held, horizon)

    def _outcome(self, job: JobObject, stop: float) -> JobOutcome:
        record, arrival = self._jobs[job.uid], job.created - self._start
        ended = (job.ended if job.ended is not None else stop) - self._start
        started = record.computed_at - self._start if record.computed_at is not None else None
        return JobOutcome(
            name=job.spec.name,
            arrival=arrival,
            started=started,
            ended=ended,
            finished=job.phase is JobPhase.SUCCEEDED,
            terminated=job.phase is JobPhase.FAILED,
            resizes=record.resizes,
            pairs=record.pairs,
            cross_pairs=record.cross_pairs,
        )

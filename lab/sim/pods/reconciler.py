"""The base of all simulated controllers: a queue of jobs, each reconciled until nothing is left, at one rate."""

from __future__ import annotations

from collections.abc import Mapping

from lab.sim.objects import JobObject, ObjectKind, PodObject
from lab.sim.pods.worldcore import OPERATOR, Do, WorldCore
from policy.cluster.job import Role, Slot

# A pod that a quota refused is created again after this time. The real client starts with a shorter wait and doubles
# it.
QUOTA_RETRY_SECONDS = 2.0
# Fewer tokens than this count as none: simulated time is a float with steps of 2.4e-7 s, so that a wait for fewer
# tokens would never end.
SLACK = 1e-4


class Bucket:
    """A token bucket, as client-go limits its requests; a rate of 0 is no limit."""

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._at = self._burst, now

    def wait(self, cost: float, now: float) -> float:
        """Return the seconds until ``cost`` tokens are there. If they are there now, take them and return 0."""
        if self._rate <= 0:
            return 0.0
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens + SLACK >= cost:
            self._tokens -= cost
            return 0.0
        return (cost - self._tokens) / self._rate


class Reconciler:
    """One controller; ``dearest`` is the cost in requests of its most expensive write, which its bucket must hold."""

    def __init__(self, core: WorldCore, dearest: float) -> None:
        self._core = core
        settings = core.settings
        self._bucket = Bucket(settings.operator_rate, max(settings.operator_burst, dearest), core.now)
        self._queue: dict[str, None] = {}
        self._busy = False
        self._short: set[str] = set()  # jobs whose next pod was just refused by a quota
        self._away_until = core.now
        core.job_listeners.append(lambda job: self._look(job.uid))
        core.pod_listeners.append(lambda pod: self._look(pod.owner))

    def restart(self, seconds: float) -> None:
        """Stop reconciling for ``seconds`` seconds; then reconcile every job, as after a new list."""
        self._away_until = self._core.now + seconds
        for uid in self._core.store.jobs:
            self._look(uid)

    def _is_ours(self, job: JobObject) -> bool:
        """Tell whether this controller handles the job's kind."""
        raise NotImplementedError

    def _next(self, job: JobObject) -> tuple[float, Do] | None:
        """Return the cost and the function of the next write for this job, or None if nothing is left to do."""
        raise NotImplementedError

    def _create(
        self, job: JobObject, role: Role, slot: Slot, name: str, *, notes: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        """Create the pod of that slot, with ``labels`` in addition to those of the job's template."""
        spec = job.spec
        if self._core.exceeds_quota(spec.namespace):
            self._wait_for_quota(job.uid)
            return
        self._core.admit_pod(
            PodObject(
                uid=self._core.store.new_uid(ObjectKind.POD),
                namespace=spec.namespace,
                name=name,
                requests=role.requests,
                constraints=role.constraints,
                scheduler=spec.scheduler,
                owner=job.uid,
                job=spec.name,
                kind=spec.kind,
                slot=slot,
                created=self._core.now,
                annotations=dict(notes),
                volumes=spec.volumes,
                labels={**spec.labels, **labels},
            )
        )

    def _wait_for_quota(self, job_uid: str) -> None:
        """Skip this job in the queue until ``QUOTA_RETRY_SECONDS`` have passed."""
        self._short.add(job_uid)
        self._core.later(QUOTA_RETRY_SECONDS, lambda: self._look_again(job_uid), OPERATOR)

    def _look_again(self, job_uid: str) -> None:
        self._short.discard(job_uid)
        self._look(job_uid)

    def _look(self, job_uid: str) -> None:
        job = self._core.store.jobs.get(job_uid)
        if job is None or not self._is_ours(job):
            return
        self._queue[job_uid] = None
        if not self._busy:
            self._busy = True
            self._core.later(self._core.settings.reconcile_seconds, self._turn, OPERATOR)

    def _turn(self) -> None:
        """Reconcile until the queue is empty or the rate limit is reached."""
        if (away := self._away_until - self._core.now) > 0:
            self._core.later(away, self._turn, OPERATOR)
            return
        while self._queue:
            uid = next(iter(self._queue))
            job = self._core.store.jobs.get(uid)
            todo = self._next(job) if job is not None else None
            if todo is None or uid in self._short:
                del self._queue[uid]
                continue
            cost, do = todo
            wait = self._bucket.wait(cost, self._core.now)
            if wait > 0:
                self._core.later(wait, self._turn, OPERATOR)
                return
            do()
        self._busy = False

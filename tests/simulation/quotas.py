"""Check L10: a job that a quota leaves without pods gets them from jobs of its namespace that have grown.

The rule is checked during the storm, too, because quotas end with the storm. The time counts only as long as the
leader's pod works, and is counted from 0 again when one of the job's pods comes. A worker that the leader has decided
to take counts as gone, because other rules check that the decision is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from lab.sim.objects import JobObject, PodObject
from lab.sim.pods.world import SimulatedWorld
from lab.virtual.clocks import loop_time
from policy.cluster.job import WORKER
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Snapshot, resizes_left
from policy.placement.gang import ask_of
from policy.systems.queue import bar, never_fits
from policy.systems.resizing import may_give
from tests.simulation.past import broken

if TYPE_CHECKING:
    from tests.simulation.processes import Replica

# A job may be short of pods for this many seconds: the policy's grace is 5 s, and a watch may be 6 s late.
LIMIT: Final = 20.0
# A job may be short of pods for this many seconds after the leader's own ledger has learnt of it.
KNOWN: Final = 8.0


def _counted(world: SimulatedWorld, job: JobObject) -> list[PodObject]:
    return [pod for pod in world.store.pods_of(job.uid) if pod.active and pod.slot is not None]


def missing(world: SimulatedWorld, job: JobObject) -> int:
    """Return how many pods of the job's minimum do not exist."""
    there = [pod.slot.role for pod in _counted(world, job) if pod.slot is not None]
    asked = {role.name: job.spec.min_workers if role.name == WORKER else role.replicas for role in job.spec.roles}
    return sum(max(0, least - there.count(name)) for name, least in asked.items())


def surplus(world: SimulatedWorld, job: JobObject) -> int:
    """Return how many of the job's worker pods are beyond its minimum and within the number that it asks for."""
    numbers = [pod.slot.index for pod in _counted(world, job) if pod.slot is not None and pod.slot.role == WORKER]
    return sum(1 for index in numbers if job.spec.min_workers <= index < job.spec.workers)


def going(world: SimulatedWorld, namespace: str) -> int:
    """Return how many pods of the namespace will soon be gone: they terminate, or their job no longer asks for them."""
    jobs = {job.uid: job for job in world.store.jobs.values()}
    found = 0
    for pod in world.store.pods.values():
        job = jobs.get(pod.owner)
        extra = job is not None and pod.slot is not None and pod.slot.role == WORKER
        beyond = extra and job is not None and pod.slot is not None and pod.slot.index >= job.spec.workers
        found += pod.namespace == namespace and not pod.phase.value.endswith("ed") and bool(pod.deleted or beyond)
    return found


def waits(job: JobObject) -> bool:
    """Tell whether the job should have pods: it has not ended, its user has not stopped it, and its bounds can be
    read.
    """
    return not (job.phase.ended or job.stopped or job.suspended or broken(job))


def shortage(world: SimulatedWorld, namespace: str) -> int:
    """Return how many of the missing pods of all jobs in the namespace its quota has no room for."""
    if namespace not in world.quotas():
        return 0
    most, used = world.quotas()[namespace]
    wanted = sum(missing(world, job) for job in _jobs(world, namespace))
    return max(0, wanted - (most - used + going(world, namespace))) if wanted else 0


def _jobs(world: SimulatedWorld, namespace: str) -> Iterator[JobObject]:
    return (job for job in world.store.jobs.values() if job.spec.namespace == namespace and waits(job))


class Context(NamedTuple):
    """What the time limit of a job depends on.

    ``stays`` must stay the same for the time to count. ``since`` is the time since which the leader's ledger has had
    the job short of pods, or None if it has not.
    """

    stays: Hashable
    since: float | None = None


class QuotaRule:
    """Checks L10: the leader knows every quota, and a job that is short of pods gets them from jobs that have grown.

    ``denies`` tells whether a job's resizes are refused now.
    """

    def __init__(
        self, world: SimulatedWorld, violated: Callable[[str, str], None], denies: Callable[[str], bool]
    ) -> None:
        self._world, self._violated, self._denies = world, violated, denies
        self._since: dict[str, tuple[Context, float]] = {}
        self.seen = 0  # how often a job was short of pods while other jobs could give workers

    def look(self, leader: Replica) -> None:
        """Check every job that is short of pods now."""
        found = {**dict(self._short(leader)), **dict(self._unknown(leader))}
        now = loop_time()
        for uid, context in found.items():
            known = self._since.get(uid)
            since = known[1] if known is not None and known[0] == context else now
            self.seen += known is None
            self._since[uid] = context, since
            if now - since > (LIMIT if context.since is None else KNOWN):
                job = self._world.store.jobs.get(uid)
                lacks = (
                    f"{job.key} lacks pods, and others could give workers"
                    if job
                    else f"the quota of {uid} is not known"
                )
                self._violated("L10", f"{lacks}, since {now - since:.0f} s")
                self._since[uid] = context, now
        self._since = {uid: kept for uid, kept in self._since.items() if uid in found}

    def _unknown(self, leader: Replica) -> Iterator[tuple[str, Context]]:
        """Yield each namespace whose quota the leader's ledger does not know as it is in the API, with what must stay
        the same.
        """
        if not leader.extender.leads or leader.extender.clock.paused:
            return
        known = leader.extender.live.ledger.snapshot.quotas.values()
        limits = {quota.namespace: quota.hard["pods"] for quota in known}
        for namespace, (most, _) in self._world.quotas().items():
            if limits.get(namespace) != most:
                yield namespace, Context((leader.name, leader.extender.incarnation, most))

    def _short(self, leader: Replica) -> Iterator[tuple[str, Context]]:
        """Yield the UID of each job that lacks pods although others could give workers, with its `Context`."""
        extender, controller = leader.extender, leader.controller
        works = extender.leads and controller.up and not (extender.clock.paused or controller.clock.paused)
        if not works or extender.line.stalled or not extender.live.ledger.policy.base.grows:
            return
        snapshot, now = extender.live.ledger.snapshot, extender.live.ledger.now()
        for namespace in self._world.quotas():
            jobs = sorted(_jobs(self._world, namespace), key=lambda job: job.key)
            short = shortage(self._world, namespace) - sum(_decided(self._world, snapshot, job) for job in jobs)
            givers = [job for job in jobs if self._gives(snapshot, job, jobs, now)]
            given = sum(surplus(self._world, job) - _decided(self._world, snapshot, job) for job in givers)
            if short <= 0 or given < short or resizes_left(snapshot, now) < len(givers):
                continue
            pod = leader.name, extender.incarnation, controller.incarnation, self._world.quotas()[namespace][0]
            for job in jobs:
                if missing(self._world, job) and _starts(snapshot, job, now):
                    yield job.uid, Context((*pod, missing(self._world, job)), snapshot.short.get(_uid(job)))

    def _gives(self, snapshot: Snapshot, job: JobObject, jobs: list[JobObject], now: float) -> bool:
        """Tell whether the leader may shrink the job for each of the other jobs."""
        uid = _uid(job)
        known, gang = snapshot.jobs.get(uid), snapshot.gang(uid)
        if known is None or uid not in snapshot.index.yielding or self._denies(job.uid):
            return False
        others = (snapshot.jobs.get(_uid(other)) for other in jobs if other is not job)
        return all(may_give(snapshot, known, gang, other, now) for other in others if other is not None)


def _starts(snapshot: Snapshot, job: JobObject, now: float) -> bool:
    """Tell whether the leader's ledger has the job waiting for nothing but its pods."""
    known = snapshot.jobs.get(_uid(job))
    if known is None or known.uid not in snapshot.index.waiting:
        return False
    barred = bar(snapshot, known, now)
    fits = never_fits(snapshot, ask_of(snapshot, known, known.min_workers)) is None
    return fits and barred is not None and barred.reason is Reason.WAITING_FOR_PODS


def _decided(world: SimulatedWorld, snapshot: Snapshot, job: JobObject) -> int:
    """Return how many of the workers that the job still asks for the leader has decided to take."""
    gang = snapshot.gang(_uid(job))
    numbers = [pod.slot.index for pod in _counted(world, job) if pod.slot is not None and pod.slot.role == WORKER]
    return sum(1 for index in numbers if gang.admitted and gang.workers <= index < job.spec.workers)


def _uid(job: JobObject) -> str:
    return f"{job.spec.namespace}/{job.uid}"

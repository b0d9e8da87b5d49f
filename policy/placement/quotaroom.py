"""How many more pods the ResourceQuotas of a namespace admit, and which pods its jobs wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from policy.cluster.gang import Gang, State
from policy.cluster.job import WORKER, Job, Role, Slot, queued
from policy.cluster.kept import until_job_changes
from policy.cluster.pod import Pod
from policy.cluster.quota import LIMITS, PODS, Quota, charged, exceeded
from policy.cluster.resources import Resources, total
from policy.cluster.snapshot import Snapshot, is_over, members_there
from policy.cluster.words import in_words


class Pods(NamedTuple):
    """A number of equal pods of one role. charge: what a quota counts for each of them. number: how many they are."""

    role: Role
    charge: Resources
    number: int = 1


# Lacks maps the key of a quota to the names of the resources of which the quota leaves too little.
Lacks = Mapping[str, Collection[str]]


class QuotaRoom:
    """A working copy of the amounts that the ResourceQuotas of one namespace leave unused."""

    def __init__(self, snapshot: Snapshot, namespace: str) -> None:
        self._quotas = [quota for quota in snapshot.quotas.values() if quota.namespace == namespace]
        self._left = {quota.key: dict(quota.left.amounts) for quota in self._quotas}

    def lacks(self, pods: Collection[Pods]) -> Lacks:
        """Return, by the quota's key, the resources of which too little is left to create these pods.

        The result is empty if all of the pods can be created.
        """
        found = {quota.key: exceeded(_counted(quota, pods), self._left[quota.key]) for quota in self._quotas}
        return {key: names for key, names in found.items() if names}

    def take(self, pods: Collection[Pods]) -> None:
        """Take what the quotas count for these pods from the unused amounts, as if the pods were created."""
        self._shift(pods, -1)

    def give(self, pods: Collection[Pods]) -> None:
        """Give what the quotas count for these pods back to the unused amounts, as if the pods were gone."""
        self._shift(pods, 1)

    def how_many(self, role: Role, charge: Resources, most: int) -> int:
        """Return how many pods of that role, each with that charge, can be created, up to ``most``."""
        left = (self._left[quota.key].items() for quota in self._quotas if quota.counts(role))
        shares = [max(0, amount) // charge[name] for amounts in left for name, amount in amounts if charge[name]]
        return min([most, *shares])

    def copy(self) -> QuotaRoom:
        """Return a copy that can be changed without changing this one."""
        made = QuotaRoom.__new__(QuotaRoom)
        made._quotas, made._left = self._quotas, {key: dict(left) for key, left in self._left.items()}
        return made

    def _shift(self, pods: Collection[Pods], sign: int) -> None:
        for quota in self._quotas:
            left, charge = self._left[quota.key], _counted(quota, pods)
            for name in left:
                left[name] += sign * charge[name]


def _counted(quota: Quota, pods: Iterable[Pods]) -> Resources:
    return total(some.charge.times(some.number) for some in pods if quota.counts(some.role))


def adds_to(snapshot: Snapshot, lacks: Lacks, pods: Pods) -> bool:
    """Tell whether a quota would get back some of the resources in ``lacks`` if one of these pods ended."""
    quotas = ((snapshot.quotas[key], names) for key, names in lacks.items())
    return any(quota.counts(pods.role) and any(pods.charge[name] for name in names) for quota, names in quotas)


@until_job_changes
def pod_of_role(snapshot: Snapshot, job: Job, name: str) -> Pods | None:
    """Return what a quota counts for one pod of that role of the job; None if the job has no such role.

    The amounts are those of the role's first pod, to which admission may have added requests and limits; while the role
    has no pod, they are those of the pod template.
    """
    role = job.role(name)
    if role is None:
        return None
    first = next((pod for pod in snapshot.pods_of(job.uid) if pod.slot is not None and pod.slot.role == name), None)
    return Pods(role, charged(role.requests, role.limits) if first is None else charged(first.requests, first.limits))


@until_job_changes
def pods_awaited(snapshot: Snapshot, job: Job) -> tuple[Pods, ...]:
    """Return the pods that the job needs for its minimum and that do not exist yet."""
    there = members_there(snapshot, job).items()
    lacking = ((pod_of_role(snapshot, job, name), least - some) for name, (some, least) in there if some < least)
    return tuple(pods._replace(number=number) for pods, number in lacking if pods is not None)


def waiting_for_pods(snapshot: Snapshot) -> dict[str, list[Job]]:
    """Return the jobs that wait for pods of their minimum to be created, by namespace; earlier arrivals come first.

    Only namespaces with ResourceQuotas are looked at. A job that needs more than a whole quota is left out.
    """
    found = defaultdict[str, list[Job]](list)
    spaces = {quota.namespace for quota in snapshot.quotas.values()}
    for uid in (*snapshot.index.waiting, *snapshot.index.repairing) if spaces else ():
        job = snapshot.jobs[uid]
        awaits = job.namespace in spaces and queued(job) and _awaits_pods(snapshot.gang(uid))
        if awaits and (pods := pods_awaited(snapshot, job)) and not _exceeds(snapshot, job, pods):
            found[job.namespace].append(job)
    return {space: sorted(jobs, key=lambda job: (job.arrival, job.key)) for space, jobs in found.items()}


def beyond_quotas(snapshot: Snapshot) -> Iterator[str]:
    """Yield the uids of the waiting jobs that need more pods than a quota of their namespace allows in all."""
    spaces = {quota.namespace for quota in snapshot.quotas.values()}
    for uid in snapshot.index.waiting if spaces else ():
        job = snapshot.jobs[uid]
        if job.namespace in spaces and _exceeds(snapshot, job, pods_awaited(snapshot, job)):
            yield uid


def _awaits_pods(gang: Gang) -> bool:
    return gang.state is State.WAITING or (gang.state is State.REPAIRING and gang.whole)


def _exceeds(snapshot: Snapshot, job: Job, pods: Collection[Pods]) -> bool:
    quotas = (quota for quota in snapshot.quotas.values() if quota.namespace == job.namespace)
    return any(exceeded(_counted(quota, pods), quota.hard.amounts) for quota in quotas)


def short_of_pods(snapshot: Snapshot, now: float) -> list[str]:
    """Return the uids of the jobs that are short of pods: quotas admit their missing pods neither now nor soon.

    Pods that are leaving (``pods_leaving``) count as gone, and jobs that arrived earlier get their pods first.
    """
    short: list[str] = []
    for space, jobs in waiting_for_pods(snapshot).items():
        room = QuotaRoom(snapshot, space)
        if not room.lacks([pods for job in jobs for pods in pods_awaited(snapshot, job)]):
            continue
        room.give(pods_leaving(snapshot, space, now))
        for job in jobs:
            pods = pods_awaited(snapshot, job)
            if room.lacks(pods):
                short.append(job.uid)
            else:
                room.take(pods)
    return short


def pods_leaving(snapshot: Snapshot, space: str, now: float) -> list[Pods]:
    """Return the pods of the namespace that quotas will soon no longer count.

    They are the terminating pods, except those on a node that is not ready, and the workers beyond their job's target,
    unless the shrink has not been carried out for ``Rules.freeing_seconds``.
    """
    found: list[Pods] = []
    for pod in snapshot.pods.values():
        if pod.namespace == space and not pod.ended and _leaves(snapshot, pod, now):
            job = snapshot.jobs.get(pod.job_uid)
            role = job.role(pod.slot.role) if job is not None and pod.slot is not None else None
            stands_for = role or Role("", 1, pod.requests, limits=pod.limits)
            found.append(Pods(stands_for, charged(pod.requests, pod.limits)))
    return found


def _leaves(snapshot: Snapshot, pod: Pod, now: float) -> bool:
    if pod.terminating:
        node = snapshot.nodes.get(pod.node)
        return not pod.node or (node is not None and node.ready)
    gang = snapshot.gangs.get(pod.job_uid)
    if gang is None or not gang.admitted or pod.slot is None or gang.gives(pod.slot):
        return False
    at = gang.scaling.scaled_at
    return at is not None and now - at < snapshot.rules.freeing_seconds


def workers_to_come(snapshot: Snapshot, job: Job, gang: Gang) -> int:
    """Return how many workers with the highest indices, of those that the job was given, have no pod yet."""
    for index in reversed(range(gang.workers)):
        if worker_pod(snapshot, job, index) is not None or is_over(job, Slot(WORKER, index), None):
            return gang.workers - 1 - index
    return gang.workers


def worker_pod(snapshot: Snapshot, job: Job, index: int) -> Pod | None:
    """Return the job's worker pod of that index if quotas count it; None for one that has ended or is terminating."""
    pod = snapshot.member(job.uid, Slot(WORKER, index))
    return pod if pod is not None and not (pod.ended or pod.terminating) else None


def left_in_words(snapshot: Snapshot, job: Job) -> str:
    """Return in words which quotas leave no room for pods of the job: ``ResourceQuota team/few has 0 of 10 pods left``.

    The pods meant are those of the job's minimum that do not exist yet, or else those of workers that an admitted job
    was given and that do not exist yet.
    """
    gang, worker = snapshot.gang(job.uid), pod_of_role(snapshot, job, WORKER)
    pods = pods_awaited(snapshot, job)
    if worker is not None and not pods and gang.admitted:
        pods = (worker._replace(number=workers_to_come(snapshot, job, gang)),)
    lacks = QuotaRoom(snapshot, job.namespace).lacks(pods)
    said: list[str] = []
    for key, names in lacks.items():
        left, hard = snapshot.quotas[key].left, snapshot.quotas[key].hard
        amounts = (f"{_number(name, max(0, left[name]))} of {_number(name, hard[name])} {name}" for name in names)
        said.append(f"ResourceQuota {key} has {', '.join(amounts)} left")
    return "; ".join(said)


def _number(name: str, amount: int) -> str:
    """Return the amount in words without the resource's name: ``0.5`` for 500 of ``limits.cpu``."""
    if name == PODS:
        return str(amount)
    plain = name.removeprefix(LIMITS)
    return in_words(Resources({plain: amount})).removesuffix(f" {plain}")

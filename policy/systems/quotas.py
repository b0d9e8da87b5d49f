"""The rule of all systems about ResourceQuotas: a quota's room goes to jobs that wait for pods, and only then to
growth.

A job waits for pods when pods of its minimum have not been created. If the quota has no room for them, jobs of the
namespace that have more than their minimum are shrunk, whatever their weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from policy.cluster.actions import Action, Admit, Decision, Remember, Resize
from policy.cluster.frozen import replace
from policy.cluster.gang import State
from policy.cluster.job import WORKER, Job, queued
from policy.cluster.quota import charged
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot, resizes_left
from policy.placement.gang import ask_of
from policy.placement.quotaroom import (
    Pods,
    QuotaRoom,
    adds_to,
    beyond_quotas,
    left_in_words,
    pod_of_role,
    pods_awaited,
    pods_leaving,
    waiting_for_pods,
    worker_pod,
    workers_to_come,
)
from policy.systems.base import Policy
from policy.systems.queue import bar, in_order, never_fits
from policy.systems.resizing import may_give

GRACE_SECONDS: Final = 5.0
"""A job must be short of pods for this long before others are shrunk for it: a new pod and the used amounts of its
quota come by different watches, and not at the same time.
"""
Waiting = Mapping[str, Sequence[Job]]  # A Waiting maps each namespace to its jobs that wait for pods.


def decide(snapshot: Snapshot, policy: Policy, now: float) -> Decision:
    """Return the policy's decision, changed to suit the ResourceQuotas.

    Jobs grow only as far as the quotas have room beside the pods that other jobs wait for. Under a policy that grows
    jobs, jobs are also shrunk for those that have been short of pods for ``GRACE_SECONDS``.
    """
    decision = policy.decide(snapshot, now)
    if not snapshot.quotas:
        return decision
    decision = replace(decision, verdicts={**decision.verdicts, **dict(_verdicts(snapshot, decision))})
    waiting = waiting_for_pods(snapshot)
    if not waiting:
        return decision
    growth = _Growth(snapshot, waiting, admits=policy.base.grows)
    actions = [left for action in decision.actions for left in growth.within(action)]
    if policy.base.grows:
        actions += _Return(snapshot, policy, actions, now).shrinks(waiting)
    return replace(decision, actions=tuple(actions))


def late_moments(snapshot: Snapshot) -> Iterator[float]:
    """Yield, for each job that is short of pods, the time from which other jobs may be shrunk for it.

    The times are in seconds since the epoch.
    """
    return (since + GRACE_SECONDS for since in snapshot.short.values())


def _verdicts(snapshot: Snapshot, decision: Decision) -> Iterator[tuple[str, Verdict]]:
    """Yield the uid and the verdict of each job that is short of pods; the verdict names the quotas without room."""
    for uid in (*snapshot.short, *beyond_quotas(snapshot)):
        known, left = decision.verdicts.get(uid), left_in_words(snapshot, snapshot.jobs[uid])
        if left and known is not None and known.reason is Reason.WAITING_FOR_PODS:
            yield uid, replace(known, detail=f"{known.detail}; {left}")


class _Growth:
    """Cuts the growth in one decision to what the quotas of each namespace leave.

    admits: whether a job may also be started with fewer workers than the policy wants.
    """

    def __init__(self, snapshot: Snapshot, waiting: Waiting, *, admits: bool) -> None:
        self._snapshot, self._waiting, self._admits = snapshot, waiting, admits
        self._rooms: dict[str, QuotaRoom] = {}

    def within(self, action: Action) -> Iterator[Action]:
        """Yield the action, cut to as many new workers as the quotas admit; yield nothing if no change is left."""
        job = self._snapshot.jobs.get(action.job_uid) if isinstance(action, Admit | Resize) else None
        if isinstance(action, Admit | Resize) and job is not None and job.worker and job.namespace in self._waiting:
            yield from self._cut(action, job, self._has(job))
        else:
            yield action

    def _has(self, job: Job) -> int:
        """Return how many workers the job has without this decision: its target, or what its own spec asks for."""
        gang, asked = self._snapshot.gang(job.uid), job.worker.replicas if job.worker else 0
        return gang.workers if gang.admitted else max(asked, job.min_workers)

    def _cut(self, action: Admit | Resize, job: Job, has: int) -> Iterator[Action]:
        pods, more = pod_of_role(self._snapshot, job, WORKER), action.workers - has
        if pods is None or more <= 0 or (isinstance(action, Admit) and not self._admits):
            yield action
            return
        granted = self._room(job.namespace).how_many(pods.role, pods.charge, more)
        if granted < more and action.ps is not None:
            granted = 0  # The policy has chosen the number of ps for all of these workers, so fewer are not given.
        self._room(job.namespace).take([pods._replace(number=granted)])
        given = has + granted
        nodes = {slot: node for slot, node in action.nodes.items() if slot.role != WORKER or slot.index < given}
        if granted or isinstance(action, Admit) or nodes:
            yield action if granted == more else replace(action, workers=given, nodes=nodes)

    def _room(self, space: str) -> QuotaRoom:
        """Return the room that the quotas of the namespace ``space`` have for growth.

        Room for the pods that jobs wait for, and for workers that jobs were given before, is taken from it already.
        """
        if space not in self._rooms:
            room = self._rooms[space] = QuotaRoom(self._snapshot, space)
            for job in self._waiting[space]:
                room.take(pods_awaited(self._snapshot, job))
            for uid in self._snapshot.index.admitted:
                room.take(_to_come(self._snapshot, self._snapshot.jobs[uid], space))
        return self._rooms[space]


def _to_come(snapshot: Snapshot, job: Job, space: str) -> tuple[Pods, ...]:
    """Return the job's workers that have no pod yet, with their charge; empty if the job is in another namespace."""
    pods = pod_of_role(snapshot, job, WORKER) if job.namespace == space else None
    return () if pods is None else (pods._replace(number=workers_to_come(snapshot, job, snapshot.gang(job.uid))),)


class _Return:
    """Shrinks jobs that have more than their minimum for jobs that are short of pods.

    The limits of every shrink apply: how often a job may be shrunk (``TURNS``), how many resizes are made in a time,
    and the job's minimum.
    """

    def __init__(self, snapshot: Snapshot, policy: Policy, actions: Sequence[Action], now: float) -> None:
        self._snapshot, self._policy, self._now = snapshot, policy.base, now
        self._busy = {action.job_uid for action in actions if not isinstance(action, Remember)}
        resized = (one for one in actions if isinstance(one, Resize))
        changed = sum(1 for one in resized if one.workers != snapshot.gang(one.job_uid).workers)
        self._left = resizes_left(snapshot, now) - changed
        self._weight = self._policy.weights(snapshot) or (lambda job: 0.0)

    def shrinks(self, waiting: Waiting) -> Iterator[Resize]:
        """Yield the shrinks by which jobs that have been short of pods for long enough get room for them."""
        for space, jobs in waiting.items():
            late = [job for job in jobs if self._is_late(job)]
            if not late:
                continue
            room = QuotaRoom(self._snapshot, space)
            room.give(pods_leaving(self._snapshot, space, self._now))
            for job in jobs:
                if job.uid not in self._snapshot.short:
                    room.take(pods_awaited(self._snapshot, job))
            for job in in_order(late, self._weight, lambda job: self._policy.starving(job, self._now)):
                yield from self._shrinks_for(job, room)

    def _is_late(self, job: Job) -> bool:
        """Tell whether the job has been short of pods for ``GRACE_SECONDS``, and could start if its pods existed."""
        since = self._snapshot.short.get(job.uid)
        if since is None or self._now - since < GRACE_SECONDS:
            return False
        if self._snapshot.gang(job.uid).state is not State.WAITING:
            return True
        barred = bar(self._snapshot, job, self._now)
        fits = never_fits(self._snapshot, ask_of(self._snapshot, job, job.min_workers)) is None
        return fits and barred is not None and barred.reason is Reason.WAITING_FOR_PODS

    def _shrinks_for(self, job: Job, room: QuotaRoom) -> Iterator[Resize]:
        """Yield the shrinks that make room in the quotas for the job's missing pods, and charge it to ``room``.

        If all the permitted shrinks together do not make enough room, yield nothing.
        """
        pods, gone, taken = pods_awaited(self._snapshot, job), list[Pods](), dict[Job, int]()
        trial = room.copy()
        for victim in self._victims(job):
            if trial.lacks(pods):
                count, given = self._gives(victim, trial, pods)
                gone += given
                taken |= {victim: count} if count else {}
        if trial.lacks(pods) or len(taken) > self._left:
            return
        room.give(gone)
        room.take(pods)
        self._left -= len(taken)
        for victim, count in taken.items():
            self._busy.add(victim.uid)
            workers = self._snapshot.gang(victim.uid).workers - count
            yield Resize(victim.uid, workers, on_behalf_of=job.uid)

    def _victims(self, job: Job) -> list[Job]:
        """Return the jobs that may be shrunk, in this order: those with workers that have no pod yet, then by least
        weight, then by latest arrival.
        """
        snapshot, now = self._snapshot, self._now
        jobs = (snapshot.jobs[uid] for uid in snapshot.index.yielding if uid not in self._busy)
        found = [
            victim
            for victim in jobs
            if victim.namespace == job.namespace and victim.uid != job.uid and queued(victim)
            and may_give(snapshot, victim, snapshot.gang(victim.uid), job, now)
        ]  # fmt: skip

        def rank(victim: Job) -> tuple[bool, float, float, str]:
            whole = not workers_to_come(snapshot, victim, snapshot.gang(victim.uid))
            return whole, self._weight(victim), -victim.arrival, victim.key

        return sorted(found, key=rank)

    def _gives(self, victim: Job, trial: QuotaRoom, pods: Sequence[Pods]) -> tuple[int, list[Pods]]:
        """Return how many workers the victim loses so that ``pods`` fit into the quotas, and the pods that go with
        them.

        The workers with the highest indices go first. No more are taken once ``pods`` fit, or once a worker would free
        no resource that is lacking. The room of their pods is given back to ``trial``. A worker without a pod is taken
        as well, because its pod would be created in the room that becomes free.
        """
        gone: list[Pods] = []
        gang, role = self._snapshot.gang(victim.uid), victim.worker
        for index in reversed(range(victim.min_workers, gang.workers)):
            pod, lacks = worker_pod(self._snapshot, victim, index), trial.lacks(pods)
            given = Pods(role, charged(pod.requests, pod.limits)) if pod is not None and role is not None else None
            if given is not None and not adds_to(self._snapshot, lacks, given):
                return gang.workers - 1 - index, gone
            if given is not None:
                trial.give([given])
                gone.append(given)
        return gang.workers - victim.min_workers, gone

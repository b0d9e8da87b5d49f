"""Which jobs a system may consider now, why the others are barred whatever the system, and who comes before whom."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

from policy.cluster.gang import State
from policy.cluster.model import Job
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot, missing_pods
from policy.placement.gang import Ask, ask_of, fits
from policy.placement.room import Room
from policy.systems.base import Policy


@runtime_checkable
class Weighs(Protocol):
    """A system that orders its queue by weight."""

    def weights(self, snapshot: Snapshot) -> Callable[[Job], float]:
        """The weight that is compared, of any job. The nodes are looked at once, so ask once and weigh many."""
        ...

    def published(self, weight: float) -> float:
        """That weight as people are shown it."""
        ...

    def starving(self, job: Job, now: float) -> bool:
        """Whether the job goes before every weight."""
        ...


@runtime_checkable
class Based(Protocol):
    """A system that leaves the queue to another one beneath it."""

    @property
    def base(self) -> Policy:
        """The one beneath."""
        ...


def weigher(policy: Policy) -> Weighs | None:
    """The system that orders the queue by weight, itself or the one beneath; None where nobody weighs."""
    if isinstance(policy, Based):
        return weigher(policy.base)
    return policy if isinstance(policy, Weighs) else None


def in_order(jobs: Iterable[Job], weight: Callable[[Job], float], starving: Callable[[Job], bool]) -> list[Job]:
    """Starved jobs before every weight, then the heaviest; among equals the one that came first."""
    return sorted(jobs, key=lambda job: (-math.inf if starving(job) else -weight(job), job.arrival, job.key))


def asked_workers(job: Job) -> int:
    """The workers that a job is given where nobody scales it: what it asks for, within its bounds."""
    return min(max(job.worker.replicas, job.min_workers), job.max_workers) if job.worker else 0


@dataclass(frozen=True, slots=True)
class Queue:
    """``ready``: jobs that could start if there were room, by arrival. ``barred``: why the others cannot (by uid)."""

    ready: tuple[Job, ...]
    barred: Mapping[str, Verdict]


def queue(snapshot: Snapshot, now: float) -> Queue:
    """Sort the waiting jobs into those a system may admit and those that it may not."""
    could = Feasible(snapshot)
    found = {job.uid: (job, bar(snapshot, job, now, could)) for job in snapshot.waiting()}
    ready = sorted((job for job, verdict in found.values() if verdict is None), key=lambda j: (j.arrival, j.key))
    return Queue(tuple(ready), {uid: verdict for uid, (_, verdict) in found.items() if verdict is not None})


class Feasible:
    """Why waiting alone would never give a gang its room, or None; asked again only when nodes or kept pods change."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[Ask, Verdict | None] = snapshot.index.memo.empty

    def __call__(self, job: Job) -> Verdict | None:
        """The reason, or None where the gang fits at its minimum once nothing else runs."""
        ask = ask_of(self._snapshot, job, job.min_workers)
        if ask not in self._known:
            never = self._judge(ask)
            self._known[ask] = Verdict(never, ask.text) if never is not None else None
        return self._known[ask]

    def _judge(self, ask: Ask) -> Reason | None:
        if fits(self._running, ask):
            return None
        if fits(self._empty, ask):
            return Reason.ROOM_HELD
        if ask.barred:
            return Reason.NODE_NOT_OFFERED
        return Reason.ROOM_OF_OTHERS if fits(Room.bare(self._snapshot), ask) else Reason.TOO_LARGE

    @cached_property
    def _running(self) -> Room:
        return Room.without_running(self._snapshot)

    @cached_property
    def _empty(self) -> Room:
        return Room.without_jobs(self._snapshot)


def bar(snapshot: Snapshot, job: Job, now: float, feasible: Feasible) -> Verdict | None:
    """Why the job cannot be considered at all, or None."""
    known, question = snapshot.index.memo.job(job.uid), ("what bars it", snapshot.rules.largest_gang)
    if question not in known:
        known[question] = _lasting(snapshot, job)
    lasting: Verdict | None = known[question]
    if lasting is not None:
        return lasting
    gang = snapshot.gang(job.uid)
    if now < gang.not_before:
        return Verdict(Reason.BACKING_OFF, f"attempt {gang.attempts} failed")
    return feasible(job)


def _lasting(snapshot: Snapshot, job: Job) -> Verdict | None:
    """What bars the job until it, its gang or its pods change."""
    if job.released or snapshot.gang(job.uid).state is State.RELEASING:
        return Verdict(Reason.RELEASING)
    if unsupported := sorted({name for role in job.roles for name in role.unsupported}):
        return Verdict(Reason.UNSUPPORTED, ", ".join(unsupported))
    if job.size > snapshot.rules.largest_gang:
        return Verdict(Reason.WINDOW_TOO_SHORT, f"{job.size} members, largest gang {snapshot.rules.largest_gang}")
    missing = missing_pods(snapshot, job)
    return Verdict(Reason.WAITING_FOR_PODS, missing) if missing else None

"""Which jobs a system may consider now, and why the others are barred whatever the system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policy.cluster.gang import State
from policy.cluster.model import Job
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot, missing_pods
from policy.placement.gang import Ask, ask_of, place
from policy.placement.room import Room


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
    """Why waiting alone would never give a gang its room, or None; equal gangs are tried once per decision."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._running: Room | None = None
        self._empty: Room | None = None
        self._known: dict[Ask, Reason | None] = {}

    def __call__(self, job: Job) -> Reason | None:
        """The reason, or None where the gang fits at its minimum once nothing else runs."""
        ask = ask_of(self._snapshot, job, job.min_workers)
        if ask not in self._known:
            self._known[ask] = self._judge(ask)
        return self._known[ask]

    def _judge(self, ask: Ask) -> Reason | None:
        if self._running is None:
            self._running = Room.without_running(self._snapshot)
        if place(self._running, ask) is not None:
            return None
        if self._empty is None:
            self._empty = Room.without_jobs(self._snapshot)
        if place(self._empty, ask) is not None:
            return Reason.ROOM_HELD
        return Reason.NODE_NOT_OFFERED if ask.barred else Reason.TOO_LARGE


def bar(snapshot: Snapshot, job: Job, now: float, feasible: Feasible) -> Verdict | None:
    """Why the job cannot be considered at all, or None."""
    gang = snapshot.gang(job.uid)
    if gang.state is State.RELEASING:
        return Verdict(Reason.RELEASING)
    if unsupported := sorted({name for role in job.roles for name in role.unsupported}):
        return Verdict(Reason.UNSUPPORTED, ", ".join(unsupported))
    if job.size > snapshot.rules.largest_gang:
        return Verdict(Reason.WINDOW_TOO_SHORT, f"{job.size} members, largest gang {snapshot.rules.largest_gang}")
    if missing := missing_pods(snapshot, job):
        return Verdict(Reason.WAITING_FOR_PODS, missing)
    if now < gang.not_before:
        return Verdict(Reason.BACKING_OFF, f"attempt {gang.attempts} failed")
    never = feasible(job)
    return Verdict(never, ask_of(snapshot, job, job.min_workers).text) if never is not None else None

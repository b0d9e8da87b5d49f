"""Which jobs a system may consider now, and why the others are barred whatever the system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policy.cluster.gang import State
from policy.cluster.model import WORKER, Job
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot
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
    """Whether a gang at its minimum would fit if no other job ran; equal gangs are tried once per decision."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._room: Room | None = None
        self._known: dict[Ask, bool] = {}

    def __call__(self, job: Job) -> bool:
        ask = ask_of(self._snapshot, job, job.min_workers)
        if ask not in self._known:
            self._room = self._room or Room.without_jobs(self._snapshot)
            self._known[ask] = place(self._room, ask) is not None
        return self._known[ask]


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
    if not feasible(job):
        return Verdict(Reason.TOO_LARGE if not _learned(snapshot, job) else Reason.NODE_NOT_OFFERED)
    return None


def missing_pods(snapshot: Snapshot, job: Job) -> str:
    """Which of the gang's minimum do not exist yet, role by role (``worker 1 of 2``); empty when all do."""
    living = [slot for slot, uid in snapshot.members.get(job.uid, {}).items() if not snapshot.pods[uid].terminating]
    wanted = {role.name: role.replicas for role in job.rigid} | ({WORKER: job.min_workers} if job.worker else {})
    counts = {name: sum(1 for slot in living if slot.role == name) for name in wanted}
    return ", ".join(f"{name} {counts[name]} of {wanted[name]}" for name in wanted if counts[name] < wanted[name])


def _learned(snapshot: Snapshot, job: Job) -> bool:
    return any(uid == job.uid for uid, _ in snapshot.not_offered)

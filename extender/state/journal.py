"""Keeps the journal in memory: what was decided, when, and because of which events; the newest entry is last.

An entry has what a reader could no longer find out later: the names of the jobs and pods that it is about, which may
be deleted, and the direction of a resize, whose effect has only the new number of workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from policy.cluster.actions import Admit, Bind, Effect, NodeForgiven, RefuseBind, Remember, Resize
from policy.cluster.pod import Pod
from policy.cluster.snapshot import Snapshot

RING = 10_000
NO_INPUTS: Mapping[int, Mapping[str, str]] = {}
Direction = Literal["", "in", "out"]
Cause = Literal["rival", "pause", "room", "plan", "repair"]


class Named(NamedTuple):
    """The name and kind of a job. uid: the ledger's identifier of the job."""

    uid: str
    namespace: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Subject:
    """The job and pod that one effect is about.

    namespace: the namespace of the job, or of a pod that belongs to no job. pod: the pod's name, empty if the effect is
    about no pod. rival: the waiting job for which ``job`` was resized. awaited: the jobs (``namespace/name``) whose
    pods must go before the plan can be bound.
    """

    namespace: str = ""
    job: Named | None = None
    pod: str = ""
    rival: Named | None = None
    awaited: tuple[str, ...] = ()


NOBODY = Subject()


def subject_of(effect: Effect, snapshots: Sequence[Snapshot]) -> Subject:
    """Return the job and pod that the effect is about.

    snapshots: the snapshot after the step and the snapshot before it; job and pod are looked up in the first, then in
    the second.
    """
    match effect:
        case Remember() | NodeForgiven():
            return NOBODY
        case Bind() | RefuseBind():
            pod = _pod(effect.uid, snapshots)
            return Subject(pod.namespace, _job(pod.job_uid, snapshots), pod.name) if pod is not None else NOBODY
        case Admit():
            namespace = effect.job_uid.partition("/")[0]
            return Subject(namespace, _job(effect.job_uid, snapshots), awaited=_owners(effect.waits_for, snapshots))
        case _:
            rival = getattr(effect, "on_behalf_of", "")
            namespace = effect.job_uid.partition("/")[0]
            return Subject(namespace, _job(effect.job_uid, snapshots), rival=_job(rival, snapshots))


def _owners(pods: Iterable[str], snapshots: Sequence[Snapshot]) -> tuple[str, ...]:
    found = (pod for uid in pods if (pod := _pod(uid, snapshots)) is not None)
    jobs = (_job(uid, snapshots) for uid in {pod.job_uid for pod in found})
    return tuple(sorted(f"{job.namespace}/{job.name}" for job in jobs if job is not None))


def _pod(uid: str, snapshots: Sequence[Snapshot]) -> Pod | None:
    return next((pod for snapshot in snapshots if (pod := snapshot.pods.get(uid)) is not None), None)


def _job(uid: str, snapshots: Sequence[Snapshot]) -> Named | None:
    found = (job for snapshot in snapshots if (job := snapshot.jobs.get(uid)) is not None)
    job = next(found, None)
    return Named(job.uid, job.namespace, job.name, job.kind) if job is not None else None


@dataclass(frozen=True, slots=True)
class Entry:
    """One effect of one step.

    sequence: the number of the entry; numbers have no gaps. at: seconds since the epoch. generation: the number of the
    step, which is the same for all effects that were decided together. cause: the kinds of the events that the step
    applied. inputs: the figures from which the effect was decided, by name. subject: the job and pod that the effect is
    about. way: the direction of a resize, empty for other effects.
    """

    sequence: int
    at: float
    generation: int
    cause: tuple[str, ...]
    effect: Effect
    inputs: Mapping[str, str] = field(default_factory=dict)
    subject: Subject = NOBODY
    way: Direction = ""


class Journal:
    """The last ``size`` entries, numbered without gaps from 1 since the start of the process."""

    def __init__(self, size: int = RING) -> None:
        self._entries: deque[Entry] = deque(maxlen=size)
        self._next = 1

    def write(
        self,
        at: float,
        generation: int,
        cause: Sequence[str],
        effects: Sequence[Effect],
        inputs: Mapping[int, Mapping[str, str]] = NO_INPUTS,
        snapshots: Sequence[Snapshot] = (),
    ) -> None:
        """Append one step's effects.

        cause: the kinds of the step's events. inputs: the figures of each effect, by its index in ``effects``.
        snapshots: the snapshot after the step, then the snapshot before the step.
        """
        kinds = tuple(dict.fromkeys(cause))
        before = snapshots[1] if len(snapshots) > 1 else None
        for place, (effect, way) in enumerate(zip(effects, ways(effects, before), strict=True)):
            subject, figures = subject_of(effect, snapshots), inputs.get(place, {})
            self._entries.append(Entry(self._next, at, generation, kinds, effect, figures, subject, way))
            self._next += 1

    @property
    def latest(self) -> int:
        """Return the number of the newest entry; 0 where there is none."""
        return self._next - 1

    def since(self, sequence: int = 0) -> Iterator[Entry]:
        """Yield the entries after that number, oldest first."""
        return (entry for entry in tuple(self._entries) if entry.sequence > sequence)


def ways(effects: Iterable[Effect], before: Snapshot | None) -> Iterator[Direction]:
    """Yield the direction of each effect of one step: ``in`` for a shrink, ``out`` for a growth.

    The direction is empty for other effects, and for a resize that only gives members other nodes. before: the snapshot
    with which the step began; None if it is not known.
    """
    given: dict[str, int] = {}
    for effect in effects:
        way: Direction = ""
        if isinstance(effect, Resize):
            had = before.gangs.get(effect.job_uid) if before is not None else None
            way = _direction(
                effect, given.get(effect.job_uid, had.workers if had is not None and had.admitted else None)
            )
        if isinstance(effect, Admit | Resize):
            given[effect.job_uid] = effect.workers
        yield way


def _direction(resize: Resize, before: int | None) -> Direction:
    """Return the direction of a resize of a gang that had ``before`` workers.

    If that number is not known (None), the direction follows from the nodes, because only a growth names nodes.
    """
    if before is None:
        return "out" if resize.nodes else "in"
    if before == resize.workers:
        return ""
    return "out" if resize.workers > before else "in"


def cause_of(resize: Resize, way: Direction) -> Cause:
    """Return the cause of a resize.

    ``rival``: for another job that waits. ``pause``: to pause the job. ``room``: to use idle room. ``plan``: the
    policy's own plan. ``repair``: to give members other nodes.
    """
    if resize.pauses:
        return "pause"
    if resize.on_behalf_of:
        return "rival"
    if way == "out":
        return "room"
    return "plan" if way == "in" else "repair"

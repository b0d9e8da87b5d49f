"""Which jobs a system may consider now, why the others are barred whatever the system, and who comes before whom."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from policy.cluster.arranged import Arrangement, Place
from policy.cluster.filing import is_filed
from policy.cluster.gang import Gang, State
from policy.cluster.model import Job
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot, missing_pods
from policy.placement.binding import binding, closed_nodes
from policy.placement.gang import Ask, ask_of, fits
from policy.placement.room import Room

_UID = itemgetter(-1)  # of an entry


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
    lines, barred = line_up(snapshot, now)
    entries = sorted(chain.from_iterable(line.entries for line in lines))
    return Queue(tuple(snapshot.jobs[uid] for _, _, uid in entries), barred)


def next_return(snapshot: Snapshot, now: float) -> float:
    """The first moment from ``now`` on at which a job that backs off may be considered again; infinite without one."""
    return min((at for at in snapshot.index.rests.values() if at >= now), default=math.inf)


class Line(NamedTuple):
    """Waiting jobs with the same demand and mark: if one finds no room, those behind it find none.

    ``ask``: of the gang at its minimum. ``entries``: arrival, key and uid of each, in this order.
    """

    ask: Ask
    mark: Any
    entries: Sequence[tuple[float, str, str]]


def line_up(
    snapshot: Snapshot, now: float, marks: Hashable = None, mark: Callable[[Job], Hashable] | None = None
) -> tuple[list[Line], dict[str, Verdict]]:
    """The jobs that could start if there were room, those that are alike in one line; and why the others cannot.

    ``mark``: what else those in one line have in common, of the job and the nodes alone; ``marks``: its name.
    """

    def places(uid: str) -> tuple[Place, ...]:
        if not is_filed(snapshot.index.waiting, uid):
            return ()
        job = snapshot.jobs[uid]
        entry = (job.arrival, job.key, uid)
        barred = _lasting(snapshot, job)
        if barred is not None:
            return ((barred, entry),)
        return (((ask_of(snapshot, job, job.min_workers), mark(job) if mark else None), entry),)

    memo = snapshot.index.memo
    question = ("lines of the queue", marks, snapshot.rules.largest_gang)
    found = memo.arranged(question, places, lambda: snapshot.index.waiting)
    return _judged(snapshot, now, found)


def _judged(snapshot: Snapshot, now: float, found: Arrangement) -> tuple[list[Line], dict[str, Verdict]]:
    """``found``: under the verdict that bars them whatever the time, or under demand and mark."""
    resting = {uid for uid, at in snapshot.index.rests.items() if now < at}
    feasible, lines, barred = Feasible(snapshot), list[Line](), dict[str, Verdict]()
    for group, filed in found.groups.items():
        if isinstance(group, tuple):
            entries = [entry for entry in filed if entry[-1] not in resting] if resting else filed
            verdict = feasible.of(group[0])
            if verdict is None and entries:
                lines.append(Line(group[0], group[1], entries))
        elif isinstance(group, Verdict):
            entries, verdict = filed, group
        if verdict is not None:
            barred.update(dict.fromkeys(map(_UID, entries), verdict))
        if len(entries) < len(filed):
            barred.update((uid, _backing_off(snapshot.gang(uid))) for *_, uid in filed if uid in resting)
    return lines, barred


class Front:
    """The first job of each line, and the first of them. ``rank``: of a line's job; None: nobody more of this line."""

    def __init__(self, lines: Iterable[Line], rank: Callable[[Line, float, str], Any]) -> None:
        self._lines, self._rank = list(lines), rank
        self._heap: list[tuple[Any, int, int]] = []
        for number in range(len(self._lines)):
            self._come(number, 0)
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def uid(self) -> str:
        """Whose turn it is."""
        _, number, at = self._heap[0]
        return self._lines[number].entries[at][-1]

    @property
    def ask(self) -> Ask:
        """What everybody in that line asks for."""
        return self._lines[self._heap[0][1]].ask

    def leave(self) -> None:
        """The next one, please."""
        _, number, at = heappop(self._heap)
        if at + 1 < len(self._lines[number].entries):
            self._come(number, at + 1)

    def close(self) -> Iterator[str]:
        """The line has no chance any more: it goes, with whose turn it is; the answer is who was in it."""
        _, number, at = heappop(self._heap)
        return map(_UID, self._lines[number].entries[at:])

    def everybody(self) -> Iterator[str]:
        """All that are left."""
        return chain.from_iterable(map(_UID, self._lines[number].entries[at:]) for _, number, at in self._heap)

    def _come(self, number: int, at: int) -> None:
        line = self._lines[number]
        arrival, key, _ = line.entries[at]
        rank = self._rank(line, arrival, key)
        if rank is not None:
            heappush(self._heap, (rank, number, at))


class Feasible:
    """Why waiting alone would never give a gang its room, or None; asked again only when nodes or kept pods change."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[Ask, Verdict | None] = snapshot.index.memo.empty

    def __call__(self, job: Job) -> Verdict | None:
        """The reason, or None where the gang fits at its minimum once nothing else runs."""
        return self.of(ask_of(self._snapshot, job, job.min_workers))

    def of(self, ask: Ask) -> Verdict | None:
        """The same of any gang that asks for this."""
        if ask not in self._known:
            self._known[ask] = self._judge(ask)
        return self._known[ask]

    def _judge(self, ask: Ask) -> Verdict | None:
        if fits(self._running, ask):
            return None
        if fits(self._empty, ask):
            return Verdict(Reason.ROOM_HELD, ask.text)
        if ask.barred:
            return Verdict(Reason.NODE_NOT_OFFERED, ask.text)
        if fits(Room.bare(self._snapshot), ask):
            return Verdict(Reason.ROOM_OF_OTHERS, ask.text)
        every = Room.reopened(self._snapshot)
        if fits(every, ask):
            return Verdict(Reason.NODES_CLOSED, closed_nodes(self._snapshot))
        return Verdict(Reason.TOO_LARGE, "; ".join(binding(every, ask)))

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
    return _backing_off(gang) if now < gang.not_before else feasible(job)


def _backing_off(gang: Gang) -> Verdict:
    why = f": {gang.refused.text}" if gang.refused is not None else ""
    return Verdict(Reason.BACKING_OFF, f"attempt {gang.attempts} failed{why}")


def _lasting(snapshot: Snapshot, job: Job) -> Verdict | None:
    """What bars the job until it, its gang or its pods change."""
    if job.released or snapshot.gang(job.uid).state is State.RELEASING:
        return Verdict(Reason.RELEASING)
    if unsupported := sorted({name for role in job.roles for name in role.unsupported}):
        return Verdict(Reason.UNSUPPORTED, ", ".join(unsupported))
    if job.size > snapshot.rules.largest_gang:
        return Verdict(Reason.WINDOW_TOO_SHORT, f"{job.size} members, largest gang {snapshot.rules.largest_gang}")
    missing = missing_pods(snapshot, job) or _none_to_bind(snapshot, job)
    return Verdict(Reason.WAITING_FOR_PODS, missing) if missing else None


def _none_to_bind(snapshot: Snapshot, job: Job) -> str:
    """A job whose pods have all succeeded, or are going, would hold a plan's room for nobody."""
    free = any(not (pod.node or pod.terminating) for pod in snapshot.pods_of(job.uid))
    return "" if free else "none that is not done"

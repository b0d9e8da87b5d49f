"""The waiting jobs: which of them a system may admit now, why the others are barred, and which job comes first."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple

from policy.cluster.gang import Gang, State
from policy.cluster.job import Job
from policy.cluster.kept import grouped, until_emptied_room_changes, until_job_changes, until_room_changes
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot, ending, missing_pods
from policy.cluster.sortedgroups import GroupEntry, SortedGroups
from policy.placement.ask import Ask
from policy.placement.binding import CLOSED, HELD, OTHERS, REFUSED, closes_nodes
from policy.placement.gang import ask_of
from policy.placement.holders import binding_of_empty, blockers_of_empty

_UID = itemgetter(-1)  # _UID returns the job's uid, which is the last item of every sorted entry.


def in_order(jobs: Iterable[Job], weight: Callable[[Job], float], starving: Callable[[Job], bool]) -> list[Job]:
    """Return the jobs in order: starving ones first, then by weight, the heaviest first; equal ones by arrival."""
    return sorted(jobs, key=lambda job: (-math.inf if starving(job) else -weight(job), job.arrival, job.key))


def asked_workers(job: Job) -> int:
    """Return the number of workers that a job asks for, within its bounds; policies that do not scale give this one."""
    return min(max(job.worker.replicas, job.min_workers), job.max_workers) if job.worker else 0


@dataclass(frozen=True, slots=True)
class Queue:
    """The waiting jobs in two parts.

    ready: the jobs that could start if there were room, by arrival. barred: by uid, the verdict that says why a job
    cannot start whatever the free room.
    """

    ready: tuple[Job, ...]
    barred: Mapping[str, Verdict]


def queue(snapshot: Snapshot, now: float) -> Queue:
    """Return the waiting jobs, divided into those that a system may admit and those that it may not."""
    classes, barred = equivalence_classes(snapshot, now)
    entries = sorted(chain.from_iterable(alike.entries for alike in classes))
    return Queue(tuple(snapshot.jobs[uid] for _, _, uid in entries), barred)


def next_return(snapshot: Snapshot, now: float) -> float:
    """Return the next moment, from ``now`` on, at which a back-off ends; infinite if no job backs off."""
    return min((at for at in snapshot.index.rests.values() if at >= now), default=math.inf)


class EquivalenceClass(NamedTuple):
    """Waiting jobs with the same requests and mark: if one of them finds no room, the later ones find none either.

    ``ask``: the placement request of each of these gangs at its minimum. ``mark``: what the jobs share beside it, such
    as their weight. ``entries``: arrival, key and uid of each job, sorted.
    """

    ask: Ask
    mark: Any
    entries: Sequence[tuple[float, str, str]]


def equivalence_classes(
    snapshot: Snapshot, now: float, marks: Hashable = None, mark: Callable[[Job], Hashable] | None = None
) -> tuple[list[EquivalenceClass], dict[str, Verdict]]:
    """Return the jobs that could start if there were room, grouped into classes, and by uid why the others cannot.

    ``mark``: returns what the jobs of a class share beside their requests, such as their weight; it may depend only on
    the job and the nodes. ``marks``: identifies that function with all its parameters, because its results are cached
    from step to step.
    """
    largest = snapshot.rules.largest_gang

    def place(uid: str) -> tuple[GroupEntry, ...]:
        job = snapshot.jobs[uid]
        barred = _lasting(snapshot, job, largest)
        alike = (ask_of(snapshot, job, job.min_workers), mark(job) if mark else None) if barred is None else barred
        return ((alike, (job.arrival, job.key, uid)),)

    return _judged(snapshot, now, grouped(snapshot, "waiting", (marks, largest), place))


def _judged(snapshot: Snapshot, now: float, waiting: SortedGroups) -> tuple[list[EquivalenceClass], dict[str, Verdict]]:
    """Return the equivalence classes without the jobs that cannot start now, and the verdicts of those jobs by uid.

    ``waiting``: the waiting jobs in groups. The key of a group is either the requests and the mark of an equivalence
    class, or the verdict that bars all jobs of the group until they change.
    """
    resting = {uid for uid, at in snapshot.index.rests.items() if now < at}
    classes, barred = list[EquivalenceClass](), dict[str, Verdict]()
    for group, everybody in waiting.groups.items():
        if isinstance(group, tuple):
            entries = [entry for entry in everybody if entry[-1] not in resting] if resting else everybody
            verdict = never_fits(snapshot, group[0])
            if verdict is None and entries:
                classes.append(EquivalenceClass(group[0], group[1], entries))
        elif isinstance(group, Verdict):
            entries, verdict = everybody, group
        if verdict is not None:
            barred.update(dict.fromkeys(map(_UID, entries), verdict))
        if len(entries) < len(everybody):
            barred.update((uid, _backing_off(snapshot.gang(uid))) for *_, uid in everybody if uid in resting)
    return classes, barred


class WaitingQueue:
    """The waiting jobs in a system's order; only the first job left of each equivalence class is ranked.

    ``rank``: returns the sort key of a job from its class, arrival and key. None: this job and the later jobs of its
    class are left out of the queue.
    """

    def __init__(
        self, classes: Iterable[EquivalenceClass], rank: Callable[[EquivalenceClass, float, str], Any]
    ) -> None:
        self._classes, self._rank = list(classes), rank
        # The heap has an entry for each class: its first job's rank, the class's number, and that job's index in it.
        self._heap: list[tuple[Any, int, int]] = []
        for number in range(len(self._classes)):
            self._push(number, 0)
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def first(self) -> str:
        """The uid of the job that comes first."""
        _, number, at = self._heap[0]
        return self._classes[number].entries[at][-1]

    @property
    def ask(self) -> Ask:
        """The placement request of the first job, which all jobs of its class share."""
        return self._classes[self._heap[0][1]].ask

    def pop(self) -> None:
        """Remove the first job."""
        _, number, at = heappop(self._heap)
        if at + 1 < len(self._classes[number].entries):
            self._push(number, at + 1)

    def pop_class(self) -> Iterator[str]:
        """Remove the first job and all later jobs of its class, and return their uids."""
        _, number, at = heappop(self._heap)
        return map(_UID, self._classes[number].entries[at:])

    def rest(self) -> Iterator[str]:
        """Return the uids of all jobs that are left."""
        return chain.from_iterable(map(_UID, self._classes[number].entries[at:]) for _, number, at in self._heap)

    def _push(self, number: int, at: int) -> None:
        alike = self._classes[number]
        arrival, key, _ = alike.entries[at]
        rank = self._rank(alike, arrival, key)
        if rank is not None:
            heappush(self._heap, (rank, number, at))


WHY: Final = {
    HELD: Reason.ROOM_HELD,
    REFUSED: Reason.NODE_NOT_OFFERED,
    OTHERS: Reason.ROOM_OF_OTHERS,
    CLOSED: Reason.NODES_CLOSED,
}
"""The reason for a gang that does not fit, by the last of its binding constraints; for amounts and rules it is
``TOO_LARGE``. Taints that Kubernetes itself sets on a node count as ``CLOSED``.
"""


@until_emptied_room_changes
def never_fits(snapshot: Snapshot, ask: Ask) -> Verdict | None:
    """Return the verdict of a gang that would not fit even if all running jobs ended; None if it would fit then.

    ``ask``: the gang's placement request.
    """
    found = binding_of_empty(snapshot, ask)
    if found is None:
        return None
    detail = "; and ".join(blocker.text for blocker in blockers_of_empty(snapshot, found))
    last = found.names[-1] if found.names else ""
    return Verdict(WHY.get(CLOSED if closes_nodes(last) else last, Reason.TOO_LARGE), detail)


def bar(snapshot: Snapshot, job: Job, now: float) -> Verdict | None:
    """Return the verdict that says why the job cannot be admitted now, whatever the free room; None if it can."""
    lasting = _lasting_until_change(snapshot, job, snapshot.rules.largest_gang)
    if lasting is not None:
        return lasting
    gang = snapshot.gang(job.uid)
    if now < gang.tries.not_before:
        return _backing_off(gang)
    return never_fits(snapshot, ask_of(snapshot, job, job.min_workers))


def _backing_off(gang: Gang) -> Verdict:
    tries = gang.tries
    why = gang.refused.text if gang.refused is not None else tries.why.fact if tries.why else ""
    what = "the repair" if tries.why is Reason.REPAIR_FAILED else f"attempt {tries.attempts}"
    return Verdict(Reason.BACKING_OFF, f"{what} failed{f': {why}' if why else ''}")


def _lasting(snapshot: Snapshot, job: Job, largest_gang: int) -> Verdict | None:
    """Return the verdict that bars the job from starting until the job, its gang or its pods change.

    The result is None if nothing of that kind bars the job.
    """
    if job.released or snapshot.gang(job.uid).state is State.RELEASING:
        return Verdict(Reason.RELEASING, ending(snapshot, job))
    if unsupported := sorted({name for role in job.roles for name in role.unsupported}):
        return Verdict(Reason.UNSUPPORTED, ", ".join(unsupported))
    if job.size > largest_gang:
        return Verdict(
            Reason.WINDOW_TOO_SHORT,
            f"it has {job.size} members, and the largest gang that can be bound has {largest_gang}",
        )
    missing = missing_pods(snapshot, job) or _none_to_bind(snapshot, job)
    return Verdict(Reason.WAITING_FOR_PODS, missing) if missing else None


# _lasting_until_change caches each job's verdict, for questions about a single job. The sorted groups of waiting jobs
# call _lasting without this cache, because the groups are cached themselves.
_lasting_until_change = until_job_changes(_lasting)


def _none_to_bind(snapshot: Snapshot, job: Job) -> str:
    """Return in words that no pod of the job can be bound; empty if a pod can.

    A job whose pods are all bound, done or terminating must not be planned, because no pod would use the plan's room.
    """
    free = any(not (pod.node or pod.terminating) for pod in snapshot.pods_of(job.uid))
    return "" if free else "all its pods have finished or are terminating"


@until_room_changes
def misfits(snapshot: Snapshot, placement: Hashable) -> set[Ask]:
    """Return the cached set of requests that are known to find no room in the snapshot.

    The caller adds each request that it cannot place. After every change of the room the set is a new, empty one.
    ``placement`` identifies the way in which nodes are chosen, with all its parameters; each way has its own set.
    """
    del snapshot, placement
    return set()

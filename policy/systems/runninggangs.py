"""The running gangs: sorted lists of them that are kept from step to step, and a working copy for one cycle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, MutableMapping
from typing import Any

from policy.cluster.gang import ADMITTED, Gang
from policy.cluster.job import Job, queued
from policy.cluster.kept import grouped
from policy.cluster.snapshot import Snapshot
from policy.cluster.sortedgroups import GroupEntry


def by_uid(job: Job) -> tuple[str]:
    """Return the job's uid in a tuple, as the sort key of jobs with equal figures."""
    return (job.uid,)


def running_by(
    snapshot: Snapshot,
    listed: str,
    name: Hashable,
    figure: Callable[[Job], float],
    entry: Callable[[Job], tuple[Any, ...]] = by_uid,
) -> Mapping[Any, tuple[Any, ...]]:
    """Return running jobs grouped by a figure, such as their weight: a mapping from the figure to sorted entries.

    ``listed``: the jobs that are grouped: "admitted", or "yielding" for those with workers beyond their minimum.
    ``figure``: returns a job's figure; it may depend only on the job and the nodes. ``name``: identifies ``figure``
    with all its parameters, because results are cached from step to step. ``entry``: returns a job's sort key within
    its group, a tuple that ends with the uid.
    """
    jobs = snapshot.jobs

    def place(uid: str) -> tuple[GroupEntry, ...]:
        job = jobs.get(uid)
        return ((figure(job), entry(job)),) if job is not None and queued(job) else ()

    return grouped(snapshot, listed, name, place).groups


class RunningGangs(MutableMapping[str, Gang]):
    """The gangs of all jobs that hold room, by uid, as a cycle has changed them so far.

    The gangs that the snapshot has come first, then those that were admitted in this cycle.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._changed: dict[str, Gang] = {}

    def get(self, uid: str, default: Any = None) -> Any:
        """Return the gang of a job that holds room, otherwise the default."""
        gang = self._changed.get(uid)
        if gang is None:
            gang = self._snapshot.gangs.get(uid)
            job = self._snapshot.jobs.get(uid) if gang is not None and gang.state in ADMITTED else None
            if job is None or not queued(job):
                return default
        return gang

    def __getitem__(self, uid: str) -> Gang:
        gang: Gang | None = self.get(uid)
        if gang is None:
            raise KeyError(uid)
        return gang

    def running(self, uid: str) -> Gang:
        """Return the gang of a job that the caller knows to hold room; this is faster than ``get``."""
        return self._changed.get(uid) or self._snapshot.gangs[uid]

    def __contains__(self, uid: object) -> bool:
        return self.get(uid) is not None  # type: ignore[arg-type]

    def __setitem__(self, uid: str, gang: Gang) -> None:
        self._changed[uid] = gang

    def __delitem__(self, uid: str) -> None:
        raise TypeError("a gang must not be removed while a decision is being made")

    def __iter__(self) -> Iterator[str]:
        jobs = self._snapshot.jobs
        ran = dict.fromkeys(uid for uid in self._snapshot.index.admitted if queued(jobs[uid]))
        return iter([*ran, *(uid for uid in self._changed if uid not in ran)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def listed(self, filed: Collection[str]) -> list[str]:
        """Return the sorted uids of the jobs in ``filed`` that hold room, and of all jobs that this cycle has changed.

        ``filed``: a list of uids from the snapshot's index.
        """
        if not filed:
            return sorted(self._changed)
        return sorted({*(uid for uid in filed if uid in self), *self._changed})

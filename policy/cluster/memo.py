"""A cache of computed answers, so that a step computes only what has changed; ``kept.py`` has the functions to use it.

Snapshots share one memo as long as nothing changes that the answers depend on. After a change, ``Draft`` gives the next
snapshot a memo without the answers that may have changed; so the cache never alters an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, MutableMapping
from typing import Any, TypeVar

from policy.cluster.layered import copied
from policy.cluster.sortedgroups import GroupEntry, SortedGroups

FEW = 1_000
T = TypeVar("T", bound=Hashable)
# _Changes is a linked list of changes, the last one first: the uids of the jobs that changed, and the earlier changes.
_Changes = tuple[Iterable[str], Any] | None


class Memo:
    """A cache of values computed from a snapshot; later snapshots share it while what the values depend on is the same.

    empty: by question, the answers about the cluster as if no job ran. same: maps each value to the first equal object
    that was seen, so that equal values are one object.
    """

    __slots__ = ("_groups", "_jobs", "_tables", "empty", "same")

    MOST_SAME = 10_000

    def __init__(self) -> None:
        self._jobs: MutableMapping[str, dict[Hashable, Any]] = {}
        self._tables: dict[Hashable, dict[str, Any]] = {}
        # _groups has, by question, the last sorted groups, the number of changes since, and the jobs of each change.
        self._groups: dict[Hashable, tuple[SortedGroups, int, _Changes]] = {}
        self.empty: dict[Any, Any] = {}
        self.same: dict[Any, Any] = {}

    def job(self, uid: str) -> dict[Hashable, Any]:
        """Return the cache for answers that depend only on the job, its gang, its pods and the nodes refused to it."""
        found = self._jobs.get(uid)
        if found is None:
            found = self._jobs[uid] = {}
        return found

    def one(self, value: T) -> T:
        """Return the object equal to ``value`` that was given first, so that equal values become the same object."""
        found: T = self.same.setdefault(value, value)
        return found

    def sorted_groups(
        self, question: Hashable, places: Callable[[str], tuple[GroupEntry, ...]], jobs: Callable[[], Iterable[str]]
    ) -> SortedGroups:
        """Return the jobs in sorted groups; later calls look only at jobs that have changed.

        ``question`` identifies the grouping. ``places`` returns the groups of a job (by uid) and its entry in each; it
        may depend on the job, its gang, its pods, its refused nodes and all nodes. ``jobs`` returns all jobs that may
        be in a group; it is called only the first time.
        """
        known = self._groups.get(question)
        found, _, changes = (SortedGroups(), 1, (jobs(), None)) if known is None else known
        if changes is not None:
            found = found.after({uid: places(uid) for uid in _jobs_of(changes)})
            self._groups[question] = found, 0, None
        return found

    def table(self, question: Hashable, most: int) -> dict[str, Any]:
        """Return the cache (key -> answer) of one question, which is kept when facts change.

        The caller must store with each answer what the answer was computed from, and compare that before using the
        answer. A cache with far more than ``most`` entries is replaced by an empty one.
        """
        found = self._tables.get(question)
        if found is None or len(found) > most + FEW:
            found = self._tables[question] = {}
        return found

    def without(self, jobs: Collection[str]) -> Memo:
        """Return a copy of the memo for the next snapshot, without the answers about these jobs, which have changed.

        A copy is needed even if the memo has no answer about them yet: later answers differ for the two snapshots.
        """
        other = self._copy()
        other._jobs = copied(self._jobs)
        for uid in jobs:
            other._jobs.pop(uid, None)
        other._groups = {
            question: (found, count + 1, (jobs, changes))
            for question, (found, count, changes) in self._groups.items()
            # A grouping is dropped if it was not asked for during so many changes that sorting all jobs is cheaper.
            if count <= FEW or count <= FEW + len(found.places)
        }
        return other

    def for_other_room(self, nodes: bool = False) -> Memo:
        """Return a copy of the memo for a snapshot in which foreign pods or nodes have changed.

        The copy lacks the answers about the cluster as if no job ran. If ``nodes`` is true, it lacks the sorted groups,
        too, because they may depend on the nodes.
        """
        other = self._copy()
        other.empty = {}
        other._groups = {} if nodes else dict(self._groups)
        return other

    def _copy(self) -> Memo:
        other = Memo()
        other._jobs, other._tables, other.empty = self._jobs, self._tables, self.empty
        other.same = self.same if len(self.same) < self.MOST_SAME else {}
        return other


def _jobs_of(changes: _Changes) -> set[str]:
    found = set[str]()
    while changes is not None:
        jobs, changes = changes
        found.update(jobs)
    return found

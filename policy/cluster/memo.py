"""Answers that were worked out before, so that each step asks again only about what has changed (see kept.py).

A memo grows when somebody asks, but it never changes what anybody is answered: Draft gives the next snapshot one
without the answers that may be other ones now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, MutableMapping
from typing import Any, TypeVar

from policy.cluster.layered import copied
from policy.cluster.sortedgroups import GroupEntry, SortedGroups

FEW = 1_000
T = TypeVar("T", bound=Hashable)
_Changes = tuple[Iterable[str], Any] | None  # the jobs of the last one, and those before it


class Memo:
    """``empty``: on the cluster without what runs, by gang. ``same``: equal values as one object, compared at once."""

    __slots__ = ("_groups", "_jobs", "_tables", "empty", "same")

    MOST_SAME = 10_000

    def __init__(self) -> None:
        self._jobs: MutableMapping[str, dict[Hashable, Any]] = {}
        self._tables: dict[Hashable, dict[str, Any]] = {}
        # By question: the last answer, and how many changes there were since, with the jobs of each.
        self._groups: dict[Hashable, tuple[SortedGroups, int, _Changes]] = {}
        self.empty: dict[Any, Any] = {}
        self.same: dict[Any, Any] = {}

    def job(self, uid: str) -> dict[Hashable, Any]:
        """Return the answers that hold until the job, its gang, its pods or the nodes that are refused to it change."""
        found = self._jobs.get(uid)
        if found is None:
            found = self._jobs[uid] = {}
        return found

    def one(self, value: T) -> T:
        """Return the first of all values that are equal to this one."""
        found: T = self.same.setdefault(value, value)
        return found

    def sorted_groups(
        self, question: Hashable, places: Callable[[str], tuple[GroupEntry, ...]], jobs: Callable[[], Iterable[str]]
    ) -> SortedGroups:
        """Return jobs in groups, kept up.

        ``places``: the groups of a job; it may look at the job, its gang, its pods, refused nodes and all nodes.
        ``jobs``: all that may be in a group; they are asked for at the first time only.
        """
        known = self._groups.get(question)
        found, _, changes = (SortedGroups(), 1, (jobs(), None)) if known is None else known
        if changes is not None:
            found = found.after({uid: places(uid) for uid in _jobs_of(changes)})
            self._groups[question] = found, 0, None
        return found

    def table(self, question: Hashable, most: int) -> dict[str, Any]:
        """Return answers that say themselves what they were made from: whoever uses one compares that by identity.

        They outlive every change, so a table that has grown far beyond ``most`` begins anew.
        """
        found = self._tables.get(question)
        if found is None or len(found) > most + FEW:
            found = self._tables[question] = {}
        return found

    def without(self, jobs: Collection[str]) -> Memo:
        """Return the memo without these jobs, even where nothing is known of them yet: the two snapshots part here."""
        other = self._copy()
        other._jobs = copied(self._jobs)
        for uid in jobs:
            other._jobs.pop(uid, None)
        other._groups = {
            question: (found, count + 1, (jobs, changes))
            for question, (found, count, changes) in self._groups.items()
            if count <= FEW or count <= FEW + len(found.places)  # else nobody asks it any more
        }
        return other

    def for_other_room(self, nodes: bool = False) -> Memo:
        """Return the memo without answers on the cluster without what runs.

        ``nodes``: also without those that look at the nodes.
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

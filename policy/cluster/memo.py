"""Answers that were worked out before, so that each step asks again only about what has changed.

A memo grows when somebody asks, but never changes what anybody is answered: Draft gives the next snapshot one without
the answers that may be other ones now.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, TypeVar

FEW = 1_000
T = TypeVar("T", bound=Hashable)


class Memo:
    """``empty``: on the cluster without what runs, by gang. ``same``: equal values as one object, compared at once."""

    __slots__ = ("_jobs", "_tables", "empty", "same")

    MOST_SAME = 10_000

    def __init__(self) -> None:
        self._jobs: dict[str, dict[Hashable, Any]] = {}
        self._tables: dict[Hashable, dict[str, Any]] = {}
        self.empty: dict[Any, Any] = {}
        self.same: dict[Any, Any] = {}

    def job(self, uid: str) -> dict[Hashable, Any]:
        """Answers that hold until the job, its gang, its pods or the nodes that are refused to it change."""
        return self._jobs.setdefault(uid, {})

    def one(self, value: T) -> T:
        """The first one of all that are equal to this value."""
        found: T = self.same.setdefault(value, value)
        return found

    def table(self, question: Hashable, most: int) -> dict[str, Any]:
        """Answers that say themselves what they were made from: whoever looks one up must compare that by identity.

        They outlive every change, so a table that has grown beyond ``most`` and a few begins anew.
        """
        found = self._tables.get(question)
        if found is None or len(found) > most + FEW:
            found = self._tables[question] = {}
        return found

    def without(self, jobs: Iterable[str]) -> Memo:
        """The same but for these jobs. Even where nothing is known of them yet: the two snapshots part here."""
        other = self._copy()
        other._jobs = dict(self._jobs)
        for uid in jobs:
            other._jobs.pop(uid, None)
        return other

    def for_other_nodes(self) -> Memo:
        """The same but for answers on the cluster without what runs."""
        other = self._copy()
        other.empty = {}
        return other

    def _copy(self) -> Memo:
        other = Memo()
        other._jobs, other._tables, other.empty = self._jobs, self._tables, self.empty
        other.same = self.same if len(self.same) < self.MOST_SAME else {}
        return other

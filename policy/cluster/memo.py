"""Answers that were worked out before, so that each step asks again only about what has changed.

A memo grows when somebody asks, but never changes what anybody is answered: Draft gives the next snapshot one without
the answers that may be other ones now.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, TypeVar

T = TypeVar("T", bound=Hashable)


class Memo:
    """``empty``: on the cluster without what runs, by gang. ``same``: equal values as one object, compared at once."""

    __slots__ = ("_jobs", "empty", "same")

    MOST_SAME = 10_000

    def __init__(self) -> None:
        self._jobs: dict[str, dict[Hashable, Any]] = {}
        self.empty: dict[Any, Any] = {}
        self.same: dict[Any, Any] = {}

    def job(self, uid: str) -> dict[Hashable, Any]:
        """Answers that hold until the job, its gang, its pods or the nodes that are refused to it change."""
        return self._jobs.setdefault(uid, {})

    def one(self, value: T) -> T:
        """The first one of all that are equal to this value."""
        found: T = self.same.setdefault(value, value)
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
        other._jobs, other.empty = self._jobs, self.empty
        other.same = self.same if len(self.same) < self.MOST_SAME else {}
        return other

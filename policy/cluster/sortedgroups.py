"""Sorted tuples used as sets, and jobs in sorted groups.

Both are updated only for what has changed, so that no step has to sort all jobs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from policy.cluster.layered import copied

E = TypeVar("E", bound=Any)  # E is an entry of a sorted tuple: a name, or a tuple that ends with a name.


def in_sorted(names: tuple[str, ...], name: str) -> bool:
    """Tell whether the sorted tuple has the name."""
    at = bisect_left(names, name)
    return at < len(names) and names[at] == name


def with_changes(old: tuple[E, ...], belongs: Mapping[E, bool]) -> tuple[E, ...]:
    """Return the sorted tuple with the entries that ``belongs`` maps to True, and without those that it maps to False.

    If nothing changes, the same tuple is returned.
    """
    new: list[E] | None = None
    for name, wanted in belongs.items():
        there = old if new is None else new
        at = bisect_left(there, name)
        if (at < len(there) and there[at] == name) is not wanted:
            new = list(old) if new is None else new
            new[at : at + (not wanted)] = [name] if wanted else []
    return old if new is None else tuple(new)


# A group entry is a pair: the key of a group, and the tuple by which one job is sorted there, with the uid at its end.
GroupEntry = tuple[Hashable, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class SortedGroups:
    """Jobs in sorted groups, as an immutable value.

    places: for each job uid, the groups that have the job, each with the job's entry there.
    groups: for each group, its sorted entries.
    """

    places: Mapping[str, tuple[GroupEntry, ...]] = field(default_factory=dict)
    groups: Mapping[Hashable, tuple[tuple[Any, ...], ...]] = field(default_factory=dict)

    def after(self, changed: Mapping[str, tuple[GroupEntry, ...]]) -> SortedGroups:
        """Return the groups after some jobs have changed.

        ``changed`` maps the uid of each changed job to all its groups, with its entry in each; a job without groups is
        removed. If nothing differs from before, the same object is returned.
        """
        moved = {uid: now for uid, now in changed.items() if self.places.get(uid, ()) != now}
        if not moved:
            return self
        moves: dict[Hashable, dict[tuple[Any, ...], bool]] = defaultdict(dict)
        places = copied(self.places)
        for uid, now in moved.items():
            for group, entry in places.get(uid, ()):
                moves[group][entry] = False
            for group, entry in now:
                moves[group][entry] = True
            _put_or_drop(places, uid, now)
        groups = copied(self.groups)
        for group, belongs in moves.items():
            _put_or_drop(groups, group, with_changes(groups.get(group, ()), belongs))
        return SortedGroups(places, groups)

    def uids(self, group: Hashable) -> Iterable[str]:
        """Return the uids of the jobs in the group, in its order."""
        return (entry[-1] for entry in self.groups.get(group, ()))


def _put_or_drop(entries: Any, key: Hashable, value: tuple[Any, ...]) -> None:
    if value:
        entries[key] = value
    else:
        entries.pop(key, None)

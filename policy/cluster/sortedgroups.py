"""Jobs in groups, and each group in an order: kept up job by job, so that not all jobs are sorted at each step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from policy.cluster.layered import copied
from policy.cluster.sortedtuple import with_changes

# A group, and what a job is in it: a tuple that says where it comes, with the job's uid as its last part.
GroupEntry = tuple[Hashable, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class SortedGroups:
    """``places``: the groups of each job, by uid; ``groups``: the entries of each group, in order. It never changes."""

    places: Mapping[str, tuple[GroupEntry, ...]] = field(default_factory=dict)
    groups: Mapping[Hashable, tuple[tuple[Any, ...], ...]] = field(default_factory=dict)

    def after(self, changed: Mapping[str, tuple[GroupEntry, ...]]) -> SortedGroups:
        """Return the groups with these jobs in these places; a job without places is in no group.

        The same object is returned where no job has moved.
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
        """Return the uids of one group, in order."""
        return (entry[-1] for entry in self.groups.get(group, ()))


def _put_or_drop(entries: Any, key: Hashable, value: tuple[Any, ...]) -> None:
    if value:
        entries[key] = value
    else:
        entries.pop(key, None)

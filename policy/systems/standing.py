"""What runs, as a working copy of one pass: changes are laid over the snapshot, and nobody looks at every gang."""

from __future__ import annotations

from collections.abc import Collection, Iterator, MutableMapping
from functools import cached_property

from policy.cluster.gang import Gang
from policy.cluster.model import queued
from policy.cluster.snapshot import Snapshot


class Standing(MutableMapping[str, Gang]):
    """Job uid -> gang of every job that has room, those of the snapshot in order of uid, then those that came."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._changed: dict[str, Gang] = {}

    def __getitem__(self, uid: str) -> Gang:
        gang = self._changed.get(uid)
        return self._ran[uid] if gang is None else gang

    def __contains__(self, uid: object) -> bool:
        return uid in self._changed or uid in self._ran

    @cached_property
    def _ran(self) -> dict[str, Gang]:
        """As the snapshot has it."""
        jobs, gangs = self._snapshot.jobs, self._snapshot.gangs
        return {uid: gangs[uid] for uid in self._snapshot.index.admitted if queued(jobs[uid])}

    def __setitem__(self, uid: str, gang: Gang) -> None:
        self._changed[uid] = gang

    def __delitem__(self, uid: str) -> None:
        raise TypeError("a gang does not stop to have room within a pass")

    def __iter__(self) -> Iterator[str]:
        return iter([*self._ran, *(uid for uid in self._changed if uid not in self._ran)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def among(self, filed: Collection[str]) -> list[str]:
        """Those that the index has filed under something, and all that this pass has changed; by uid."""
        if not filed:
            return sorted(self._changed)
        return sorted({*(uid for uid in filed if uid in self._ran), *self._changed})

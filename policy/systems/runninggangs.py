"""What runs, as a working copy of one cycle: changes are laid over the snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterator, MutableMapping

from policy.cluster.gang import ADMITTED, Gang
from policy.cluster.model import queued
from policy.cluster.snapshot import Snapshot


class RunningGangs(MutableMapping[str, Gang]):
    """Job uid -> gang of every job that has room, those of the snapshot in order of uid, then those that came."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._changed: dict[str, Gang] = {}

    def __getitem__(self, uid: str) -> Gang:
        gang = self._changed.get(uid)
        if gang is None:
            gang = self._snapshot.gangs[uid]
            if not self._ran(uid, gang):
                raise KeyError(uid)
        return gang

    def running(self, uid: str) -> Gang:
        """Return the gang of a job that is known to have room."""
        return self._changed.get(uid) or self._snapshot.gangs[uid]

    def __contains__(self, uid: object) -> bool:
        return uid in self._changed or self._ran(uid, self._snapshot.gangs.get(uid))  # type: ignore[arg-type,call-overload]

    def _ran(self, uid: str, gang: Gang | None) -> bool:
        """Tell whether the snapshot has it among those that have room."""
        job = self._snapshot.jobs.get(uid) if gang is not None and gang.state in ADMITTED else None
        return job is not None and queued(job)

    def __setitem__(self, uid: str, gang: Gang) -> None:
        self._changed[uid] = gang

    def __delitem__(self, uid: str) -> None:
        raise TypeError("a gang does not stop to have room within a pass")

    def __iter__(self) -> Iterator[str]:
        jobs = self._snapshot.jobs
        ran = dict.fromkeys(uid for uid in self._snapshot.index.admitted if queued(jobs[uid]))
        return iter([*ran, *(uid for uid in self._changed if uid not in ran)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def listed(self, filed: Collection[str]) -> list[str]:
        """Return those of a list of the index that have room, and all that this cycle has changed; by uid."""
        if not filed:
            return sorted(self._changed)
        return sorted({*(uid for uid in filed if uid in self), *self._changed})

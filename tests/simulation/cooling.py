"""Check S3: a running job that the policy has shrunk does not grow before its cool-down is over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lab.sim.objects import JobObject
from policy.cluster.actions import Effect, Resize, ShrinkStalled
from policy.cluster.snapshot import Snapshot

ROUNDING: Final = 1e-6
Process = tuple[str, int]
"""A replica, and the incarnation of its extender: what it has shrunk lately is forgotten with it."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """Our last write by which the job lost workers; ``decided`` is when its process last took workers from it."""

    process: Process
    decided: float
    workers: int
    bounds: tuple[int, int]


class CoolDown:
    """Compares accepted writes; ``seconds`` is the cool-down of the current policy, 0 if it has none.

    A growth carries the version that the shrink has made, so it was decided after the shrink. Another process, or
    another term, knows nothing of the cool-down, so its growth may come early. After a user's change, the user decides.
    """

    def __init__(self, violated: Callable[[str], None]) -> None:
        self.seconds = 0.0
        self.compared = 0
        self._violated = violated
        self._targets: dict[Process, Mapping[str, int]] = {}
        self._taken: dict[Process, dict[str, float]] = defaultdict(dict)  # when it last took workers from each job
        self._shrunk: dict[str, Shrunk] = {}

    def stepped(self, process: Process, snapshot: Snapshot, effects: Iterable[Effect], now: float) -> None:
        """Record a process's decisions."""
        if not self.seconds:
            return
        before = self._targets.get(process, {})
        self._targets[process] = {uid: gang.workers for uid, gang in snapshot.gangs.items()}
        if not snapshot.leading:
            self._taken[process].clear()
            return
        for effect in effects:
            if isinstance(effect, ShrinkStalled):  # its workers did not leave, so they are its own again
                self._taken[process].pop(effect.job_uid, None)
            elif isinstance(effect, Resize) and effect.workers < before.get(effect.job_uid, 0):
                self._taken[process][effect.job_uid] = now

    def written(
        self, process: Process, uid: str, job: JobObject, before: int, whole_since: float | None, now: float
    ) -> None:
        """Check a number of workers that the API server accepted from us; ``uid`` is the ledger's for the job."""
        workers, bounds = job.spec.workers, (job.spec.min_workers, job.spec.max_workers)
        last, decided = self._shrunk.pop(uid, None), self._taken[process].get(uid)
        if workers < before:
            if decided is not None:
                self._shrunk[uid] = Shrunk(process, decided, workers, bounds)
            return
        if last is None or (last.process, last.workers, last.bounds) != (process, before, bounds) or decided is None:
            return
        if whole_since is None or whole_since > last.decided:
            return  # it has lost members, and may have been admitted again
        self.compared += 1
        if now - last.decided < self.seconds - ROUNDING:
            self._violated(
                f"{job.key} is grown to {workers} workers {now - last.decided:.1f} s after it was shrunk to {before}: "
                f"its cool-down is {self.seconds:g} s"
            )

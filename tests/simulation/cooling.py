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
"""A replica's name, and how often its extender has been restarted: a restarted extender has forgotten its shrinks."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """Kohort's last write that took workers from a job; ``decided`` is the time at which the writing process decided
    it.
    """

    process: Process
    decided: float
    workers: int
    bounds: tuple[int, int]


class CoolDown:
    """Checks, on the writes that the API server accepted, that no job grows before its cool-down is over.

    ``seconds`` is the cool-down of the current policy, 0 if it has none. A growth is checked only if the process that
    shrank the job makes it in the same term, because no other process knows of the cool-down, and only if no user has
    changed the job since.
    """

    def __init__(self, violated: Callable[[str], None]) -> None:
        self.seconds = 0.0
        self.compared = 0
        self._violated = violated
        self._targets: dict[Process, Mapping[str, int]] = {}
        # process -> job's UID -> the time at which the process last took workers from the job
        self._taken: dict[Process, dict[str, float]] = defaultdict(dict)
        self._shrunk: dict[str, Shrunk] = {}

    def stepped(self, process: Process, snapshot: Snapshot, effects: Iterable[Effect], now: float) -> None:
        """Record which jobs a process has shrunk in a step."""
        if not self.seconds:
            return
        before = self._targets.get(process, {})
        self._targets[process] = {uid: gang.workers for uid, gang in snapshot.gangs.items()}
        if not snapshot.leading:
            self._taken[process].clear()
            return
        for effect in effects:
            # The shrink was taken back, because the workers were not removed in time.
            if isinstance(effect, ShrinkStalled):
                self._taken[process].pop(effect.job_uid, None)
            elif isinstance(effect, Resize) and effect.workers < before.get(effect.job_uid, 0):
                self._taken[process][effect.job_uid] = now

    def written(
        self, process: Process, uid: str, job: JobObject, before: int, whole_since: float | None, now: float
    ) -> None:
        """Check a change of the job's number of workers that the API server accepted from Kohort; ``uid`` is the job's
        UID in the ledger.
        """
        workers, bounds = job.spec.workers, (job.spec.min_workers, job.spec.max_workers)
        last, decided = self._shrunk.pop(uid, None), self._taken[process].get(uid)
        if workers < before:
            if decided is not None:
                self._shrunk[uid] = Shrunk(process, decided, workers, bounds)
            return
        if last is None or (last.process, last.workers, last.bounds) != (process, before, bounds) or decided is None:
            return
        if whole_since is None or whole_since > last.decided:
            # The job has lost members since the shrink, and may have been admitted again, so its growth is not checked.
            return
        self.compared += 1
        if now - last.decided < self.seconds - ROUNDING:
            self._violated(
                f"{job.key} is grown to {workers} workers {now - last.decided:.1f} s after it was shrunk to {before}: "
                f"its cool-down is {self.seconds:g} s"
            )

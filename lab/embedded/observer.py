"""Observes a run in the simulated world: when it ends, its measures, and jobs that hold room but do not compute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from extender.clock import Clock
from lab.embedded.embeddedcluster import EmbeddedCluster
from lab.sim.objects import JobObject, WorldChange
from lab.sim.pods.podmeter import PodMeter
from lab.sim.report import RunResult

LOOK_SECONDS = 1.0
# A run stands still if for this many seconds nothing was written and no job computed.
STILL_SECONDS = 120.0
STILL_REAL_SECONDS = 4.0  # a run counts as standing still only after this many seconds of real time


@dataclass(frozen=True, slots=True)
class RunEnding:
    """How a run ended, with its measures.

    ``stuck`` has (name, pods that hold room, pods asked for) of each job that holds room but does not compute.
    ``stood_still`` is the time at which the run was found to make no more progress, in seconds after the start; None if
    it made progress.
    """

    result: RunResult
    stuck: tuple[tuple[str, int, int], ...] = ()
    stood_still: float | None = None


class RunObserver:
    """Observes a cluster until all jobs have ended, the run stands still, or the horizon (in seconds) is reached."""

    def __init__(self, name: str, cluster: EmbeddedCluster, clock: Clock, horizon: float) -> None:
        self.name = name
        self.cluster = cluster
        self.ended = False
        self.standstill = False
        self.elapsed = 0.0  # elapsed is the time in seconds from the start until now, or until the end of the run
        self._clock = clock
        self._horizon = horizon
        self._still = max(STILL_SECONDS, STILL_REAL_SECONDS * clock.speed)
        self._moved = clock.now()
        self._meter = PodMeter(cluster.world)
        cluster.bridge.observe = self._see

    def _see(self, now: float, changes: list[WorldChange]) -> None:
        if not self.ended:
            self._meter.run_to(now)
            self._meter.look(changes)
        self._moved = now

    async def run(self) -> None:
        """Begin the trace, and observe until the end."""
        self.cluster.begin()
        self.cluster.bridge.advance()
        self._meter = PodMeter(self.cluster.world)
        while not self.ended:
            await self._clock.sleep(LOOK_SECONDS)
            self._look(self._clock.now())

    def _look(self, now: float) -> None:
        cluster = self.cluster
        self.elapsed = min(now - cluster.started, self._horizon)
        waits = len(cluster.jobs) < len(cluster.trace.jobs)
        if waits or any(computes(cluster, job) for job in cluster.jobs):
            self._moved = now
        self.standstill = now - self._moved > self._still and not cluster.all_ended
        self.ended = cluster.all_ended or self.standstill or self.elapsed >= self._horizon

    @property
    def at_work(self) -> float:
        """Return the share of the nodes' CPU in pods that compute now; pods that only hold room do not count."""
        store, world = self.cluster.world.store, self.cluster.world
        given = sum(node.allocatable["cpu"] for node in store.nodes.values())
        members = (uid for job in store.jobs.values() for uid in world.progress(job.uid).members)
        used = sum(store.pods[uid].requests["cpu"] for uid in members if uid in store.pods)
        return used / given if given else 0.0

    def ending(self) -> RunEnding:
        """Return the run's measures; a job that did not finish is counted as if it ended at the horizon."""
        result = self._meter.result(self.name, self._horizon)
        return RunEnding(result, tuple(self.stuck()), self.elapsed if self.standstill else None)

    def stuck(self) -> Iterator[tuple[str, int, int]]:
        """Yield the jobs that hold room but do not compute, as (name, members bound, members asked for)."""
        for job in self.cluster.jobs:
            held = [pod for pod in self.cluster.world.store.pods_of(job.uid) if pod.holds_room]
            if held and not job.phase.ended and not computes(self.cluster, job):
                yield job.spec.name, len(held), len(job.spec.slots)


def computes(cluster: EmbeddedCluster, job: JobObject) -> bool:
    """Tell whether the job trains now."""
    return cluster.world.progress(job.uid).rate > 0

"""What an oracle knows of the jobs of a workload: the exact time of an iteration, and how many are left."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from lab.sim.pollux.profiles import Profile
from lab.sim.pollux.training import iteration_seconds, packed, split
from lab.sim.pollux.workload import PolluxWorkload
from policy.cluster.job import Job


@dataclass(frozen=True, slots=True)
class PolluxOracle:
    """The oracle of Optimus in the artifact; jobs are found by their names."""

    workload: PolluxWorkload
    _profiles: dict[str, Profile] = field(init=False, compare=False, repr=False)
    _known: dict[tuple[str, int, int], float] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Look up the profile of every job once."""
        profiles = {spec.name: self.workload.profiles[spec.model] for spec in self.workload.trace.jobs}
        object.__setattr__(self, "_profiles", profiles)

    def seconds(self, job: Job, workers: int) -> float:
        """Return the time of one iteration on so many GPUs, packed on the fewest nodes.

        On one GPU an iteration has two passes at least, also for a batch that needs only one.
        """
        profile, batch = self._profiles[job.name], self.workload.batches[job.name]
        key = (profile.name, batch, workers)
        if key not in self._known:
            parts = split(profile, batch, workers, accumulates=True)
            self._known[key] = iteration_seconds(profile, packed(workers), parts)
        return self._known[key]

    def left(self, job: Job, done: float) -> float:
        """Return how many iterations are left after the epoch under way; 1 in the last epoch.

        done: the share (0 to 1) of the job's work that is done.
        """
        profile = self._profiles[job.name]
        rows = profile.trainings[self.workload.batches[job.name]]
        epoch = bisect_right(profile.shares, done)
        return rows[-1].iteration - rows[epoch].iteration if epoch < len(rows) - 1 else 1.0

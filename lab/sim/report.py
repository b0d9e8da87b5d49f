"""The results of a run, and the means and sums that the papers report.

A job that was terminated has a short completion time. Therefore ``finished`` is always reported beside a mean, and
``charged_jct_seconds`` counts every unfinished job until the horizon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """One job's outcome; times are in seconds after the start.

    ``started`` is when it first computed. A job that has neither finished nor been terminated or rejected was open at
    the horizon. ``pairs`` counts the ps-worker pairs that were ever bound, ``cross_pairs`` those across two nodes.

    Only the job-level simulator measures the following. ``scaling_seconds`` is the time in which the job stopped for a
    change of members or a move, ``running_seconds`` the time of computing. ``ideal_seconds`` is how long its work takes
    with the workers asked for, together and alone on one node. ``utility`` and ``lateness`` (slots after the target;
    negative is early) belong to a finished job with a utility curve.
    """

    name: str
    arrival: float
    started: float | None
    ended: float
    finished: bool
    terminated: bool = False
    resizes: int = 0
    pairs: int = 0
    cross_pairs: int = 0
    rejected: bool = False
    moves: int = 0
    scaling_seconds: float = 0.0
    running_seconds: float | None = None
    ideal_seconds: float | None = None
    utility: float | None = None
    lateness: float | None = None

    @property
    def jct_seconds(self) -> float:
        """Return the job completion time: from arrival to the end, however the job ended."""
        return self.ended - self.arrival

    @property
    def waiting_seconds(self) -> float:
        """Return the time in which the job neither computed nor stopped for a change.

        Where running time is not measured, this is the time from arrival until the job first computed.
        """
        if self.running_seconds is not None:
            return self.jct_seconds - self.scaling_seconds - self.running_seconds
        return (self.started if self.started is not None else self.ended) - self.arrival

    @property
    def slowdown(self) -> float | None:
        """Return the completion time divided by the ideal one, or None for a job that did not finish."""
        return self.jct_seconds / self.ideal_seconds if self.finished and self.ideal_seconds else None


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """The shares of one resource's capacity over time: the share in any pod of a job, and in pods of gangs that
    computed.
    """

    held: float
    computing: float


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one run.

    ``utilisation`` is the share of the nodes' CPU, over the makespan, in gangs that compute, and ``held`` the share in
    any pod of a job. ``use`` has both by resource. ``fragmentation`` is the mean share of free room in which no typical
    worker fits; the typical worker has the request that most workers of the trace have, and the share is measured in
    the resource of which it takes most. Only the job-level simulator measures ``use`` and ``fragmentation``.
    """

    policy: str
    jobs: tuple[JobOutcome, ...]
    makespan_seconds: float
    utilisation: float
    held: float
    horizon_seconds: float
    use: Mapping[str, ResourceUse] = field(default_factory=dict)
    fragmentation: float = 0.0

    @property
    def finished(self) -> int:
        """Return the number of jobs that did all of their work."""
        return sum(1 for job in self.jobs if job.finished)

    @property
    def never_finished(self) -> tuple[str, ...]:
        """Return the names of the jobs that were terminated or open at the horizon."""
        return tuple(job.name for job in self.jobs if not job.finished)

    @property
    def mean_jct_seconds(self) -> float:
        """Return the mean completion time; a terminated job counts with its time until termination."""
        return _mean(job.jct_seconds for job in self.jobs)

    @property
    def charged_jct_seconds(self) -> float:
        """Return the mean completion time, in which each unfinished job counts until the horizon."""
        return _mean(job.jct_seconds if job.finished else self.horizon_seconds - job.arrival for job in self.jobs)

    @property
    def mean_waiting_seconds(self) -> float:
        """Return the mean of the jobs' waiting times."""
        return _mean(job.waiting_seconds for job in self.jobs)

    @property
    def resizes(self) -> int:
        """Return how often the number of workers was changed after a job's start."""
        return sum(job.resizes for job in self.jobs)

    @property
    def moves(self) -> int:
        """Return the number of migrations of whole jobs."""
        return sum(job.moves for job in self.jobs)

    @property
    def rejected(self) -> int:
        """Return the number of jobs that the policy rejected for good."""
        return sum(1 for job in self.jobs if job.rejected)

    @property
    def mean_scaling_seconds(self) -> float:
        """Return the mean time for which a job stopped for changes of its members."""
        return _mean(job.scaling_seconds for job in self.jobs)

    @property
    def mean_running_seconds(self) -> float:
        """Return the mean time in which a job computed."""
        return _mean(job.running_seconds or 0.0 for job in self.jobs)

    @property
    def total_utility(self) -> float:
        """Return the sum of the finished jobs' utility; a job without a curve counts as zero."""
        return sum(job.utility or 0.0 for job in self.jobs)

    @property
    def mean_lateness_slots(self) -> float | None:
        """Return the mean lateness in slots of finished jobs with a utility curve, or None without any."""
        late = [job.lateness for job in self.jobs if job.lateness is not None]
        return fmean(late) if late else None

    @property
    def fairness(self) -> float:
        """Return Jain's index of the finished jobs' slowdowns: 1 if all are equal, near 1/n if one has nearly all."""
        slowdowns = [job.slowdown for job in self.jobs if job.slowdown is not None]
        squares = sum(value * value for value in slowdowns)
        return sum(slowdowns) ** 2 / (len(slowdowns) * squares) if squares else 1.0

    @property
    def cross_pairs(self) -> int:
        """Return the number of ps-worker pairs that were bound on two nodes."""
        return sum(job.cross_pairs for job in self.jobs)

    @property
    def pairs(self) -> int:
        """Return the number of ps-worker pairs that were bound."""
        return sum(job.pairs for job in self.jobs)

    def to_dict(self) -> dict[str, str | int | float]:
        """Return the run as a row of the table of a comparison."""
        return {
            "name": self.policy,
            "jobs": len(self.jobs),
            "finished": self.finished,
            "mean_jct_seconds": round(self.mean_jct_seconds, 3),
            "makespan_seconds": round(self.makespan_seconds, 3),
            "utilisation": round(self.utilisation, 4),
        }


def reduction(better: RunResult, baseline: RunResult) -> float:
    """Return by which share the mean completion time under ``better`` is below the baseline's, such as 0.84."""
    return 1.0 - better.mean_jct_seconds / baseline.mean_jct_seconds


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return fmean(found) if found else 0.0

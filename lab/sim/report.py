"""Results as values, and the sums over them that the papers print.

A job that was terminated has a short completion time: ``finished`` always stands beside a mean, and
``charged_jct_seconds`` charges every job that did not finish with the horizon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """One job; times in seconds after the start. ``started``: when it first computed. Neither finished, terminated
    nor rejected: it was open at the horizon. pairs: ps-worker pairs that were ever bound, and those across nodes.

    What only the job-level simulator measures: scaling_seconds, standing still for a change of its members or a move;
    running_seconds, computing; ideal_seconds, its work at the workers asked for, alone and together; utility and
    lateness (slots after the target; negative is early) of a finished job that has a utility curve.
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
        """Job completion time: from arrival to its end, whatever the end was."""
        return self.ended - self.arrival

    @property
    def waiting_seconds(self) -> float:
        """Time in which it neither computed nor stood still for a change; else from arrival until it first computed."""
        if self.running_seconds is not None:
            return self.jct_seconds - self.scaling_seconds - self.running_seconds
        return (self.started if self.started is not None else self.ended) - self.arrival

    @property
    def slowdown(self) -> float | None:
        """Completion time over the ideal one, of a job that finished."""
        return self.jct_seconds / self.ideal_seconds if self.finished and self.ideal_seconds else None


@dataclass(frozen=True, slots=True)
class Use:
    """Share of one resource's room over time that was held by pods of jobs, and by those of gangs that computed."""

    held: float
    computing: float


@dataclass(frozen=True, slots=True)
class Result:
    """One run. utilisation: share of the nodes' CPU, over the makespan, in gangs that compute; held: in any pod.

    use: the same by resource; fragmentation: mean share of free room in which no typical worker fits (the request of
    most workers of the trace; measured in the resource that it takes most of). Both of the job-level simulator.
    """

    policy: str
    jobs: tuple[JobOutcome, ...]
    makespan_seconds: float
    utilisation: float
    held: float
    horizon_seconds: float
    use: Mapping[str, Use] = field(default_factory=dict)
    fragmentation: float = 0.0

    @property
    def finished(self) -> int:
        """Jobs whose work was done."""
        return sum(1 for job in self.jobs if job.finished)

    @property
    def never_finished(self) -> tuple[str, ...]:
        """Names of the jobs that were terminated or open at the horizon."""
        return tuple(job.name for job in self.jobs if not job.finished)

    @property
    def mean_jct_seconds(self) -> float:
        """Mean completion time; a terminated job counts with the time until then."""
        return _mean(job.jct_seconds for job in self.jobs)

    @property
    def charged_jct_seconds(self) -> float:
        """Mean completion time where each job that did not finish is charged until the horizon."""
        return _mean(job.jct_seconds if job.finished else self.horizon_seconds - job.arrival for job in self.jobs)

    @property
    def mean_waiting_seconds(self) -> float:
        """Mean time until a job first computed."""
        return _mean(job.waiting_seconds for job in self.jobs)

    @property
    def resizes(self) -> int:
        """Changes of the number of workers after a job's start."""
        return sum(job.resizes for job in self.jobs)

    @property
    def moves(self) -> int:
        """Migrations of whole jobs."""
        return sum(job.moves for job in self.jobs)

    @property
    def rejected(self) -> int:
        """Jobs that the policy refused for good."""
        return sum(1 for job in self.jobs if job.rejected)

    @property
    def mean_scaling_seconds(self) -> float:
        """Mean time that a job stood still for changes of its members."""
        return _mean(job.scaling_seconds for job in self.jobs)

    @property
    def mean_running_seconds(self) -> float:
        """Mean time that a job computed."""
        return _mean(job.running_seconds or 0.0 for job in self.jobs)

    @property
    def total_utility(self) -> float:
        """What the finished jobs are worth by their utility curves; jobs without one are worth nothing."""
        return sum(job.utility or 0.0 for job in self.jobs)

    @property
    def mean_lateness_slots(self) -> float | None:
        """Mean lateness of the finished jobs with a utility curve, in slots after the target; None: there are none."""
        late = [job.lateness for job in self.jobs if job.lateness is not None]
        return fmean(late) if late else None

    @property
    def fairness(self) -> float:
        """Jain's index of the finished jobs' slowdowns: 1 where all are slowed alike, 1/n where one bears it all."""
        slowdowns = [job.slowdown for job in self.jobs if job.slowdown is not None]
        squares = sum(value * value for value in slowdowns)
        return sum(slowdowns) ** 2 / (len(slowdowns) * squares) if squares else 1.0

    @property
    def cross_pairs(self) -> int:
        """Ps-worker pairs that were bound on two nodes."""
        return sum(job.cross_pairs for job in self.jobs)

    @property
    def pairs(self) -> int:
        """Ps-worker pairs that were bound at all."""
        return sum(job.pairs for job in self.jobs)

    def to_dict(self) -> dict[str, str | int | float]:
        """The row of a comparison."""
        return {
            "name": self.policy,
            "jobs": len(self.jobs),
            "finished": self.finished,
            "mean_jct_seconds": round(self.mean_jct_seconds, 3),
            "makespan_seconds": round(self.makespan_seconds, 3),
            "utilisation": round(self.utilisation, 4),
        }


def reduction(better: Result, baseline: Result) -> float:
    """By which share the mean completion time is lower: 0.84 is the paper's "reduced by 84 %"."""
    return 1.0 - better.mean_jct_seconds / baseline.mean_jct_seconds


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return fmean(found) if found else 0.0

"""Results as values, and the sums over them that the papers print.

A job that was terminated has a short completion time: ``finished`` always stands beside a mean, and
``charged_jct_seconds`` charges every job that did not finish with the horizon.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """One job; times in seconds after the start. ``started``: when it first computed. Neither finished nor
    terminated: it was open at the horizon. pairs: ps-worker pairs that were ever bound, and those across nodes.
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

    @property
    def jct_seconds(self) -> float:
        """Job completion time: from arrival to its end, whatever the end was."""
        return self.ended - self.arrival

    @property
    def waiting_seconds(self) -> float:
        """From arrival until it first computed."""
        return (self.started if self.started is not None else self.ended) - self.arrival


@dataclass(frozen=True, slots=True)
class Result:
    """One run. utilisation: share of the nodes' CPU, over the makespan, in gangs that compute; held: in any pod."""

    policy: str
    jobs: tuple[JobOutcome, ...]
    makespan_seconds: float
    utilisation: float
    held: float
    horizon_seconds: float

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

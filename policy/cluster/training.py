"""What a job says of its training (annotation ``kohort.dev/training``) and what its training reports."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

DUST = 1e-9
SLOT_SECONDS = 600.0  # the slot of utility curves, where nobody says how long it is

MOST_TEXT = 4096  # characters of a job's history
MOST_VALUE = 1e15
AHEAD_SECONDS = 60.0  # by which a reporter's clock may be before ours
REPORTS_KEPT = 8  # of a job: the first, and the last seven


class Goal(Enum):
    """Which way the reported metric gets better."""

    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Utility:
    """OASiS's sigmoid (section V): ``value / (1 + exp(steepness * (delay - target)))``; delay and target in slots."""

    value: float
    steepness: float
    target: float

    def at(self, delay: float) -> float:
        """Return what a job is worth that completes so many slots after its arrival. It never overflows."""
        x = self.steepness * (delay - self.target)
        if x > 0:
            return self.value * math.exp(-x) / (1.0 + math.exp(-x))
        return self.value / (1.0 + math.exp(x))

    def ln_at(self, delay: float) -> float:
        """Return the logarithm of that, exact where the value is too small for a float; -inf for no value."""
        if self.value <= 0:
            return -math.inf
        x = self.steepness * (delay - self.target)
        return math.log(self.value) - (x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x)))


@dataclass(frozen=True, slots=True)
class Training:
    """What OASiS and SpeCon need to know of a job (OASiS section III, Table I; its letters in brackets).

    epochs (E), chunks (N), batches: mini-batches of a chunk (M); seconds: of one mini-batch on one worker (tau).
    gradient: megabytes of gradients, and as many of parameters, exchanged for each mini-batch (e).
    worker_bandwidth (b), ps_bandwidth (B): gigabits per second of one worker and one ps.
    all_reduce: the workers exchange gradients among themselves and there is no ps.
    goal: of the metric that the job reports (SpeCon). alpha: its own categorisation threshold, in the unit of SpeCon's
    setting (its section V-A lets the owner choose); None: the setting's.
    """

    epochs: int = 1
    chunks: int = 1
    batches: int = 1
    seconds: float = 1.0
    gradient: float = 0.0
    worker_bandwidth: float = 0.0
    ps_bandwidth: float = 0.0
    utility: Utility | None = None
    all_reduce: bool = False
    goal: Goal = Goal.MIN
    alpha: float | None = None

    @property
    def is_timed(self) -> bool:
        """Whether it states how long it takes; what says only what its metric is like does not."""
        return (self.epochs, self.chunks, self.batches, self.seconds) != (1, 1, 1, 1.0)

    @property
    def step_seconds(self) -> float:
        """The seconds of one mini-batch with its gradients sent and parameters received: tau + 2 e / b.

        For an all-reduce job it is the ring's time with many workers, the most that it can be.
        """
        wire = 2 * 8 * self.gradient / (1000.0 * self.worker_bandwidth) if self.worker_bandwidth > 0 else 0.0
        return self.seconds + wire

    @property
    def worker_seconds(self) -> float:
        """The whole training on one worker."""
        return self.epochs * self.chunks * self.batches * self.step_seconds

    def worker_slots(self, slot_seconds: float) -> int:
        """Return how many worker-slots the training takes: each worker trains whole chunks in a slot (29).

        A chunk that is longer than a slot is trained over several: then it is the sum of constraint (2), rounded up.
        """
        chunks = self.epochs * self.chunks
        chunk = self.batches * self.step_seconds / slot_seconds
        per_slot = math.floor(1.0 / chunk + DUST) if chunk > 0 else chunks
        work = chunks / per_slot if per_slot >= 1 else chunks * chunk
        return max(1, math.ceil(work - DUST))

    @property
    def workers_per_ps(self) -> float:
        """How many workers' bandwidth one ps has (B / b); infinite where it is not stated."""
        if self.worker_bandwidth <= 0 or self.ps_bandwidth <= 0:
            return math.inf
        return self.ps_bandwidth / self.worker_bandwidth


@dataclass(frozen=True, slots=True)
class Report:
    """One report of a job's training. at: seconds since the epoch; done: share of the work in [0, 1] where known."""

    at: float
    metric: float | None = None
    done: float | None = None


def write_reports(reports: Sequence[Report]) -> str:
    """Return a job's history for its annotation: ``[[at, metric, done], ...]``."""
    return json.dumps([[report.at, report.metric, report.done] for report in reports], separators=(",", ":"))


def read_reports(text: str) -> tuple[Report, ...]:
    """Return what ``write_reports`` wrote, oldest first; nothing of a text that somebody has spoilt."""
    try:
        rows = json.loads(text) if len(text) <= MOST_TEXT else []
        reports = tuple(Report(float(at), _number(metric), _number(done)) for at, metric, done in rows)
    except (ValueError, TypeError, RecursionError, OverflowError):
        return ()
    return tuple(sorted(reports, key=lambda report: report.at)) if all(map(_usable, reports)) else ()


def _number(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]


def _usable(report: Report) -> bool:
    """Tell whether the report has numbers only, and a time; a NaN is below nothing."""
    values = (report.metric, report.done)
    return 0 < report.at <= MOST_VALUE and all(value is None or abs(value) <= MOST_VALUE for value in values)


def timed(training: Training | None, chunks: int, seconds: float) -> Training:
    """Return the training; with so many chunks of so many seconds where it does not state how long it takes."""
    if training is not None and training.is_timed:
        return training
    return replace(training or Training(), chunks=chunks, seconds=seconds)

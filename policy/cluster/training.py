"""What a job object states about its training (annotation ``kohort.dev/training``), what the training reports, and how
long it still takes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

DUST = 1e-9
SLOT_SECONDS = 600.0  # SLOT_SECONDS is the length of a time slot of utility curves, unless a setting gives another.

MOST_TEXT = 4096  # An annotation with more than MOST_TEXT characters of reports is ignored.
MOST_VALUE = 1e15
AHEAD_SECONDS = 60.0  # A report's time may be AHEAD_SECONDS in the future, because clocks differ.
REPORTS_KEPT = 8  # Of a job's reports only the first one and the last seven are kept.


class Goal(Enum):
    """Whether the training's metric is better when it is smaller (``MIN``, as a loss) or larger (``MAX``)."""

    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Utility:
    """OASiS's sigmoid utility (its section V): ``value / (1 + exp(steepness * (delay - target)))``.

    ``delay`` and ``target`` are counted in time slots since the job's arrival.
    """

    value: float
    steepness: float
    target: float

    def at(self, delay: float) -> float:
        """Return the utility of the job if it completes ``delay`` time slots after its arrival; never overflows."""
        x = self.steepness * (delay - self.target)
        if x > 0:
            return self.value * math.exp(-x) / (1.0 + math.exp(-x))
        return self.value / (1.0 + math.exp(x))

    def ln_at(self, delay: float) -> float:
        """Return the natural logarithm of ``at(delay)``, also where that is too small for a float.

        It is -inf if ``value`` is not positive.
        """
        if self.value <= 0:
            return -math.inf
        x = self.steepness * (delay - self.target)
        return math.log(self.value) - (x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x)))


@dataclass(frozen=True, slots=True)
class Training:
    """What OASiS and SpeCon need to know about a job (OASiS section III, Table I; its letters in brackets).

    epochs (E): the number of epochs. chunks (N): the number of chunks of data that are trained in each epoch.
    batches (M): how many mini-batches a chunk has. seconds (tau): the time of one mini-batch on one worker.
    gradient (e): megabytes of gradients that a worker sends for each mini-batch; it receives as many of parameters.
    worker_bandwidth (b), ps_bandwidth (B): the bandwidth of one worker and of one ps in gigabits per second.
    utility: the job's utility curve; None if it states none.
    all_reduce: whether the workers exchange gradients among themselves, so that there is no ps.
    goal: whether the metric that the job reports is to become small or large (SpeCon).
    alpha: the job's own categorisation threshold, in the unit of SpeCon's setting (SpeCon's section V-A lets the owner
    choose it); None means that the setting's value counts.
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
        """Whether the job states how long its training takes; it may state only its goal and its alpha."""
        return (self.epochs, self.chunks, self.batches, self.seconds) != (1, 1, 1, 1.0)

    @property
    def step_seconds(self) -> float:
        """The seconds of one mini-batch, with sending its gradients and receiving parameters: tau + 2 e / b.

        For an all-reduce job this is an upper bound: the time that a ring of very many workers takes.
        """
        wire = 2 * 8 * self.gradient / (1000.0 * self.worker_bandwidth) if self.worker_bandwidth > 0 else 0.0
        return self.seconds + wire

    @property
    def worker_seconds(self) -> float:
        """How many seconds the whole training takes on one worker."""
        return self.epochs * self.chunks * self.batches * self.step_seconds

    def worker_slots(self, slot_seconds: float) -> int:
        """Return how many time slots of one worker the whole training takes (OASiS, equation 29).

        A worker trains whole chunks in a time slot of ``slot_seconds``. If one chunk takes longer than a time slot, it
        is trained over several, and the result is the time of all chunks (OASiS, constraint 2), rounded up.
        """
        chunks = self.epochs * self.chunks
        chunk = self.batches * self.step_seconds / slot_seconds
        per_slot = math.floor(1.0 / chunk + DUST) if chunk > 0 else chunks
        work = chunks / per_slot if per_slot >= 1 else chunks * chunk
        return max(1, math.ceil(work - DUST))

    @property
    def workers_per_ps(self) -> float:
        """How many workers the bandwidth of one ps suffices for (B / b); infinity if B or b is not stated."""
        if self.worker_bandwidth <= 0 or self.ps_bandwidth <= 0:
            return math.inf
        return self.ps_bandwidth / self.worker_bandwidth


@dataclass(frozen=True, slots=True)
class Report:
    """One report of a job's training.

    at: its time, in seconds since the epoch. metric: the value of the job's metric. done: the share of the work that is
    done, in [0, 1]. ``metric`` and ``done`` are None if the report does not have them.
    """

    at: float
    metric: float | None = None
    done: float | None = None


def write_reports(reports: Sequence[Report]) -> str:
    """Return a job's reports as the text of its annotation: ``[[at, metric, done], ...]``."""
    return json.dumps([[report.at, report.metric, report.done] for report in reports], separators=(",", ":"))


def read_reports(text: str) -> tuple[Report, ...]:
    """Return the reports in a text of ``write_reports``, oldest first; none if anything in the text is malformed."""
    try:
        rows = json.loads(text) if len(text) <= MOST_TEXT else []
        reports = tuple(Report(float(at), _number(metric), _number(done)) for at, metric, done in rows)
    except (ValueError, TypeError, RecursionError, OverflowError):
        return ()
    return tuple(sorted(reports, key=lambda report: report.at)) if all(map(_usable, reports)) else ()


def _number(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]


def _usable(report: Report) -> bool:
    """Tell whether the report's time is positive and no number is too large, infinite or NaN."""
    values = (report.metric, report.done)
    return 0 < report.at <= MOST_VALUE and all(value is None or abs(value) <= MOST_VALUE for value in values)


def timed(training: Training | None, chunks: int, seconds: float) -> Training:
    """Return the training, with a duration of ``chunks`` chunks of ``seconds`` seconds if the job states none."""
    if training is not None and training.is_timed:
        return training
    return replace(training or Training(), chunks=chunks, seconds=seconds)


def remaining_seconds(reports: Sequence[Report], now: float) -> float | None:
    """Return for how many seconds from ``now`` the job still trains, at the pace between its last two progress reports.

    The result is None if the pace is not known, because there are fewer than two such reports or no progress.
    """
    told = [(report.at, report.done) for report in reports if report.done is not None]
    if len(told) < 2:
        return None
    (before, less), (at, done) = told[-2:]
    pace = (done - less) / (at - before) if at > before else 0.0
    if pace <= 0:
        return None
    return max(0.0, (1.0 - done) / pace - (now - at))

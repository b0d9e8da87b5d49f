"""What a job says of its training (annotation ``kohort.dev/training``) and what its training reports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

MOST_TEXT = 4096  # characters of a job's history
MOST_VALUE = 1e15
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


@dataclass(frozen=True, slots=True)
class Training:
    """What OASiS and SpeCon need to know of a job (OASiS section III, Table I; its letters in brackets).

    epochs (E), chunks (N), batches: mini-batches of a chunk (M); seconds: of one mini-batch on one worker (tau).
    gradient: megabytes of gradients, and as many of parameters, exchanged for each mini-batch (e).
    worker_bandwidth (b), ps_bandwidth (B): gigabits per second of one worker and one ps.
    all_reduce: the workers exchange gradients among themselves and there is no ps.
    goal: of the metric that the job reports (SpeCon).
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


@dataclass(frozen=True, slots=True)
class Report:
    """One report of a job's training. at: seconds since the epoch; done: share of the work in [0, 1] where known."""

    at: float
    metric: float | None = None
    done: float | None = None


def write_reports(reports: Sequence[Report]) -> str:
    """A job's history for its annotation: ``[[at, metric, done], ...]``."""
    return json.dumps([[report.at, report.metric, report.done] for report in reports], separators=(",", ":"))


def read_reports(text: str) -> tuple[Report, ...]:
    """What ``write_reports`` wrote, oldest first; nothing of a text that somebody has spoilt."""
    try:
        rows = json.loads(text) if len(text) <= MOST_TEXT else []
        reports = tuple(Report(float(at), _number(metric), _number(done)) for at, metric, done in rows)
    except (ValueError, TypeError, RecursionError, OverflowError):
        return ()
    return tuple(sorted(reports, key=lambda report: report.at)) if all(map(_usable, reports)) else ()


def _number(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]


def _usable(report: Report) -> bool:
    """Numbers only, and a time; a NaN is below nothing."""
    values = (report.metric, report.done)
    return 0 < report.at <= MOST_VALUE and all(value is None or abs(value) <= MOST_VALUE for value in values)

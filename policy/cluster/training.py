"""What a job says of its training (annotation ``kohort.dev/training``) and what its training reports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


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

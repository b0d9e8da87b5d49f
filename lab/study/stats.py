"""Compute means with their spread, and paired differences with a confidence interval."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean, quantiles, lowest and highest value over the seeds."""

    mean: float
    p10: float
    p90: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean of the paired differences (this less the first) and its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Tell whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


def spread(values: Sequence[float]) -> Spread:
    """Return the spread; quantiles are linear between ranks."""
    ordered = sorted(values)
    return Spread(fmean(ordered), _quantile(ordered, 0.1), _quantile(ordered, 0.9), ordered[0], ordered[-1])


def paired(first: Sequence[float], other: Sequence[float]) -> PairedDifference:
    """Return the mean difference with its paired percentile bootstrap interval.

    Seeds are drawn with replacement, each with both of its values. The draws have a fixed seed, so the same rows give
    the same interval. With one seed, the interval is the difference itself.
    """
    differences = [b - a for a, b in zip(first, other, strict=True)]
    draw = random.Random(0)
    count = len(differences)
    means = sorted(fmean(draw.choices(differences, k=count)) for _ in range(RESAMPLES)) if count > 1 else differences
    tail = (1 - CONFIDENCE) / 2
    return PairedDifference(fmean(differences), _quantile(means, tail), _quantile(means, 1 - tail))


def _quantile(ordered: Sequence[float], q: float) -> float:
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)

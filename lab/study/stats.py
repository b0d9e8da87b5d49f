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
    """Mean, 10th and 90th percentile, lowest and highest value of a measure over the seeds."""

    mean: float
    p10: float
    p90: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean of the differences (another policy minus the first, seed by seed), and its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Tell whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of the values; quantiles are interpolated linearly between ranks."""
    ordered = sorted(values)
    return Spread(fmean(ordered), _quantile(ordered, 0.1), _quantile(ordered, 0.9), ordered[0], ordered[-1])


def paired(first: Sequence[float], other: Sequence[float]) -> PairedDifference:
    """Return the mean of ``other`` minus ``first``, seed by seed, with a percentile bootstrap interval.

    The bootstrap draws the differences of single seeds with replacement. Its random numbers are fixed, so the same
    values give the same interval. With one seed, both ends of the interval are the difference itself.
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

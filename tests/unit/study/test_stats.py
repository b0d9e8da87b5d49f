"""Spread and paired differences."""

import random
from statistics import fmean, stdev

import pytest

from lab.study.stats import paired, spread


def test_spread_is_linear_between_ranks() -> None:
    found = spread([4.0, 1.0, 3.0, 2.0, 5.0])
    assert (found.mean, found.low, found.high) == (3.0, 1.0, 5.0)
    assert (found.p10, found.p90) == pytest.approx((1.4, 4.6))


def test_the_interval_is_about_as_wide_as_the_students() -> None:
    draw = random.Random(3)
    first = [draw.gauss(100, 20) for _ in range(200)]
    other = [value + draw.gauss(5, 4) for value in first]
    found = paired(first, other)
    differences = [b - a for a, b in zip(first, other, strict=True)]
    half = 1.96 * stdev(differences) / 200**0.5
    assert found.mean == pytest.approx(fmean(differences))
    assert found.low == pytest.approx(found.mean - half, abs=0.15)
    assert found.high == pytest.approx(found.mean + half, abs=0.15)
    assert found.clear


def test_what_differs_by_chance_only_is_not_clear() -> None:
    draw = random.Random(5)
    first, other = ([draw.gauss(100, 20) for _ in range(50)] for _ in range(2))
    assert not paired(first, other).clear


def test_pairing_matters() -> None:
    """Unpaired, a shift of 1 would be lost in a spread of 1,000."""
    first = [1000.0 * index for index in range(30)]
    assert paired(first, [value + 1.0 for value in first]).clear


def test_one_seed_has_no_interval_but_itself() -> None:
    assert paired([3.0], [5.0]) == paired([3.0], [5.0])
    assert (paired([3.0], [5.0]).low, paired([3.0], [5.0]).high) == (2.0, 2.0)


def test_values_without_a_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        paired([1.0, 2.0], [1.0])

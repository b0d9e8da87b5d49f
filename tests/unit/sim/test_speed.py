"""The speed model: n workers beside their ps do n / (1 + a (n - 1)) workers' work; a remote worker counts as rho."""

from itertools import pairwise

import pytest

from lab.sim.speed import training_rate

CASES = {
    "nobody trains": ([], ["x"], 0.1, 0.5, 0.0),
    "one worker beside its ps is the unit": (["x"], ["x"], 0.1, 0.5, 1.0),
    "one worker alone on another node": (["y"], ["x"], 0.1, 0.5, 0.5),
    "two workers: 2 / 1.1": (["x", "x"], ["x"], 0.1, 0.5, 2 / 1.1),
    "five workers with more contention: 5 / 1.8": (["x"] * 5, ["x"], 0.2, 0.5, 5 / 1.8),
    "one of two is remote: 1.5 / 1.1": (["x", "y"], ["x"], 0.1, 0.5, 1.5 / 1.1),
    "remote costs nothing at rho 1": (["x", "y"], ["x"], 0.1, 1.0, 2 / 1.1),
    "two ps, one of them remote for each: 1.5 / 1.1": (["x", "y"], ["x", "y"], 0.1, 0.5, 1.5 / 1.1),
    "without ps every worker counts in full": (["x", "y"], [], 0.1, 0.5, 2 / 1.1),
}


@pytest.mark.parametrize(("workers", "servers", "a", "rho", "want"), CASES.values(), ids=CASES.keys())
def test_training_rate(workers: list[str], servers: list[str], a: float, rho: float, want: float) -> None:
    assert training_rate(workers, servers, a, rho) == pytest.approx(want)


@pytest.mark.parametrize("a", [0.1, 0.2])
def test_more_workers_are_faster_but_each_adds_less(a: float) -> None:
    rates = [training_rate(["x"] * n, ["x"], a) for n in range(1, 9)]
    gains = [after - before for before, after in pairwise(rates)]
    assert all(gain > 0 for gain in gains)
    assert gains == sorted(gains, reverse=True)

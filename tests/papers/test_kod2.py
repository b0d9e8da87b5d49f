"""KOD2 (Jeong and Yu, KTCCS 11(7), 2022): the claims of section 5, in the simulator, as relations with tolerances.

The paper gives neither the jobs' requests nor what ends a deadlocked job of the baseline, and its "up to 84 %" hangs
on just that: every figure here is stated with the baseline's patience D and its retry order. Jobs, patience and
speeds are this project's calibration (policy.sim.traces.kod2).
"""

from __future__ import annotations

from functools import cache
from statistics import fmean

import pytest

from policy.cluster.invariants import violations
from policy.sim.objects import KOHORT
from policy.sim.report import Result, reduction
from policy.sim.run import pod_by_pod, simulate
from policy.sim.service import Step
from policy.sim.traces import kod2, rigid
from policy.sim.world import World
from policy.systems.baselines import FifoPod, Retry
from policy.systems.kod2 import Gate, Kod2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SEEDS = range(20)
HALF_HOUR, HOUR = 1800.0, 3600.0


@cache
def ours(seed: int, gate: Gate = Gate.LOOSE) -> Result:
    """KOD2 on one seed; every step keeps the invariants, and no node ever holds more than it has."""
    faults: list[str] = []

    def look(step: Step, world: World) -> None:
        faults.extend((*violations(step.snapshot), *world.overcommitted()))

    result = simulate(kod2(seed), Kod2(gate=gate), on_step=look)
    assert faults == []
    return result


@cache
def plain(seed: int, retry: Retry, patience: float) -> Result:
    return pod_by_pod(kod2(seed), seed, retry, patience=patience)


def reductions(retry: Retry, patience: float) -> list[float]:
    return [reduction(ours(seed), plain(seed, retry, patience)) for seed in SEEDS]


def gains(retry: Retry, patience: float) -> list[float]:
    return [ours(seed).utilisation / plain(seed, retry, patience).utilisation - 1.0 for seed in SEEDS]


def test_all_ten_jobs_finish_in_every_seed() -> None:
    assert [ours(seed).finished for seed in SEEDS] == [10] * len(SEEDS)


def test_without_gangs_jobs_are_lost_in_nearly_every_seed() -> None:
    losing = [seed for seed in SEEDS if plain(seed, Retry.RANDOM, HALF_HOUR).finished < 10]
    assert len(losing) >= 0.9 * len(SEEDS)


def test_completion_is_sooner_in_every_seed_and_by_60_percent_on_average() -> None:
    found = reductions(Retry.RANDOM, HALF_HOUR)
    assert min(found) > 0.0
    assert fmean(found) >= 0.60


def test_the_papers_84_percent_is_a_best_case_that_needs_a_patient_baseline() -> None:
    found = reductions(Retry.RANDOM, HOUR)
    assert fmean(found) >= 0.75
    assert max(found) >= 0.84


def test_completion_is_35_percent_sooner_than_a_baseline_that_hardly_deadlocks() -> None:
    assert fmean(reductions(Retry.FIFO, HALF_HOUR)) >= 0.35


def test_cpu_utilisation_is_higher_by_92_percent_and_more() -> None:
    assert fmean(gains(Retry.RANDOM, HALF_HOUR)) >= 0.92
    assert fmean(gains(Retry.FIFO, HALF_HOUR)) >= 0.15


def test_the_strict_gate_costs_much_of_the_gain() -> None:
    """Lines 5-17 of Algorithm 1 read literally: nobody starts below the largest running weight, room or not."""
    loose, strict = (fmean(ours(seed, gate).mean_jct_seconds for seed in SEEDS) for gate in (Gate.LOOSE, Gate.STRICT))
    assert all(ours(seed, Gate.STRICT).finished == 10 for seed in SEEDS)
    assert strict > 1.25 * loose


def test_the_baseline_as_a_policy_says_the_same() -> None:
    """``fifo-pod`` goes through the ledger; the plain scheduler above knows nothing of it."""
    found = [simulate(rigid(kod2(seed), KOHORT), FifoPod(Retry.RANDOM, seed), patience=HALF_HOUR) for seed in SEEDS]
    assert fmean(reduction(ours(seed), result) for seed, result in zip(SEEDS, found, strict=True)) >= 0.60
    lost = [fmean(10 - result.finished for result in results) for results in (found, _plain_runs())]
    assert lost[0] == pytest.approx(lost[1], abs=1.0)


def _plain_runs() -> list[Result]:
    return [plain(seed, Retry.RANDOM, HALF_HOUR) for seed in SEEDS]

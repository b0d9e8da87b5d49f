"""Tests of DRS's experiments E1 to E3 on a few seeds.

`make soak` runs all seeds: every limit ("bar") must be met, and every deliberate defect ("mutant") must miss its bars.
"""

from __future__ import annotations

import pytest

from lab.papers.drs import DRAWN, EQUAL, EXPERIMENTS, LATE, drawn_utilities, late_large_job
from lab.papers.experiment import Experiment, with_own_rows
from tests.papers.expected import surprises

FIRST = 1000


@pytest.mark.parametrize(
    ("experiment", "seeds"),
    [(EQUAL, 5), pytest.param(DRAWN, 4, marks=pytest.mark.full), pytest.param(LATE, 4, marks=pytest.mark.full)],
    ids=["E1", "E2", "E3"],
)
def test_every_bar_on_a_few_seeds(experiment: Experiment, seeds: int) -> None:
    rows = [experiment.measure(seed) for seed in range(FIRST, FIRST + seeds)]
    assert [f"{bar.claim}: {bar.value(rows)}" for bar in experiment.bars if not bar.met(rows)] == []


def test_one_job_at_least_has_the_highest_utility_and_the_seed_decides_which() -> None:
    drawn = [tuple(one.utility for one in drawn_utilities(seed).jobs) for seed in range(20)]
    assert all(3.0 in worth for worth in drawn)
    assert len(set(drawn)) > 1


def test_the_late_job_is_the_only_one_of_high_utility() -> None:
    jobs = late_large_job(FIRST).jobs
    assert [one.name for one in jobs if one.utility > 1] == ["job-13"]


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: one.name)
def test_every_bar_is_met_and_every_mutant_caught(experiment: Experiment) -> None:
    seeds = range(FIRST, FIRST + experiment.seeds)
    own = [experiment.measure(seed) for seed in seeds]
    assert surprises(experiment.bars, own) == []
    for mutant in experiment.mutants:
        rows = with_own_rows(own, [mutant.measure(seed) for seed in seeds])
        assert [bar.claim for bar in experiment.bars if bar.claim in mutant.misses and bar.met(rows)] == [], mutant.name

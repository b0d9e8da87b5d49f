"""Tests of DRAGON's experiments: Table 1 and the deadlock on a few seeds.

`make soak` runs all seeds: every limit ("bar") must be met, and every deliberate defect ("mutant") must miss its bars.
"""

from __future__ import annotations

import pytest

from lab.papers.dragon import HUNDRED, TABLE_1
from lab.papers.dragonassumptions import ASSUMPTIONS
from lab.papers.dragondeadlock import DEADLOCK
from lab.papers.experiment import Experiment, with_own_rows
from tests.papers.expected import surprises

FIRST, FEW = 1000, 8
# These limits hold even on eight seeds, over which the default scheduler's mean varies by 5 percentage points.
SURE = (
    "elapsed, DRAGON below locality-only",
    "running, DRAGON below locality-only",
    "waiting, DRAGON below locality-only",
    "GPU use, DRAGON",
    "GPU use, locality-only",
    "jobs that start at once, locality-only",
    "jobs that start at once, DRAGON",
    "least speed-up of a job's running time over kubeflow-spread",
)


def test_table_1() -> None:
    rows = [TABLE_1.measure(seed) for seed in range(FIRST, FIRST + FEW)]
    bars = {bar.claim: bar for bar in TABLE_1.bars}
    assert [claim for claim in SURE if not bars[claim].met(rows)] == []
    assert bars["elapsed, DRAGON below kubeflow-spread"].value(rows) > 55.0


@pytest.mark.full
def test_jobs_deadlock_without_gangs_and_never_with() -> None:
    rows = [DEADLOCK.measure(seed) for seed in range(FIRST, FIRST + 3)]
    assert any(row["without gang/6x4"] for row in rows)
    assert all(row["with gang/2x5"] == row["with gang/6x4"] == 0 for row in rows)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("experiment", [TABLE_1, HUNDRED, DEADLOCK, ASSUMPTIONS], ids=lambda one: one.name)
def test_every_bar_is_met_and_every_mutant_caught(experiment: Experiment) -> None:
    seeds = range(FIRST, FIRST + experiment.seeds)
    own = [experiment.measure(seed) for seed in seeds]
    assert surprises(experiment.bars, own) == []
    for mutant in experiment.mutants:
        rows = with_own_rows(own, [mutant.measure(seed) for seed in seeds])
        assert [bar.claim for bar in experiment.bars if bar.claim in mutant.misses and bar.met(rows)] == [], mutant.name

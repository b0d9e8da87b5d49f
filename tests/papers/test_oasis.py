"""Tests of OASiS's experiments (lab/papers/oasis.py) on a few seeds.

`make soak` runs all seeds: every limit ("bar") must be met, and every deliberate defect ("mutant") must miss its bars.
"""

from __future__ import annotations

from functools import cache

import pytest

from lab.papers.experiment import Experiment
from lab.papers.oasis import EXPERIMENTS, SLOTS, TESTBED
from lab.papers.oasis_jobs import SLOT_SECONDS, Draw, trace
from lab.papers.oasis_optimum import CASES, known
from lab.papers.oasis_world import oasis, run
from lab.sim.fluid.fluidrun import simulate
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.fluid.speedmodels import Linear
from lab.sim.invariants import violations
from lab.sim.simulatedstep import SimulatedStep
from lab.study import papers
from lab.study.donerows import Row
from policy.cluster.snapshot import Rules
from policy.systems.drf import Drf
from policy.systems.oasis.prices import Floor
from tests.papers.expected import surprises

pytestmark = pytest.mark.timeout(1800)
HOURS = pytest.mark.timeout(24 * 3600)  # The experiment oasis-load needs hours: 400 jobs and Dorm's solver on 30 seeds.
MUTANTS = [(experiment, mutant) for experiment in EXPERIMENTS for mutant in experiment.mutants if mutant.misses]


@cache
def rows(name: str, variant: str = "") -> list[Row]:
    """Return the experiment's measurements, one row per seed, for all the seeds for which its limits are stated."""
    seeds = papers.experiments()[name].seeds
    return [papers.measure(name, variant, seed) for seed in range(1000, 1000 + seeds)]


@HOURS
@pytest.mark.soak
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_every_bar_is_met(experiment: Experiment) -> None:
    assert surprises(experiment.bars, rows(experiment.name)) == []


@HOURS
@pytest.mark.soak
@pytest.mark.parametrize(
    ("experiment", "variant"), [(e, m.name) for e, m in MUTANTS], ids=[f"{e.name}: {m.name}" for e, m in MUTANTS]
)
def test_every_mutant_misses_its_bars(experiment: Experiment, variant: str) -> None:
    mutant = next(one for one in experiment.mutants if one.name == variant)
    assert papers.mutant_outcome(experiment, mutant, rows(experiment.name), rows(experiment.name, variant)).caught


@pytest.mark.parametrize("draw", [Draw(60, 20, arrivals=20), pytest.param(Draw(100), marks=pytest.mark.full)])
def test_one_seed_of_the_simulation_earns_more_than_drf(draw: Draw) -> None:
    drawn = trace(draw, 1000)
    assert run(drawn, oasis(SLOTS), SLOTS).utility > run(drawn, Drf(), SLOTS).utility


@pytest.mark.full
def test_one_seed_of_the_testbed_has_every_measure_that_its_bars_ask_for() -> None:
    row = papers.measure(TESTBED.name, "", 1000)
    assert [bar.claim for bar in TESTBED.bars if bar.value([row]) != bar.value([row])] == []


@pytest.mark.full
@pytest.mark.parametrize("seed", [1000, 1001])
def test_plans_are_kept_to_the_slot_and_the_invariants_after_every_step(seed: int) -> None:
    """Each admitted job ends in the last time slot of its schedule, and no invariant is broken after any step."""
    drawn, faults, promised = trace(Draw(60, 20, arrivals=20), seed), list[str](), dict[str, int]()

    def look(step: SimulatedStep) -> None:
        faults.extend(violations(step.snapshot))
        found = step.snapshot.memory.get("oasis")
        for uid, plan in getattr(found, "plans", {}).items():
            promised.setdefault(step.snapshot.jobs[uid].name, plan.last)

    settings = FluidSettings(
        rules=Rules(largest_gang=10_000), speeds=Linear(), start_seconds=0.0, tick_seconds=SLOT_SECONDS,
        slot_seconds=SLOT_SECONDS, horizon=SLOTS * SLOT_SECONDS,
    )  # fmt: skip
    result = simulate(drawn, oasis(SLOTS), settings, on_step=look)
    assert faults == []
    ended = {job.name: round(job.ended / SLOT_SECONDS) for job in result.jobs if job.finished}
    assert len(ended) == len(promised) > 10
    begun = 250  # The simulation begins in the time slot (of 4,000 s) with this number.
    assert {name: slot - begun + 1 for name, slot in promised.items()} == ended


def test_the_papers_mode_takes_every_job_on_an_empty_cluster() -> None:
    drawn = trace(CASES["3+3"], 7)
    for job in drawn.jobs:
        alone = type(drawn)(drawn.nodes, (job,))
        if run(alone, oasis(SLOTS), SLOTS).finished:
            made = oasis(SLOTS, floor=Floor.PAPER, known=known(alone))
            assert run(alone, made, SLOTS).finished == 1, job.name

"""Tests of KOD2's experiments (lab/papers/kod2.py) on fewer seeds than ``kohort paper kod2`` uses."""

from __future__ import annotations

from functools import cache
from statistics import fmean

import pytest

from lab.papers.experiment import Experiment
from lab.papers.kod2 import EXPERIMENTS, TEN_JOBS
from lab.papers.kod2cells import BATCHES, MODELS, NETWORK
from lab.sim.invariants import violations
from lab.sim.pods.world import SimulatedWorld
from lab.sim.simulatedstep import SimulatedStep
from lab.sim.traces import kod2
from lab.study import papers
from lab.study.donerows import Row
from lab.virtual.podrun import simulate
from policy.systems.kod2 import Kod2
from tests.papers.expected import surprises

pytestmark = pytest.mark.timeout(300)

SEEDS = {"kod2-ten-jobs": range(1000, 1010), "kod2-figure-4": range(1), "kod2-figure-7": range(1000, 1002)}
FEW = range(1000, 1006)
MUTANTS = [(experiment, mutant) for experiment in EXPERIMENTS for mutant in experiment.mutants if mutant.misses]


@cache
def rows(name: str, variant: str = "") -> list[Row]:
    return [papers.measure(name, variant, seed) for seed in SEEDS.get(name, FEW)]


@pytest.mark.parametrize(
    "experiment",
    [pytest.param(one, marks=[] if one is TEN_JOBS else pytest.mark.full) for one in EXPERIMENTS],
    ids=[one.name for one in EXPERIMENTS],
)
def test_every_bar_is_met(experiment: Experiment) -> None:
    assert surprises(experiment.bars, rows(experiment.name)) == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("experiment", "variant"), [(e, m.name) for e, m in MUTANTS], ids=[f"{e.name}: {m.name}" for e, m in MUTANTS]
)
def test_every_mutant_misses_its_bars(experiment: Experiment, variant: str) -> None:
    mutant = next(one for one in experiment.mutants if one.name == variant)
    outcome = papers.mutant_outcome(experiment, mutant, rows(experiment.name), rows(experiment.name, variant))
    assert {judged.bar.claim for judged in outcome.named} == set(mutant.misses)
    assert outcome.caught


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_every_bar_is_met_and_every_mutant_caught_on_the_stated_seeds(experiment: Experiment) -> None:
    seeds = range(1000, 1000 + experiment.seeds)
    own = [papers.measure(experiment.name, "", seed) for seed in seeds]
    assert surprises(experiment.bars, own) == []
    for mutant in experiment.mutants:
        changed = [papers.measure(experiment.name, mutant.name, seed) for seed in seeds]
        assert papers.mutant_outcome(experiment, mutant, own, changed).caught == bool(mutant.misses), mutant.name


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1000, 1010))
def test_every_step_keeps_the_invariants_and_no_node_holds_more_than_it_has(seed: int) -> None:
    faults: list[str] = []

    def look(step: SimulatedStep, world: SimulatedWorld) -> None:
        faults.extend((*violations(step.snapshot), *world.overcommitted()))

    simulate(kod2(seed), Kod2(), on_step=look)
    assert faults == []


@pytest.mark.full
def test_the_baseline_as_a_policy_is_as_slow_as_the_plain_scheduler() -> None:
    """The policy ``fifo-pod``, which uses Kohort's ledger, agrees with a model of kube-scheduler without one."""
    through = fmean(row["jct"] for row in rows(TEN_JOBS.name, "no gang"))
    plain = fmean(row["jct_1800"] for row in rows(TEN_JOBS.name))
    assert through == pytest.approx(plain, rel=0.15)


def test_larger_batches_train_with_less_traffic() -> None:
    for model in MODELS.values():
        found = [(model.work(batch), model.contention(batch), model.remote(batch)) for batch in BATCHES]
        works, contentions, remotes = zip(*found, strict=True)
        assert list(works) == sorted(works, reverse=True)
        assert list(contentions) == sorted(contentions, reverse=True)
        assert list(remotes) == sorted(remotes)
        assert model.work(32) == 1.0
        assert model.step(32, NETWORK) > model.step(32)

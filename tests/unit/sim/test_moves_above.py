"""SpeCon with each elastic policy: only converged jobs are migrated, each once, and the invariants hold after each
step.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from lab.sim.fluid.check import Checker
from lab.sim.fluid.fluidrun import simulate
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.objects import JobSpec
from lab.sim.simulatedstep import SimulatedStep
from lab.sim.traces import Trace, node, pod_requests
from policy.cluster.actions import Migrate, Resize
from policy.cluster.job import WORKER, Role
from policy.systems import make_policy
from policy.systems.base import Policy
from policy.systems.growth import Category, Progress
from policy.systems.specon import KEY

ELASTIC = ("kod2", "drs", "dragon")
SEEDS = range(3)
SETTINGS = FluidSettings(report_seconds=5.0, migrate_seconds=4.0, tick_seconds=5.0)


class Watching(Checker):
    """A checker that counts migrations by job and the base's resizes, and notes jobs that migrated without having
    converged.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.moves, self.resizes = Counter[str](), 0
        self.growing = set[str]()

    def __call__(self, step: SimulatedStep) -> None:
        super().__call__(step)
        for effect in step.effects:
            self.resizes += isinstance(effect, Resize)
            if isinstance(effect, Migrate):
                self.moves[effect.job_uid] += 1
                told = step.snapshot.memory[KEY + effect.job_uid]
                if not isinstance(told, Progress) or told.category is not Category.CONVERGED:
                    self.growing.add(effect.job_uid)


def trace(seed: int) -> Trace:
    """Return a trace of ten jobs within a quarter of an hour on three nodes; some may grow to three workers."""
    draw = random.Random(seed)
    return Trace(
        tuple(node(f"n{index}", 8, 32) for index in (1, 2, 3)), tuple(_job(draw, index) for index in range(10))
    )


def _job(draw: random.Random, index: int) -> JobSpec:
    return JobSpec(
        name=f"job-{index}",
        roles=(Role(WORKER, 1, pod_requests(1, 1)),),
        min_workers=1,
        max_workers=draw.choice((1, 1, 1, 3)),
        work_seconds=draw.uniform(200.0, 900.0),
        arrival=draw.uniform(0.0, 900.0),
        decay=19.6,  # a Bi-RNN's metric, which converges early
        migratable=True,
    )


def played(base: str, seed: int, limit: int) -> Watching:
    policy = make_policy(f"{base}+specon", **{"specon.alpha": 0.05, "specon.moves_per_job": limit})
    seen = Watching(policy)
    assert simulate(trace(seed), policy, SETTINGS, on_step=seen).finished == 10
    assert (seen.broken, seen.growing) == ([], set())
    assert seen.resizes
    return seen


@pytest.mark.parametrize("base", ELASTIC)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_has_converged_moves_once_above_every_elastic_system(base: str, seed: int) -> None:
    assert set(played(base, seed, 1).moves.values()) == {1}


@pytest.mark.parametrize("base", ELASTIC)
def test_once_by_each_algorithm_where_that_is_asked_for(base: str) -> None:
    found = [played(base, seed, 2).moves.values() for seed in SEEDS]
    assert max(max(moves) for moves in found) == 2

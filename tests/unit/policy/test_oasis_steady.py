"""Algorithm 2 with a cost of change gives the best of all schedules; a job keeps to few numbers of workers."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from policy.cluster.training import Utility
from policy.systems.oasis import steady
from policy.systems.oasis.dp import best_schedule
from policy.systems.oasis.steady import changes, steady_schedule
from tests.unit.policy.test_oasis import counts, run, trains, world
from tests.unit.policy.test_oasis_dp import costs_of

INSTANCES = 600


def brute(costs: np.ndarray, work: int, worth: list[float], begin: int | None, switching: float) -> float | None:
    """Return the best payoff of all schedules, or None; changes of the number of workers cost ``switching`` each.

    begin: if given, only schedules without a gap that begin in this slot or before count.
    """
    found = []
    for chosen in itertools.product(range(costs.shape[1]), repeat=costs.shape[0]):
        workers = {slot: count for slot, count in enumerate(chosen) if count}
        cost = sum(costs[slot, count] for slot, count in workers.items())
        if sum(chosen) < work or not workers or math.isinf(cost):
            continue
        first, last = min(workers), max(workers)
        if begin is None or (first <= begin and len(workers) == last - first + 1):
            found.append(worth[last] - cost - switching * changes(workers))
    return max(found, default=None)


@pytest.mark.parametrize("holds", [False, True])
def test_the_table_finds_what_trying_every_schedule_finds(holds: bool) -> None:
    feasible = steadier = 0
    for seed in range(INSTANCES):
        chance = random.Random(seed)
        costs, work = costs_of(chance)
        worth = sorted((chance.uniform(0, 8) for _ in costs), reverse=True)
        begin, switching = chance.randrange(len(costs)) if holds else None, chance.choice((0.0, 0.1, 1.0, 5.0))
        found = steady_schedule(costs, work, worth.__getitem__, begin, switching)
        best = brute(costs, work, worth, begin, switching)
        assert (found is None) == (best is None), seed
        if found is None:
            continue
        feasible += 1
        steadier += found.workers != best_schedule(costs, work, worth.__getitem__, begin).workers  # type: ignore[union-attr]
        assert found.payoff == pytest.approx(best), seed
        assert sum(found.workers.values()) >= work
        cost = sum(costs[slot, count] for slot, count in found.workers.items())
        assert found.cost == pytest.approx(cost + switching * changes(found.workers))
        assert found.payoff == pytest.approx(found.worth - found.cost)
    assert feasible > INSTANCES // 4
    assert steadier > 5


def test_a_pause_is_a_change_down_and_one_up_and_begin_and_end_are_none() -> None:
    assert [changes(workers) for workers in ({3: 5}, {3: 5, 4: 5}, {3: 5, 5: 5}, {3: 5, 4: 3})] == [0, 0, 10, 2]


def test_a_large_table_is_made_in_blocks_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady, "LARGEST_STATES", 60)
    made = np.random.default_rng(3).uniform(0.1, 1.0, (12, 9)).cumsum(axis=1)
    made[:, 0] = 0.0
    found = steady_schedule(made, 40, lambda slot: 1e3 - slot, None, 0.2)
    assert found is not None
    assert sum(found.workers.values()) >= 40
    cost = sum(made[slot, count] for slot, count in found.workers.items())
    assert found.cost == pytest.approx(cost + 0.2 * changes(found.workers))
    # the work fills every worker of every slot
    full = steady_schedule(made, 12 * 8, lambda slot: 1e3 - slot, None, 0.2)
    assert full is not None
    assert set(full.workers.values()) == {8}


def test_what_blocks_do_not_hold_is_planned_worker_by_worker_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three slots hold 7 workers each, 21 in all, but only 18 in blocks of two."""
    monkeypatch.setattr(steady, "LARGEST_STATES", 60)
    made = np.tile(np.arange(8, dtype=float), (3, 1))
    whole = steady_schedule(made, 21, lambda _: 100.0, None, 0.5)
    assert whole is not None
    assert whole.workers == {0: 7, 1: 7, 2: 7}
    assert steady_schedule(made, 22, lambda _: 100.0, None, 0.5) is None


def test_a_change_in_blocks_costs_as_much_as_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker costs 1 in even slots and 2 in odd ones, and each worker that comes or goes costs 0.5."""
    monkeypatch.setattr(steady, "LARGEST_STATES", 20)
    made = np.outer([1.0, 2.0, 1.0, 2.0], np.arange(5))
    found = steady_schedule(made, 8, lambda _: 100.0, None, 0.5)
    even = brute(made[:, ::2], 4, [100.0] * 4, None, 2 * 0.5)  # two workers at a time
    assert found is not None
    assert found.payoff == pytest.approx(even)


STEPPED, STEADY = {0: 2, 1: 2, 2: 4, 3: 4}, {2: 4, 3: 4, 4: 4}
SLOTS = {
    "nothing, as in the paper": (0.0, STEPPED),
    "little against a slot's delay": (0.01, STEPPED),
    "more than a slot's delay, as a share of what the job is worth": (0.05, STEADY),
}


@pytest.mark.parametrize(("cost", "slots"), SLOTS.values(), ids=SLOTS.keys())
def test_a_job_whose_changes_cost_keeps_to_one_number_of_workers(cost: float, slots: dict[int, int]) -> None:
    """Another job takes half of the room of the first two slots."""
    made = world("n1", switching_cost=cost)
    run(made, trains("first", 4, most=2, utility=Utility(10.0, 0.1, 20.0)))
    run(made, trains("a", 12, utility=Utility(100.0, 0.5, 3.0)))
    assert counts(made, "a") == slots

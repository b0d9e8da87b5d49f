"""Algorithm 2: the tables give the same best schedule, and the same cheapest placement, as trying all of them."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from policy.systems.oasis.dp import LARGEST_TABLE, Best, SlotOffer, SlotRole, best_schedule, most_work, offer

INSTANCES = 1000


def costs_of(chance: random.Random) -> tuple[np.ndarray, int]:
    """Draw costs by slot and number of workers, some of them infinite (a count that is not possible), and an amount of
    work.
    """
    slots, most = chance.randint(1, 4), chance.randint(1, 3)
    rows = []
    for _ in range(slots):
        steps = [
            chance.choice((0.0, chance.uniform(0.1, 3.0), math.inf)) + chance.uniform(0.01, 2.0) for _ in range(most)
        ]
        rows.append([0.0, *itertools.accumulate(steps)])
    made = np.array(rows)
    if chance.random() < 0.3:
        made[:, 1] = math.inf  # a single worker is not possible, as in a gang of at least two
    return made, chance.randint(1, slots * most + 1)


def brute(costs: np.ndarray, work: int, worth: list[float]) -> tuple[float, int] | None:
    """Return the best payoff of all schedules with its earliest completion slot, or None, by trying every schedule."""
    best: tuple[float, int] | None = None
    for counts in itertools.product(range(costs.shape[1]), repeat=costs.shape[0]):
        busy = [slot for slot, count in enumerate(counts) if count]
        cost = sum(costs[slot, count] for slot, count in enumerate(counts))
        if sum(counts) < work or not busy or math.isinf(cost):
            continue
        payoff = worth[busy[-1]] - cost
        if best is None or payoff > best[0] + 1e-12 or (abs(payoff - best[0]) <= 1e-12 and busy[-1] < best[1]):
            best = (payoff, busy[-1])
    return best


def test_the_table_finds_what_trying_every_schedule_finds() -> None:
    feasible = 0
    for seed in range(INSTANCES):
        chance = random.Random(seed)
        costs, work = costs_of(chance)
        worth = sorted((chance.uniform(0, 8) for _ in range(costs.shape[0])), reverse=True)
        found, expected = best_schedule(costs, work, worth.__getitem__), brute(costs, work, worth)
        assert (found is None) == (expected is None), seed
        if expected is None or found is None:
            continue
        feasible += 1
        assert found.payoff == pytest.approx(expected[0]), seed
        assert sum(found.workers.values()) >= work
        assert found.cost == pytest.approx(sum(costs[slot, count] for slot, count in found.workers.items()))
        assert found.payoff == pytest.approx(found.worth - found.cost)
    assert feasible > INSTANCES // 3


def test_equal_payoffs_complete_early() -> None:
    found = best_schedule(np.array([[0.0, 1.0], [0.0, 1.0]]), 1, lambda _: 5.0)
    assert found is not None
    assert found.workers == {0: 1}


def test_work_that_does_not_fit_has_no_schedule() -> None:
    assert best_schedule(np.array([[0.0, 1.0], [0.0, math.inf]]), 2, lambda _: 5.0) is None


def test_a_gang_minimum_may_do_more_than_is_asked() -> None:
    costs = np.array([[0.0, math.inf, math.inf, 1.0]] * 2)
    found = best_schedule(costs, 5, lambda slot: 10.0 - slot)
    assert found is not None
    assert found.workers == {0: 3, 1: 3}


def test_a_job_that_holds_on_has_no_gap_and_one_that_runs_begins_at_once() -> None:
    costs = np.array([[0.0, 1.0, 2.0], [0.0, 9.0, 18.0], [0.0, 1.0, 2.0], [0.0, 2.0, 4.0]])
    late = lambda _: 100.0  # noqa: E731
    assert best_schedule(costs, 4, late).workers == {0: 2, 2: 2}  # type: ignore[union-attr]
    assert best_schedule(costs, 4, late, begin=3).workers == {2: 2, 3: 2}  # type: ignore[union-attr]
    assert best_schedule(costs, 4, late, begin=0).workers == {0: 2, 1: 1, 2: 1}  # type: ignore[union-attr]


def test_the_schedule_without_gaps_is_the_best_that_trying_every_one_finds() -> None:
    chance = random.Random(4)
    for _ in range(300):
        costs, work = costs_of(chance)
        worth = sorted((chance.uniform(0.0, 60.0) for _ in costs), reverse=True)
        begin = chance.randrange(len(costs))
        found = best_schedule(costs, work, worth.__getitem__, begin)
        runs = [
            worth[last] - sum(costs[at, count] for at, count in enumerate(counts, first))
            for first in range(begin + 1)
            for last in range(first, len(costs))
            for counts in itertools.product(range(1, costs.shape[1]), repeat=last - first + 1)
            if sum(counts) >= work
        ]
        best = max((payoff for payoff in runs if math.isfinite(payoff)), default=None)
        assert (found is None) == (best is None)
        if found is not None:
            assert found.payoff == pytest.approx(best)
            slots = list(found.workers)
            assert slots == list(range(slots[0], slots[-1] + 1))


def test_what_fits_without_a_gap_is_the_longest_run() -> None:
    costs = np.array([[0.0, 1.0], [0.0, math.inf], [0.0, 1.0], [0.0, 1.0]])
    assert (most_work(costs, 9), most_work(costs, 9, gaps=False)) == (3, 2)


def rising(slots: int, most: int, least: int = 1) -> np.ndarray:
    """Draw rising costs by slot and number of workers; fewer than ``least`` workers are not possible."""
    made = np.cumsum(np.random.default_rng(slots + most).uniform(0.1, 1.0, (slots, most + 1)), axis=1)
    made[:, 0], made[:, 1:least] = 0.0, math.inf
    return made


def holds(found: Best | None, costs: np.ndarray, work: int) -> bool:
    """Return whether the schedule does all the work and costs what it states."""
    if found is None:
        return False
    cost = sum(costs[slot, count] for slot, count in found.workers.items())
    return sum(found.workers.values()) >= work and found.cost == pytest.approx(cost)


@pytest.mark.parametrize(
    ("slots", "gang", "work"),
    [(100, 101, 6100), (100, 101, 9000), (100, 101, 10100), (100, 100, 6100), (70, 199, 13900)],
)
def test_a_rigid_gang_of_whatever_size_is_planned_in_blocks(slots: int, gang: int, work: int) -> None:
    costs = rising(slots, gang, least=gang)
    found = best_schedule(costs, work, lambda slot: 1e6 - 1e4 * slot)
    assert holds(found, costs, work)
    assert found is not None
    assert set(found.workers.values()) == {gang}
    assert len(found.workers) <= math.ceil(work / gang * 1.01)


@pytest.mark.parametrize(
    ("slots", "most", "work"), [(100, 63, 6300), (100, 63, 6299), (1000, 7, 6500), (60, 301, 18000)]
)
def test_work_that_fits_only_without_blocks_is_planned_exactly(slots: int, most: int, work: int) -> None:
    costs = rising(slots, most)
    found = best_schedule(costs, work, lambda _: 1e9)
    assert work > LARGEST_TABLE
    assert holds(found, costs, work)
    assert best_schedule(costs, slots * most + 1, lambda _: 1e9) is None


def test_a_full_window_is_exact_with_blocks_or_without(monkeypatch: pytest.MonkeyPatch) -> None:
    costs, work = rising(20, 9), 20 * 9 - 3
    exact = best_schedule(costs, work, lambda slot: 1e3 - slot)
    monkeypatch.setattr("policy.systems.oasis.dp.LARGEST_TABLE", 40)
    assert exact == best_schedule(costs, work, lambda slot: 1e3 - slot)


def test_blocks_cost_little_more_than_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    costs, work = rising(20, 30), 200
    exact = best_schedule(costs, work, lambda slot: 1e3 - slot)
    monkeypatch.setattr("policy.systems.oasis.dp.LARGEST_TABLE", 70)
    found = best_schedule(costs, work, lambda slot: 1e3 - slot)
    assert holds(found, costs, work)
    assert exact is not None
    assert found is not None
    assert 0.95 * exact.payoff <= found.payoff <= exact.payoff


def roles_of(chance: random.Random, *, apart: bool) -> tuple[SlotRole, ...]:
    nodes = 4
    first = np.array([not apart or node < 2 for node in range(nodes)])
    second = np.array([not apart or node >= 2 for node in range(nodes)])
    most = 3
    worker = SlotRole(
        "worker", np.array([chance.randint(1, 3), chance.randint(0, 2)], float), first, np.arange(most + 1)
    )
    counts = np.array([0, *(math.ceil(n / 2) for n in range(1, most + 1))])
    return worker, SlotRole("ps", np.array([chance.randint(1, 2), 0.0]), second, counts)


def cheapest(free: np.ndarray, price: np.ndarray, roles: tuple[SlotRole, ...], workers: int) -> float:
    """Return the least cost of placing the members, by trying every way to put them on nodes."""
    members = [role for role in roles for _ in range(int(role.counts[workers]))]
    best = math.inf
    for nodes in itertools.product(range(len(free)), repeat=len(members)):
        left = free.copy()
        for role, node in zip(members, nodes, strict=True):
            left[node] -= role.request
        if (left >= 0).all() and all(role.open[node] for role, node in zip(members, nodes, strict=True)):
            best = min(best, sum(float(price[node] @ role.request) for role, node in zip(members, nodes, strict=True)))
    return best


def drawn(chance: random.Random) -> tuple[np.ndarray, np.ndarray]:
    free = np.array([[chance.randint(0, 6), chance.randint(0, 4)] for _ in range(4)], float)
    return free, np.array([[chance.uniform(0.1, 2.0), chance.uniform(0.1, 2.0)] for _ in range(4)])


def test_with_pools_apart_each_slot_is_deployed_at_the_least_price() -> None:
    for seed in range(150):
        chance = random.Random(seed)
        (free, price), roles = drawn(chance), roles_of(chance, apart=True)
        found = offer(free, price, roles)
        for workers in range(4):
            assert found.cost[workers] == pytest.approx(cheapest(free, price, roles, workers)), (seed, workers)


def test_with_one_pool_nothing_is_promised_twice_and_the_price_is_that_of_the_places() -> None:
    for seed in range(150):
        chance = random.Random(seed)
        (free, price), roles = drawn(chance), roles_of(chance, apart=False)
        found = offer(free, price, roles)
        for workers in np.flatnonzero(np.isfinite(found.cost)):
            taken = _taken(found, roles, int(workers))
            assert (taken <= free).all(), seed
            assert found.cost[workers] == pytest.approx(float((taken * price).sum()))
            assert found.cost[workers] >= cheapest(free, price, roles, int(workers)) - 1e-9


def _taken(found: SlotOffer, roles: tuple[SlotRole, ...], workers: int) -> np.ndarray:
    parts = [take[workers][:, None] * role.request for role, take in zip(roles, found.takes, strict=True)]
    taken: np.ndarray = np.array(parts).sum(axis=0)
    return taken

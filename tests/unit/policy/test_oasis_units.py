"""OASiS's formulas: utility, work, ps counts, prices."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.cluster.job import PS, WORKER, Job, Role
from policy.cluster.node import Node
from policy.cluster.resources import BANDWIDTH, Resources
from policy.cluster.training import Training, Utility
from policy.systems.oasis.prices import Bounds, Floor, Ground, Prices, Pricing
from policy.systems.oasis.schedule import Seen
from policy.systems.oasis.workload import POOL, Work, work_of


def test_the_sigmoid_is_half_at_the_target_and_falls() -> None:
    curve = Utility(10.0, 0.5, 4.0)
    assert curve.at(4.0) == pytest.approx(5.0)
    assert curve.at(0.0) == pytest.approx(10.0 / (1.0 + math.exp(-2.0)))
    assert curve.at(6.0) == pytest.approx(10.0 / (1.0 + math.exp(1.0)))


def test_without_decay_the_formula_gives_half_the_priority() -> None:
    assert Utility(10.0, 0.0, 3.0).at(1000.0) == 5.0


def test_far_past_the_target_nothing_overflows_and_the_logarithm_goes_on() -> None:
    curve = Utility(10.0, 6.0, 1.0)
    assert curve.at(5000.0) == 0.0
    assert curve.ln_at(5000.0) == pytest.approx(math.log(10.0) - 6.0 * 4999.0)
    assert curve.ln_at(2.0) == pytest.approx(math.log(curve.at(2.0)))


def test_a_mini_batch_is_computed_and_its_gradients_sent_and_received() -> None:
    assert Training(seconds=1.0, gradient=250.0, worker_bandwidth=2.0).step_seconds == pytest.approx(1.0 + 2.0)
    assert Training(seconds=1.0, gradient=250.0).step_seconds == 1.0


def test_a_worker_trains_whole_chunks_in_a_slot() -> None:
    # A chunk takes 30 s, so a slot of 100 s has three; 2 x 10 chunks make seven worker-slots.
    assert Training(epochs=2, chunks=10, batches=30, seconds=1.0).worker_slots(100.0) == 7


def test_a_chunk_longer_than_a_slot_is_trained_over_several() -> None:
    assert Training(epochs=1, chunks=4, batches=150, seconds=1.0).worker_slots(100.0) == 6


def job(**changes: object) -> Job:
    training = Training(epochs=1, chunks=6, seconds=100.0, worker_bandwidth=1.0, ps_bandwidth=3.0)
    roles = (Role(PS, 2, Resources({"cpu": 1})), Role(WORKER, 1, Resources({"cpu": 2})))
    made = Job("uid", "team", "a", "TFJob", 1000.0, roles, 1, 10, training=training, ps_elastic=True)
    return replace(made, **changes)  # type: ignore[arg-type]


def work(**changes: object) -> Work:
    return work_of(job(**changes), 100.0)


def test_no_more_workers_than_chunks() -> None:
    assert work().most == 6
    assert work(max_workers=4).most == 4


@pytest.mark.parametrize("training", [None, Training(alpha=0.05)], ids=["says nothing", "says how it converges"])
def test_a_job_that_does_not_say_how_long_it_trains_has_a_slot_for_each_worker(training: Training | None) -> None:
    made = work(training=training, max_workers=4)
    assert (made.most, made.work) == (4, 4)


@pytest.mark.parametrize(("workers", "servers"), [(0, 0), (1, 1), (3, 1), (4, 2), (6, 2)])
def test_ps_have_the_workers_bandwidth(workers: int, servers: int) -> None:
    assert work().counts(work().parts[0], workers) == servers


def test_more_ps_than_workers_cannot_be() -> None:
    training = Training(chunks=6, seconds=100.0, worker_bandwidth=3.0, ps_bandwidth=2.0)
    slow = work(training=training)
    assert [slow.counts(slow.parts[0], n) for n in (1, 2, 3)] == [None, None, None]


def test_ps_that_may_not_change_are_all_held_and_bound_the_workers() -> None:
    fixed = work(ps_elastic=False)
    assert [fixed.counts(fixed.parts[0], n) for n in (0, 1, 6)] == [0, 2, 2]
    one = work_of(
        job(ps_elastic=False, roles=(Role(PS, 1, Resources({"cpu": 1})), Role(WORKER, 1, Resources({})))), 100.0
    )
    assert one.counts(one.parts[0], 4) is None


def test_an_all_reduce_job_has_no_ps() -> None:
    assert work(training=Training(chunks=6, all_reduce=True)).parts == ()


def test_what_is_done_already_is_not_planned_again() -> None:
    whole = work_of(job(), 100.0).work
    assert work_of(job(), 100.0, done=0.5).work == whole // 2


# -- The tests below are about OASiS's prices of resources. ------------------------------------------


def ground(*labels: str, cpu: int = 10, gpu: int = 4) -> Ground:
    room = Resources({"cpu": cpu, "gpu": gpu, "pods": 110})
    nodes = [(Node(f"n{i}", room, labels={POOL: label} if label else {}), room) for i, label in enumerate(labels)]
    return Ground.of(nodes, {"cpu", "gpu", "pods"})


def seen(best: float, cpu: int, gpu: int, *, server: int = 1, size: int = 5, ln_worst: float = 0.0) -> Seen:
    worker = Resources({"cpu": cpu, "gpu": gpu, "pods": 1})
    return Seen(0, best, worker, Resources({"cpu": server, "pods": 1}), size, ln_worst)


def prices_at(share: float, floor: Floor = Floor.RATIO) -> tuple[np.ndarray, Bounds]:
    here = ground(WORKER, PS)
    jobs = [seen(8.0, 2, 1), seen(6.0, 1, 2)]
    worker, server = (Pricing(floor, 100.0).bounds(here, jobs, role, 10) for role in (WORKER, PS))
    assert worker is not None
    made = Prices(here, worker, server)
    return made.units(here.capacity * share) * here.totals, worker


def test_an_idle_resource_costs_l_and_a_full_one_u() -> None:
    idle, bounds = prices_at(0.0)
    full, _ = prices_at(1.0)
    cpu, gpu = 0, 1
    # U is the highest utility per share of the cluster. cpu: 8 / (2/20), 6 / (1/20); gpu: 8 / (1/8), 6 / (2/8)
    assert full[0, cpu] == pytest.approx(120.0)
    assert full[0, gpu] == pytest.approx(64.0)
    assert idle[0, cpu] == idle[0, gpu] == pytest.approx(64.0 / 100.0)
    assert bounds.alpha == pytest.approx(math.log(120.0 / 0.64))


def test_what_every_node_has_enough_of_has_no_price_and_does_not_set_the_floor() -> None:
    """Jobs request bandwidth, but no node states any, so the prices are those without bandwidth."""
    room, job = Resources({"cpu": 10}), Seen(0, 8.0, Resources({"cpu": 2, BANDWIDTH: 5000}), Resources({}), 5, 0.0)
    stated = Resources({"cpu": 10, BANDWIDTH: 10**9})

    def priced(*rooms: Resources) -> tuple[list[float], Bounds]:
        here = Ground.of([(Node(f"n{at}", one), one) for at, one in enumerate(rooms)], {"cpu", BANDWIDTH})
        bounds = Pricing().bounds(here, [job], WORKER, 10)
        assert bounds is not None
        return list(Prices(here, bounds, None).units(np.zeros_like(here.capacity))[0] * here.totals), bounds

    cpu, bounds = 8.0 / (2 / 20), priced(room, room)[1]
    assert bounds.ln_l == pytest.approx(math.log(cpu / 1e4))
    assert priced(room, room)[0] == pytest.approx([cpu / 1e4, 0.0])
    assert min(priced(room, stated)[0]) > 0  # a node that states bandwidth gives it a price


def test_half_way_the_price_is_the_geometric_mean() -> None:
    half, _ = prices_at(0.5)
    assert half[0, 1] == pytest.approx(math.sqrt(64.0 * 0.64))


def test_pods_have_no_price_and_each_pool_has_its_own_bounds() -> None:
    full, _ = prices_at(1.0)
    assert full[0, 2] == 0.0
    assert full[1, 0] == pytest.approx(8.0 / (1 / 20))  # the job with utility 8 has a ps of 1 cpu


@settings(deadline=None)
@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=2).map(sorted), st.sampled_from(Floor))
def test_a_price_never_falls_with_what_is_taken(shares: list[float], floor: Floor) -> None:
    low, high = (prices_at(share, floor)[0] for share in shares)
    assert (low <= high * (1 + 1e-12)).all()


def test_the_papers_l_is_equation_25() -> None:
    here = ground(WORKER)
    jobs = [seen(8.0, 2, 1, size=5, ln_worst=-3.0), seen(6.0, 1, 2, size=9, ln_worst=-700.0)]
    bounds = Pricing(Floor.PAPER).bounds(here, jobs, WORKER, 10)
    assert bounds is not None
    sums = [2 / 10 + 1 / 4, 1 / 10 + 2 / 4]
    # the paper's eta: T times the sum of c, over the least resources that any job takes
    eta = 10 * 2.0 / min(5 * sums[0], 9 * sums[1])
    assert bounds.ln_l == pytest.approx(-700.0 - math.log(4 * eta * 9 * sums[1]))


def test_a_node_of_both_pools_has_one_price_the_larger_u_and_the_smaller_l() -> None:
    here = ground("")
    low, high = Bounds(np.array([1.0, 2.0, -np.inf]), -5.0), Bounds(np.array([3.0, -np.inf, -np.inf]), -4.0)
    made = Prices(here, low, high)
    full, idle = ((made.units(here.capacity * share) * here.totals)[0, :2] for share in (1.0, 0.0))
    assert np.log(full) == pytest.approx([3.0, 2.0])
    assert np.log(idle) == pytest.approx([-5.0, -5.0])


def test_wrong_estimates_move_u_and_l() -> None:
    here, jobs = ground(WORKER), [seen(8.0, 2, 1)]
    right, wrong = Pricing().bounds(here, jobs, WORKER, 10), Pricing(u_scale=2.0).bounds(here, jobs, WORKER, 10)
    assert right is not None
    assert wrong is not None
    assert wrong.ln_u[0] - right.ln_u[0] == pytest.approx(math.log(2.0))

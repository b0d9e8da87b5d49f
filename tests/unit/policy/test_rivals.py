"""OASiS's rivals: dominant resource fairness, the risk-reward heuristic, Dorm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policy.cluster.actions import Reject
from policy.cluster.training import Training, Utility
from policy.sim.rivals.dorm import Dorm
from policy.systems.drf import Drf, fill
from policy.systems.rrh import Rrh
from policy.systems.shares import servers_for
from tests.builders import JobBuilder, State, World, job, node

SLOT = 1000.0


def alone(name: str, cpu: float, memory: float, most: int = 20) -> JobBuilder:
    return job(name).workers(1, most, asked=1, cpu=cpu, memory=memory)


def test_progressive_filling_is_ghodsis_example() -> None:
    """9 CPUs and 18 GB; A's tasks take 1 CPU and 4 GB, B's 3 CPUs and 1 GB: three of A's and two of B's."""
    world = World(Drf()).nodes(node("n1", cpu=9, memory=18))
    jobs = [alone("a", 1, 4).done(), alone("b", 3, 1).done()]
    assert fill(world.snapshot, jobs) == {"job-a": 3, "job-b": 2}


def test_drf_gives_room_back_when_a_job_comes_and_takes_it_when_one_ends() -> None:
    world = World(Drf()).nodes(node("n1", cpu=8, memory=64))
    first, second = alone("a", 1, 1), alone("b", 1, 1)
    world.submit(first)
    assert world.gang("a").workers == 8
    world.bind(first)
    world.operate(first)
    world.submit(second)
    assert world.gang("a").workers == 4
    for one in (first, first, second):
        if world.snapshot.gang(one.done().uid).admitted:
            world.operate(one)
    world.pass_time(1.0)
    assert world.gang("b").workers == 4
    world.end(first)
    world.pass_time(1.0)
    assert world.gang("b").workers == 8


def test_ps_follow_the_workers_bandwidth_where_they_may() -> None:
    training = Training(worker_bandwidth=1.0, ps_bandwidth=3.0)
    this = job("a", training=training, ps_elastic=True).ps(1).workers(1, 9, asked=1).done()
    assert [servers_for(this, n) for n in (1, 3, 4, 9)] == [1, 1, 2, 3]
    assert servers_for(replace(this, ps_elastic=False), 9) is None


def trains(name: str, slots: int, worth: float, steep: float = 0.5, target: float = 5.0) -> JobBuilder:
    training = Training(epochs=slots, chunks=4, seconds=SLOT, utility=Utility(worth, steep, target))
    return job(name, training=training).workers(4, asked=4, cpu=2)


def test_rrh_refuses_what_is_worth_too_little_when_it_is_done() -> None:
    world = World(Rrh(slot_seconds=SLOT)).nodes(node("n1", cpu=8))
    effects = world.submit(trains("late", 40, 10.0))
    assert any(isinstance(effect, Reject) for effect in effects)
    assert world.reason("late") == "JobRejected"
    world.pass_time(1.0)
    assert world.reason("late") == "JobRejected"


def test_rrh_pauses_a_running_job_for_one_that_gains_more() -> None:
    world = World(Rrh(slot_seconds=SLOT)).nodes(node("n1", cpu=8))
    world.submit(trains("a", 4, 1.0, steep=0.0))
    world.bind(trains("a", 4, 1.0))
    assert world.state("a") is State.RUNNING
    world.submit(trains("b", 2, 100.0))
    assert world.state("a") is State.PAUSED


def test_rrh_refuses_a_job_whose_delay_to_others_costs_more_than_it_gains() -> None:
    world = World(Rrh(slot_seconds=SLOT)).nodes(node("n1", cpu=8))
    world.submit(trains("a", 4, 30.0, steep=4.0, target=4.0))
    world.bind(trains("a", 4, 30.0))
    world.submit(trains("b", 1, 30.0, steep=0.0))
    assert world.state("a") is State.RUNNING
    assert world.reason("b") == "JobRejected"


@pytest.mark.parametrize("policy", [Drf(), Rrh(slot_seconds=SLOT), Dorm()], ids=lambda policy: policy.name)
def test_a_settled_cluster_is_left_alone(policy: Drf | Rrh | Dorm) -> None:
    world = World(policy).nodes(node("n1", cpu=8))
    this = trains("a", 4, 30.0)
    world.submit(this)
    world.bind(this)
    assert world.pass_time(1.0) == ()


def test_dorm_fills_the_cluster_within_its_bound_of_unfairness() -> None:
    world = World(Dorm(fairness=0.5)).nodes(node("n1", cpu=12, memory=64))
    jobs = [alone("small", 1, 1, most=12).done(), alone("large", 5, 1, most=2).done()]
    given = Dorm(fairness=0.5).numbers(world.snapshot, jobs)
    assert given["job-small"] * 1 + given["job-large"] * 5 == 12


def test_dorm_changes_few_running_jobs_at_once() -> None:
    world = World(Dorm(changes=0.1)).nodes(node("n1", cpu=9, memory=64))
    for name in ("a", "b", "c"):
        one = alone(name, 1, 1, most=9)
        world.submit(one)
        for _ in range(2):
            if world.snapshot.gang(one.done().uid).admitted:
                world.operate(one)
    before = {name: world.gang(name).workers for name in ("a", "b")}
    changed = [
        name
        for name in before
        if Dorm(changes=0.1).numbers(world.snapshot, [world.snapshot.jobs[f"job-{n}"] for n in ("a", "b", "c")])[
            f"job-{name}"
        ]
        != before[name]
    ]
    assert len(changed) <= 1

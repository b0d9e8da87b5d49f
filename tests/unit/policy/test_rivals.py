"""OASiS's rivals: dominant resource fairness, the risk-reward heuristic, Dorm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.sim.rivals.dorm import Dorm
from policy.cluster.actions import Reject, Remember
from policy.cluster.events import JobSeen, PodGone, PodSeen
from policy.cluster.training import Training, Utility
from policy.systems.drf import Drf, fill
from policy.systems.rrh import Rrh
from policy.systems.shares import servers_for
from tests.builders import JobBuilder, State, World, job, members, node

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


RIVALS = pytest.mark.parametrize("policy", [Drf(), Rrh(slot_seconds=SLOT), Dorm()], ids=lambda policy: policy.name)


@RIVALS
def test_a_settled_cluster_is_left_alone(policy: Drf | Rrh | Dorm) -> None:
    world = World(policy).nodes(node("n1", cpu=8))
    this = trains("a", 4, 30.0)
    world.submit(this)
    world.bind(this)
    assert world.pass_time(1.0) == ()


def wanted(name: str, cpu: float, **more: Any) -> JobBuilder:
    """Return a one-worker job that RRH ranks before the jobs of ``trains``, because its utility is higher."""
    training = Training(epochs=1, chunks=1, seconds=SLOT, utility=Utility(1000.0, 0.0, 5.0))
    return job(name, training=training).workers(1, asked=1, cpu=cpu, **more)


@RIVALS
@pytest.mark.parametrize(
    ("first", "why"),
    [
        (wanted("first", 8), "GangExceedsCluster"),
        (wanted("first", 4, unsupported=("resource claims",)), "ConstraintUnsupported"),
    ],
    ids=["fits on no node", "unsupported"],
)
def test_a_job_that_cannot_start_keeps_no_share_from_the_others(
    policy: Drf | Rrh | Dorm, first: JobBuilder, why: str
) -> None:
    world = World(policy).nodes(node("n1", cpu=4), node("n2", cpu=4))
    world.submit(first)
    world.submit(trains("second", 4, 30.0))
    assert world.reason("first") == why
    assert world.gang("second").workers == 4


@RIVALS
def test_a_job_has_its_share_as_soon_as_its_pods_are_there(policy: Drf | Rrh | Dorm) -> None:
    world = World(policy).nodes(node("n1", cpu=4), node("n2", cpu=4))
    first, second = wanted("first", 4).done(), trains("second", 2, 30.0)
    world.do(JobSeen(first))
    world.submit(second)
    assert world.reason("first") == "WaitingForPods"
    assert world.gang("second").workers == 4
    world.end(second)
    world.do(*(PodSeen(member) for member in members(first)))
    assert world.gang("first").admitted


@RIVALS
def test_who_backs_off_leaves_its_share_to_the_others_meanwhile(policy: Drf | Rrh | Dorm) -> None:
    world = World(policy).nodes(node("n1", cpu=4), node("n2", cpu=4))
    world.submit(wanted("first", 4))
    world.submit(trains("second", 2, 30.0))
    assert world.reason("second") == "WaitingForRoom"
    world.pass_time(60.0)
    while world.gang("first").admitted:
        world.pass_time(60.0)
    assert world.gang("second").admitted
    assert world.reason("first") == "BackingOff"


def test_rrh_ranks_no_job_whose_workers_never_fit_together() -> None:
    """By the sum of free cores all three workers of first would fit, and it would wait for ever."""
    world = World(Rrh(slot_seconds=SLOT)).nodes(node("n1", cpu=6), node("n2", cpu=6))
    training = Training(epochs=4, chunks=4, seconds=SLOT, utility=Utility(1000.0, 0.0, 5.0))
    world.submit(job("first", training=training).workers(1, 3, asked=3, cpu=4))
    world.submit(trains("second", 2, 30.0))
    assert world.reason("first") == "GangExceedsCluster"
    assert world.gang("second").workers == 4


def test_rrh_does_not_refuse_what_it_has_accepted_because_it_was_barred_meanwhile() -> None:
    world = World(Rrh(slot_seconds=SLOT)).nodes(node("n1", cpu=8))
    first, dear = trains("first", 1, 30.0, steep=0.0), trains("dear", 1, 1000.0, steep=0.0)
    for one in (first, dear):
        world.submit(one)
        world.bind(one)
    assert world.state("first") is State.PAUSED
    effects = world.do(*(PodGone(member.uid) for member in members(first.done())))
    assert not any(isinstance(effect, Remember) for effect in effects)  # a pause does not make RRH rank the jobs again
    world.bind(dear)
    assert world.reason("first") == "WaitingForPods"
    world.end(dear)
    # a delay of late would cost more than the utility of first
    world.submit(trains("late", 4, 30.0, steep=4.0, target=4.0))
    assert world.gang("late").admitted
    world.do(*(PodSeen(world.fresh(member)) for member in members(first.done())))
    assert world.reason("first") == "WaitingForRoom"


@pytest.mark.parametrize(("fairness", "small", "large"), [(0.1, 7, 1), (0.5, 12, 0)])
def test_dorm_fills_the_cluster_within_its_bound_of_unfairness(fairness: float, small: int, large: int) -> None:
    """The fair shares are 7 workers and 1, and a worker of the job small uses more of its scarcest resource, memory."""
    world = World(Dorm()).nodes(node("n1", cpu=12, memory=64))
    jobs = [alone("small", 1, 2, most=12).done(), alone("large", 5, 1, most=2).done()]
    assert Dorm(fairness=fairness).numbers(world.snapshot, jobs) == {"job-small": small, "job-large": large}


@pytest.mark.parametrize(("changes", "new"), [(0.0, 0), (0.1, 6), (1.0, 12)])
def test_dorm_changes_few_running_jobs_at_once(changes: float, new: int) -> None:
    """Two jobs have six workers each; a third job could use more of the cluster with the same room."""
    world = World(Drf()).nodes(node("n1", cpu=12, memory=120))
    first, second = alone("a", 1, 1, most=12), alone("b", 1, 1, most=12)
    world.submit(first)
    world.bind(first)
    world.operate(first)
    world.submit(second)
    for one in (first, first, second):
        world.operate(one)
    world.pass_time(1.0)
    assert [world.gang(name).workers for name in ("a", "b")] == [6, 6]
    third = alone("c", 1, 10, most=12).done()
    jobs = [world.snapshot.jobs["job-a"], world.snapshot.jobs["job-b"], third]
    assert Dorm(fairness=10.0, changes=changes).numbers(world.snapshot, jobs)["job-c"] == new

"""The limit of resizes in any minute: a plan that needs more resizes than are left waits as a whole."""

import pytest

from policy.cluster.actions import Resize
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import MINUTE
from policy.systems import make_policy
from policy.systems.kod2 import Kod2
from tests.builders import JobBuilder, State, World, job, node

POLICIES = ["kod2", "drs", "dragon"]


def light(name: str) -> JobBuilder:
    return job(name).workers(1, 4, asked=4, cpu=1)


def full(policy: str, limit: int) -> World:
    """Fill each of two nodes with a job of four workers."""
    parameters = {"urgent_threshold": 1.0} if policy == "dragon" else {}
    world = World(make_policy(policy, **parameters)).nodes(node("n1", cpu=4), node("n2", cpu=4))
    for name in ("a", "b"):
        world.start(light(name))
        world.pass_time(200.0)
        world.bind(light(name).replicas(world.gang(name).workers))
    assert [world.gang(name).workers for name in ("a", "b")] == [4, 4]
    world.effects.clear()
    return world.rules(resizes_per_minute=limit)


def resized(world: World) -> set[str]:
    return {effect.job_uid for effect in world.effects if isinstance(effect, Resize)}


HEAVY = job("heavy", utility=100.0).workers(5, cpu=1)  # needs room on both nodes


@pytest.mark.parametrize("policy", POLICIES)
def test_a_plan_that_needs_more_resizes_than_are_left_waits_whole_and_says_so(policy: str) -> None:
    world = full(policy, limit=1)
    world.submit(HEAVY)
    world.pass_time(2.0)
    assert resized(world) == set()
    assert world.gang("heavy").state is State.WAITING
    verdict = world.snapshot.verdicts["job-heavy"]
    assert verdict.reason is Reason.RESIZES_LIMITED
    assert verdict.detail == "the cluster's limit is 1 resize in any minute (resizes_per_minute)"


@pytest.mark.parametrize("policy", POLICIES)
def test_within_the_limit_it_is_made(policy: str) -> None:
    world = full(policy, limit=2)
    world.submit(HEAVY)
    world.pass_time(2.0)
    assert resized(world) == {"job-a", "job-b"}
    assert world.gang("heavy").state is State.PLANNED


def test_a_minute_after_the_last_resizes_it_goes_on_and_the_policy_knows_when() -> None:
    world = full("kod2", limit=2)
    world.submit(job("first", utility=50.0).workers(2, cpu=1))
    (shrunk,) = resized(world)
    began = world.now
    world.operate(light(shrunk.removeprefix("job-")))
    world.bind(job("first", utility=50.0).workers(2, cpu=1))
    world.submit(job("heavy", utility=100.0).workers(4, cpu=1))
    assert world.snapshot.verdicts["job-heavy"].reason is Reason.RESIZES_LIMITED
    world.pass_time(MINUTE - 1.0)
    assert world.gang("heavy").state is State.WAITING
    assert Kod2().next_change(world.snapshot, world.now) == began + MINUTE
    world.pass_time(1.0)
    assert world.gang("heavy").state is State.PLANNED


def test_so_many_jobs_grow_in_a_minute_and_the_others_in_the_next() -> None:
    world = World().nodes(node("n1", cpu=9)).rules(resizes_per_minute=2)
    jobs = [job(name).workers(1, 2, asked=1, cpu=1) for name in ("a", "b", "c")]
    world.submit(*jobs)
    for one in jobs:
        world.bind(one)
    world.pass_time(1.0)
    assert sorted(world.gang(name).workers for name in ("a", "b", "c")) == [1, 2, 2]
    world.pass_time(MINUTE)
    assert [world.gang(name).workers for name in ("a", "b", "c")] == [2, 2, 2]


def test_without_a_limit_nothing_is_remembered() -> None:
    world = full("kod2", limit=0)
    world.submit(HEAVY)
    assert resized(world) == {"job-a", "job-b"}
    assert world.snapshot.resizes == ()

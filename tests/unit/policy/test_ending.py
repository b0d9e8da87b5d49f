"""A job some of whose workers have succeeded already is not resized."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policy.answers.standing import held_back
from policy.cluster.job import WORKER, Slot
from policy.cluster.pod import Phase
from policy.systems import make_policy
from tests.builders import JobBuilder, World, job, node

POLICIES = pytest.mark.parametrize("policy", ["kod2", "drs", "dragon"])


def running(policy: str, *, keeps_ended: bool, cpu: int) -> tuple[World, JobBuilder]:
    """Start an elastic job of 2 to 8 workers with four workers of one core each; return the world and the job."""
    world = World(make_policy(policy)).nodes(node("n1", cpu=cpu))
    one = job("a").workers(2, 8, asked=4, cpu=1).with_(keeps_ended=keeps_ended)
    world.start(one)
    assert world.gang("a").workers == 4
    return world, one


def succeed(world: World, *indices: int) -> None:
    for index in indices:
        pod = world.snapshot.member(world.snapshot.gang("job-a").job_uid, Slot(WORKER, index))
        assert pod is not None
        world.see(replace(pod, phase=Phase.SUCCEEDED, version=pod.version + 1))


def later(world: World) -> None:
    for _ in range(20):
        world.pass_time(60.0)


@POLICIES
def test_it_does_not_grow_into_the_room_of_those_that_are_done(policy: str) -> None:
    world, _ = running(policy, keeps_ended=True, cpu=4)
    succeed(world, 0, 1)
    later(world)
    assert world.gang("a").workers == 4
    told = held_back(world.snapshot, world.snapshot.jobs["job-a"], world.policy, world.now)
    assert told == "its end: some of its workers have finished already"


@pytest.mark.parametrize(("keeps_ended", "workers"), [(True, 4), (False, 2)])
def test_where_each_has_work_of_its_own_it_gives_nobody_up(keeps_ended: bool, workers: int) -> None:
    world, _ = running("kod2", keeps_ended=keeps_ended, cpu=4)
    succeed(world, 0)
    world.submit(job("heavy", utility=50.0).workers(3, cpu=1))
    assert world.gang("a").workers == workers

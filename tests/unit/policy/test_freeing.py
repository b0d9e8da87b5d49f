"""Room that is freed for a job goes to that job, however long the pods take to go, and whichever job waits too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policy.cluster.actions import ShrinkStalled
from policy.systems import make_policy
from policy.systems.base import Policy
from tests.builders import JobBuilder, PodGone, Resize, State, World, job, node

LIGHT = job("light").ps(1, cpu=1).workers(1, 4, asked=4, cpu=2)
HEAVY = job("heavy", utility=50.0).ps(1, cpu=1).workers(3, cpu=2).arrived(10)
THIRD = job("third", utility=0.5).ps(1, cpu=1).workers(3, cpu=2).arrived(11)

ELASTIC = [
    make_policy("kod2"),
    make_policy("drs"),
    make_policy("dragon", urgent_threshold=5.0, idle_threshold=10.0),
]


def freeing(policy: Policy) -> World:
    """Make a node full of a light job, which is to give up three workers for a heavy one; a third job waits."""
    world = World(policy).nodes(node("n1", cpu=10)).start(LIGHT)
    world.now += 10
    world.submit(HEAVY)
    world.pass_time(10)
    world.submit(THIRD)
    assert (world.gang("light").workers, world.state("heavy")) == (1, State.PLANNED)
    return world


def obey(world: World) -> list[str]:
    """Mark the workers beyond the target as terminating, as the operator's deletion does; return their uids."""
    given = world.gang("light").workers
    world.see(JobBuilder(world.snapshot.jobs["job-light"]).replicas(given))
    going = [pod for pod in world.snapshot.pods_of("job-light") if pod.slot and pod.slot.role == "worker"]
    going = [pod for pod in going if pod.slot and pod.slot.index >= given]
    world.see(*(replace(pod, terminating=True) for pod in going))
    return [pod.uid for pod in going]


def pass_seconds(world: World, seconds: int) -> None:
    for _ in range(seconds):
        world.pass_time(1.0)
        assert world.state("third") is State.WAITING


@pytest.mark.parametrize("policy", ELASTIC, ids=lambda policy: policy.name)
def test_pods_that_take_long_to_stop_keep_the_room_for_whom_they_were_told_to_go(policy: Policy) -> None:
    world = freeing(policy)
    uids = obey(world)
    pass_seconds(world, 300)
    assert world.state("heavy") is State.PLANNED
    world.do(*(PodGone(uid) for uid in uids))
    world.bind(HEAVY)
    assert (world.state("heavy"), world.state("third")) == (State.RUNNING, State.WAITING)


@pytest.mark.parametrize("policy", ELASTIC, ids=lambda policy: policy.name)
def test_room_that_nobody_frees_is_given_back_once_and_nobody_is_turned_to_and_fro(policy: Policy) -> None:
    world = freeing(policy)
    world.effects.clear()
    pass_seconds(world, 570)  # less than the starvation limit
    told = [(effect.job_uid, effect.workers) for effect in world.effects if isinstance(effect, Resize)]
    assert told == [("job-light", 4)]
    late = [effect for effect in world.effects if isinstance(effect, ShrinkStalled)]
    assert late == [ShrinkStalled("job-light", 1, 3, on_behalf_of="job-heavy")] * 2
    assert world.gang("light").nodes.keys() == {pod.slot for pod in world.snapshot.pods_of("job-light")}


@pytest.mark.parametrize("policy", ELASTIC, ids=lambda policy: policy.name)
def test_a_claim_that_is_made_anew_takes_room_that_came_meanwhile(policy: Policy) -> None:
    world = freeing(policy)
    obey(world)
    world.see(node("n2", cpu=10))
    pass_to = world.snapshot.rules.freeing_seconds + 1
    world.pass_time(pass_to)
    assert set(world.plan("heavy").values()) == {"n2"}

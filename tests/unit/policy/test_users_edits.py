"""A user takes members out of a job that is planned or runs: they leave its plan, and their room is free."""

from __future__ import annotations

import pytest

from policy.cluster.actions import RefuseBind
from policy.cluster.events import PodGone
from policy.cluster.gang import State
from policy.cluster.job import PS, WORKER, Slot
from policy.cluster.reasons import Reason
from tests.builders import World, job, node, res

TWO = job("a").ps(2, cpu=2).workers(2, cpu=1)
ONE = job("a").ps(1, cpu=2).workers(2, cpu=1)
UID = TWO.done().uid
LEFT = {Slot(PS, 0): "n1", Slot(WORKER, 0): "n1", Slot(WORKER, 1): "n1"}


def second_ps(world: World) -> str:
    return next(pod.uid for pod in world.snapshot.every_pod_of(UID) if pod.slot == Slot(PS, 1))


@pytest.mark.parametrize("pod_first", [False, True])
def test_room_of_a_ps_that_is_taken_out_of_a_running_job_is_free(pod_first: bool) -> None:
    world = World().nodes(node("n1", cpu=16))
    world.start(TWO)
    going = second_ps(world)
    if pod_first:
        world.do(PodGone(going))
        # as long as the job's spec still has it, a lost member keeps its planned node
        assert world.snapshot.gang(UID).nodes == {**LEFT, Slot(PS, 1): "n1"}
    world.see(ONE)
    world.do(*() if pod_first else [PodGone(going)])
    gang = world.snapshot.gang(UID)
    assert (gang.state, gang.nodes) == (State.RUNNING, LEFT)
    assert world.snapshot.charged["n1"]["cpu"] == res(4)["cpu"]


def test_a_ps_that_is_put_back_is_given_a_place_again() -> None:
    world = World().nodes(node("n1", cpu=16))
    world.start(TWO)
    world.see(ONE)
    world.see(TWO)
    assert world.snapshot.gang(UID).nodes == {**LEFT, Slot(PS, 1): "n1"}


def test_a_member_at_the_barrier_that_is_taken_out_is_refused_and_the_others_start() -> None:
    world = World().nodes(node("n1", cpu=16))
    world.submit(TWO)
    going = second_ps(world)
    world.hold(going)
    assert RefuseBind(going, Reason.PLAN_CHANGED) in world.see(ONE)
    world.bind(ONE)
    assert world.snapshot.gang(UID).state is State.RUNNING
    assert world.snapshot.gang(UID).nodes == LEFT


def test_a_pod_that_the_job_does_not_name_has_no_place_in_a_plan_that_is_found_after_a_restart() -> None:
    world, again = World().nodes(node("n1", cpu=16)), World().nodes(node("n1", cpu=16))
    world.start(TWO)
    world.see(ONE)
    pods = world.snapshot.every_pod_of(UID)
    again.see(ONE, *pods)
    assert again.snapshot.gang(UID).nodes == world.snapshot.gang(UID).nodes == LEFT
    assert again.snapshot.charged == world.snapshot.charged

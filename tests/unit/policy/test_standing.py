"""What a running job is told: why it is on its nodes, what traffic crosses the network, and what hinders its growth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policy.answers.explanation import Grounds
from policy.answers.hindrances import grows
from policy.answers.inputs import inputs_of
from policy.answers.standing import grounds
from policy.cluster.actions import Admit, Effect, Reject, Resize
from policy.cluster.reasons import Reason
from policy.cluster.training import Training
from policy.systems.kod2 import Kod2
from tests.builders import World, job, node


def told(world: World, name: str) -> Grounds:
    found = grounds(world.snapshot, world.snapshot.jobs[f"job-{name}"], world.policy, world.now)
    assert found is not None
    return found


def test_one_node_takes_all_of_it() -> None:
    world = World().nodes("n1").start(job("a").ps().workers(2))
    found = told(world, "a")
    assert "whole on n1" in found.placement
    assert (found.pairs, found.crossing, found.traffic) == (2, 0, "0 of 2 ps-worker pairs cross nodes")


def test_what_crosses_the_network_is_counted_and_weighed() -> None:
    training = Training(gradient=100.0, seconds=2.0)
    world = World().nodes(node("n1", cpu=5), node("n2", cpu=5))
    world.start(job("a", training=training).ps().workers(4, cpu=2, memory=1))
    found = told(world, "a")
    assert (found.pairs, found.crossing) == (4, 2)
    assert found.placement == "on 2 nodes (n1: 3, n2: 2); fewer nodes would not hold it now"
    # Two workers send and receive 100 MB each for every mini-batch of two seconds.
    assert all(fact in found.traffic for fact in ("2 of 4", "200 MB/s", "kohort.dev/training"))
    world.see(node("n3", cpu=20))
    assert told(world, "a").placement.endswith("it would now fit on 1 node, but running pods are not moved for it")


@pytest.mark.parametrize(("workers", "said"), [(1, ""), (2, "no ps: workers exchange gradients among themselves")])
def test_one_worker_alone_exchanges_nothing(workers: int, said: str) -> None:
    assert told(World().nodes("n1").start(job("a").workers(workers)), "a").traffic == said


def test_a_job_without_room_has_no_grounds() -> None:
    world = World().nodes("n1").start(job("a").workers(1))
    world.submit(job("b").workers(1, cpu=20).arrived(1))
    assert grounds(world.snapshot, world.snapshot.jobs["job-b"], world.policy, world.now) is None


def at_maximum() -> World:
    return World().nodes("n1").start(job("a").workers(1, 2))


def rigid() -> World:
    return World().nodes("n1").start(job("a").workers(2))


def no_room() -> World:
    return World().nodes(node("n1", cpu=5)).start(job("a").workers(1, 4))


def others_wait() -> World:
    world = World().nodes(node("n1", cpu=6)).start(job("a").workers(1, 8, cpu=2))
    world.submit(job("b", utility=0.001).workers(1, cpu=5, memory=1).arrived(1))
    world.see(node("n1", cpu=8))
    return world


def cooling() -> World:
    world = World().nodes("n1").start(job("a").workers(1, 5, cpu=2))
    world.submit(job("b", utility=9.0).workers(2, cpu=2, memory=1).arrived(1))
    world.operate(world.snapshot.jobs["job-a"])
    world.bind(world.snapshot.jobs["job-b"])
    world.end(world.snapshot.jobs["job-b"])
    return world


HELD = {
    "its maximum": (at_maximum, "nothing: it has as many workers as it may have"),
    "its bounds": (rigid, "its bounds: it is a rigid gang"),
    "room": (no_room, "room: no node that it may grow on has what one more worker asks for"),
    "the queue": (others_wait, "jobs that wait: free room is kept for them (team/b among them)"),
    "its cool-down": (cooling, "its cool-down: 60 s are left of 60 s"),
}


@pytest.mark.parametrize(("made", "text"), HELD.values(), ids=HELD.keys())
def test_what_growth_is_held_back_by(made: object, text: str) -> None:
    world: World = made()  # type: ignore[operator]
    assert not grows(world.snapshot, world.snapshot.jobs["job-a"], world.policy, world.now)
    assert told(world, "a").growth.startswith(text)


# -- The tests below are about the figures on which a decision was based. ------------------------


def test_a_shrink_tells_both_weights_and_what_the_rival_needs() -> None:
    world = World().nodes("n1").start(job("a").workers(1, 5, cpu=2))
    before = world.snapshot
    effects = world.submit(job("b", utility=9.0).workers(2, cpu=2, memory=1).arrived(1))
    found = inputs_of(before, world.snapshot, effects, world.policy, world.now)
    (at,) = (place for place, effect in enumerate(effects) if isinstance(effect, Resize))
    weight = Kod2().weights(world.snapshot)
    jobs = world.snapshot.jobs
    assert found[at] == {
        "workers": "5 of 1-5",
        "weight": f"{Kod2().published(weight(jobs['job-a'])):.4f}",
        "for": "team/b",
        "it needs": "4 cpu, 2 GiB memory",
        "its weight": f"{Kod2().published(weight(jobs['job-b'])):.4f}",
    }


def test_growth_tells_the_room_that_it_takes() -> None:
    world = World().nodes(node("n1", cpu=6)).start(job("a").workers(1, 8, cpu=2, memory=1))
    before = world.snapshot
    effects = world.see(node("n1", cpu=8))
    found = inputs_of(before, world.snapshot, effects, world.policy, world.now)
    assert [one["workers"] for one in found.values()] == ["3 of 1-8"]
    assert next(iter(found.values()))["free on n1"].startswith("0 cpu")


def test_a_refusal_tells_its_figures_and_a_start_needs_none() -> None:
    world = World().nodes("n1").start(job("a").workers(1))
    effects: list[Effect] = [Admit("job-a", 1, {}), Reject("job-a", Reason.REJECTED, "worth 1 of 5")]
    found = inputs_of(world.snapshot, world.snapshot, effects, world.policy, world.now)
    assert list(found) == [1]
    assert found[1]["figures"] == "worth 1 of 5"


def test_of_a_step_that_resizes_hundreds_only_some_are_told() -> None:
    world = World().nodes("n1").start(job("a").workers(1, 4))
    many: list[Effect] = [Resize("job-a", 2, {})] * 500
    assert len(inputs_of(world.snapshot, world.snapshot, many, world.policy, world.now)) == 64


def test_no_figure_is_made_of_a_job_that_is_gone() -> None:
    world = World().nodes("n1").start(job("a").workers(1, 4))
    gone = replace(world.snapshot, jobs={})
    assert inputs_of(world.snapshot, gone, [Resize("job-a", 2, {})], world.policy, world.now) == {}

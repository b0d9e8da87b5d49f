"""What-if: the same step on a copy; who would stand elsewhere, and that it then comes so."""

from __future__ import annotations

from policy.answers.whatif import Moved, submitted, what_if
from policy.cluster.events import NodeGone, NodeSeen
from policy.cluster.reasons import Reason
from policy.systems import make_policy
from tests.builders import World, job, node


def told(moved: tuple[Moved, ...]) -> dict[str, tuple[str, int]]:
    return {one.job.name: (one.after.state.value, one.after.workers) for one in moved}


def test_a_job_that_fits_would_start() -> None:
    world = World().nodes("n1")
    (new,) = what_if(world.snapshot, submitted(job("a").ps().workers(2, 3, asked=3).done()), world.policy, world.now)
    assert (new.before, new.after.state.value, new.after.workers) == (None, "planned", 3)
    assert set(new.after.nodes.values()) == {"n1"}


def test_a_job_that_asks_for_fewer_workers_than_its_minimum_is_given_that() -> None:
    world = World().nodes("n1")
    (new,) = what_if(world.snapshot, submitted(job("a").workers(2, 3, asked=1).done()), world.policy, world.now)
    assert (new.after.state.value, new.after.verdict, len(new.after.nodes) >= 2) == ("planned", None, True)


def test_who_would_be_shrunk_for_it_is_told_with_both_counts() -> None:
    world = World().nodes("n1").start(job("a").workers(1, 5, cpu=2))
    heavy = job("b", utility=9).workers(2, cpu=2).arrived(1).done()
    shrunk, new = what_if(world.snapshot, submitted(heavy), world.policy, world.now)
    assert shrunk.before is not None
    assert (shrunk.before.workers, shrunk.after.workers) == (5, 3)
    assert new.after.verdict is not None
    assert new.after.verdict.reason is Reason.ROOM_BEING_FREED


def test_nothing_is_changed_by_asking() -> None:
    world = World().nodes("n1").start(job("a").workers(1, 5, cpu=2))
    before = world.snapshot
    copy = dict(before.gangs), dict(before.charged), dict(before.jobs)
    what_if(before, submitted(job("b", utility=9).workers(2, cpu=2).done()), world.policy, world.now)
    assert (dict(before.gangs), dict(before.charged), dict(before.jobs)) == copy


def test_a_node_more_lets_the_waiting_one_start_and_a_node_less_hurts_who_is_on_it() -> None:
    world = World().nodes("n1").start(job("a").workers(4, cpu=2))
    world.submit(job("b").workers(3, cpu=2).arrived(1))
    assert told(what_if(world.snapshot, [NodeSeen(node("n2"))], world.policy, world.now)) == {"b": ("planned", 3)}
    assert told(what_if(world.snapshot, [NodeGone("n1")], world.policy, world.now))["a"][0] != "running"


def test_another_policy_decides_in_its_own_way() -> None:
    world = World(make_policy("kubeflow-spread")).nodes("n1").start(job("a").workers(1, 5, asked=3, cpu=2))
    assert what_if(world.snapshot, [], world.policy, world.now) == ()
    assert told(what_if(world.snapshot, [], make_policy("kod2"), world.now)) == {"a": ("running", 5)}


def test_what_is_told_is_what_then_happens() -> None:
    world = World().nodes("n1", "n2").start(job("a").workers(1, 4, cpu=2), job("c").workers(2, cpu=3))
    for index, shape in enumerate((job("d", utility=3).ps().workers(3, 6, asked=6, cpu=2), job("e").workers(9, cpu=2))):
        new = shape.arrived(10 + index).done()
        answer = what_if(world.snapshot, submitted(new), world.policy, world.now)
        world.submit(new)
        for one in answer:
            gang = world.snapshot.gang(one.job.uid)
            assert (gang.state, gang.workers, gang.nodes) == (one.after.state, one.after.workers, one.after.nodes)
        assert any(one.job.uid == new.uid for one in answer)

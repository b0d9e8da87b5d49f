"""What-if: a step on a copy of the snapshot says which jobs' places in the queue would change, and is right."""

from __future__ import annotations

from policy.answers.queue import places as queue
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


def places(moved: tuple[Moved, ...]) -> dict[str, tuple[int | None, int | None, str]]:
    """Return by job name the queue position before and after, and the job that is then directly before it."""
    return {
        one.job.name: (one.before.position if one.before else None, one.after.position,
                       one.after.ahead.name if one.after.ahead else "")
        for one in moved
    }  # fmt: skip


def full() -> World:
    """Fill a node with one job, and let two more wait."""
    world = World().nodes("n1").start(job("runs").workers(1, cpu=10, memory=2))
    world.submit(job("first", utility=2).workers(1, cpu=4), job("second").workers(1, cpu=4).arrived(1))
    return world


def test_a_waiting_job_that_is_only_pushed_back_is_told_with_its_places() -> None:
    world, new = full(), job("new", utility=1.5).workers(1, cpu=4).arrived(2).done()
    told = what_if(world.snapshot, submitted(new), world.policy, world.now)
    assert places(told) == {"second": (2, 3, "new"), "new": (None, 2, "first")}
    pushed = next(one for one in told if one.job.name == "second")
    assert pushed.before is not None
    assert (pushed.before.state, pushed.before.verdict) == (pushed.after.state, pushed.after.verdict)


def test_a_job_that_starts_leaves_the_queue_and_the_one_behind_it_moves_up() -> None:
    world = full()
    assert places(what_if(world.snapshot, [NodeSeen(node("n2", cpu=5))], world.policy, world.now)) == {
        "first": (1, None, ""), "second": (2, 1, ""),
    }  # fmt: skip


def test_the_places_of_now_are_those_of_the_policy_in_force() -> None:
    world = World().nodes("n1").start(job("runs").workers(1, cpu=10, memory=2))
    world.submit(job("light").workers(1, cpu=4), job("heavy", utility=9).workers(1, cpu=4).arrived(1))
    fifo = make_policy("fifo")
    assert places(what_if(world.snapshot, [], fifo, world.now, world.policy)) == {
        "light": (2, 1, ""), "heavy": (1, 2, "light"),
    }  # fmt: skip
    assert {place.job.name: place.position for place in queue(world.snapshot, fifo, world.now)} == {
        "light": 1, "heavy": 2,
    }  # fmt: skip


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

"""Members of a running gang that have no node are told: how many, what they lack, and that the gang is not whole."""

from __future__ import annotations

from policy.answers.explain import verdict_of
from policy.answers.standing import grounds
from policy.answers.unplaced import unplaced
from policy.cluster.reasons import Reason, Verdict
from tests.builders import World, job, members, node, w


def scaled_out() -> World:
    """Let a user scale a rigid job from one worker to four; the nodes have room for two."""
    world = World().nodes(node("n1", cpu=4), node("n2", cpu=3))
    world.start(job("fill").workers(5, cpu=1, memory=1))
    world.start(job("a").workers(1, cpu=1, memory=1))
    more = job("a").workers(4, cpu=1, memory=1).with_(version=9).done()
    world.see(more)
    world.see(*(one for one in members(more) if one.uid not in world.snapshot.pods))
    return world


def told(world: World) -> Verdict | None:
    return verdict_of(world.snapshot, world.snapshot.jobs["job-a"])


def test_members_beyond_the_room_there_is_are_told_with_what_they_lack() -> None:
    assert told(scaled_out()) == Verdict(
        Reason.MEMBERS_UNPLACED,
        "2 of 4 members have no node: a worker asks for 1 cpu, no node has more than 0 cpu free",
    )


def test_they_are_listed_by_job_and_slot() -> None:
    world = scaled_out()
    assert [(one.key, slots) for one, slots in unplaced(world.snapshot)] == [("team/a", [w(2), w(3)])]


def test_a_job_in_part_is_not_told_as_placed_whole() -> None:
    world = scaled_out()
    found = grounds(world.snapshot, world.snapshot.jobs["job-a"], world.policy, world.now)
    assert found is not None
    assert found.placement == "in part (n2: 2); 2 of its members have no node"


def test_what_is_lifted_places_them_and_nothing_is_told_any_more() -> None:
    world = scaled_out()
    world.see(node("n3", cpu=2))
    assert told(world) is None
    assert list(unplaced(world.snapshot)) == []
    assert len(world.gang("a").nodes) == 4


def test_a_gang_that_waits_as_a_whole_is_not_one_of_them() -> None:
    world = World().nodes(node("n1", cpu=1))
    world.submit(job("a").workers(4, cpu=1, memory=1))
    assert list(unplaced(world.snapshot)) == []

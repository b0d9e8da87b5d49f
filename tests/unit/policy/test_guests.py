"""Guests, the rebalancer: which jobs an idle node invites, which guests give way, and what is remembered of this."""

from __future__ import annotations

from dataclasses import replace

from policy.cluster.actions import Migrate
from policy.cluster.node import Node
from policy.cluster.pod import Phase
from policy.systems.guests import KEY, Guests
from tests.builders import JobBuilder, PodGone, PodSeen, State, World, job, node, w

NODES = ("n1", "n2", "n3")


def alone(name: str, cpu: float = 1) -> JobBuilder:
    return job(name).workers(1, cpu=cpu).with_(migratable=True)


def scene(*names: str, nodes: tuple[str | Node, ...] = NODES, policy: Guests | None = None) -> World:
    """Start a one-worker job of each name, placed over the nodes in turn."""
    world = World(policy or Guests()).nodes(*nodes)
    for index, name in enumerate(names):
        world.start(alone(name).arrived(index))
    return world


def look(world: World, seconds: float = 30.0) -> dict[str, str]:
    """Let the time pass, complete the migrations that were decided, and return the new node of each
    moved job by name.
    """
    world.pass_time(seconds)
    found = [effect for effect in world.effects if isinstance(effect, Migrate)]
    world.effects.clear()
    moved = {one.job_uid.removeprefix("job-"): next(iter(one.nodes.values())) for one in found}
    for name in moved:
        arrive(world, name)
    return moved


def ended(world: World, names: str) -> None:
    for name in names:
        world.end(alone(name))


def arrive(world: World, name: str) -> None:
    old = world.snapshot.member(f"job-{name}", w(0))
    assert old is not None
    world.do(PodGone(old.uid))
    world.do(PodSeen(world.fresh(replace(old, node="", phase=Phase.PENDING, plan=""))))
    world.bind(world.snapshot.jobs[f"job-{name}"])
    assert world.state(name) is State.RUNNING


def at(world: World, name: str) -> str:
    return world.gang(name).nodes[w(0)]


def test_an_idle_node_invites_the_oldest_job_of_the_fullest_node() -> None:
    world = scene(*"abcdefg")  # the jobs are placed so: n1 has a, d and g; n2 has b and e; n3 has c and f
    ended(world, "cf")
    assert look(world) == {"a": "n3"}
    assert world.snapshot.memory[KEY + "job-a"] == "n1"


def test_nobody_is_invited_from_a_node_of_one() -> None:
    world = scene("a", "b")
    assert look(world) == {}


def test_a_node_takes_one_guest_at_a_time() -> None:
    world = scene(*"abcdefg")
    ended(world, "cf")
    assert look(world) == {"a": "n3"}
    assert look(world) == {}
    ended(world, "a")
    assert look(world) == {"b": "n3"}


def test_invitations_keep_their_interval() -> None:
    # the jobs are placed so: n1 has a and e; n2 has b and f; n3 has c and g; n4 has d and h
    world = scene(*"abcdefgh", nodes=("n1", "n2", "n3", "n4"))
    ended(world, "dh")
    assert look(world, 10.0) == {"a": "n4"}
    ended(world, "a")
    assert look(world, 10.0) == {}
    assert look(world, 10.0) == {"b": "n4"}


def test_a_guest_gives_way_at_once_to_a_job_that_is_placed_there() -> None:
    world = scene(*"abcdef")  # the jobs are placed so: n1 has a and d; n2 has b and e; n3 has c and f
    ended(world, "cf")
    look(world)
    assert at(world, "a") == "n3"
    world.start(alone("g"), alone("h"))
    assert (at(world, "a"), at(world, "g"), at(world, "h")) == ("n3", "n1", "n2")
    world.effects.clear()
    in_that_step = world.submit(alone("i"))
    assert [effect.job_uid for effect in in_that_step if isinstance(effect, Migrate)] == ["job-a"]
    assert look(world, 0.0) == {"a": "n1"}
    assert KEY + "job-a" not in world.snapshot.memory


def test_a_guest_that_gives_way_prefers_another_empty_node() -> None:
    world = scene(*"abcdefgh", nodes=("n1", "n2", "n3", "n4"))
    ended(world, "dhcg")
    assert look(world) == {"a": "n4", "b": "n3"}
    world.start(alone("i"), alone("j"))
    ended(world, "b")
    world.start(alone("k"))
    ended(world, "k")
    world.start(alone("l"))
    assert look(world, 0.0) == {"a": "n3"}
    assert world.snapshot.memory[KEY + "job-a"] == "n1"


def test_a_job_that_may_not_be_moved_is_not_invited() -> None:
    world = World(Guests()).nodes("n1", "n2").start(job("a").workers(1), job("b").workers(1), job("c").workers(1))
    world.end(job("b").workers(1))
    assert look(world) == {}


def test_a_guest_without_room_at_home_stays() -> None:
    world = scene("a", "b", "c", nodes=(node("n1", cpu=3), "n2"))
    ended(world, "b")
    assert look(world) == {"a": "n2"}
    world.see(node("n1", cpu=1))
    assert look(world.start(alone("d", cpu=1))) == {}
    assert at(world, "a") == "n2"


def test_nobody_moves_while_somebody_waits_for_room() -> None:
    world = scene("a", "b", "c", nodes=("n1", "n2"))
    world.submit(alone("x", cpu=10))
    ended(world, "b")
    world.submit(alone("y", cpu=10))
    assert world.reason("y") == "WaitingForRoom"
    assert look(world) == {}


def test_guests_that_have_ended_are_forgotten() -> None:
    world = scene("a", "b", "c", nodes=("n1", "n2"))
    ended(world, "b")
    assert look(world) == {"a": "n2"}
    ended(world, "a")
    world.pass_time(1)
    assert [key for key in world.snapshot.memory if key.startswith(KEY)] == []


def test_a_guest_that_is_released_is_at_home_where_it_is_placed_next() -> None:
    world = scene("a", "b", "c", nodes=("n1", "n2"))
    ended(world, "b")
    assert look(world) == {"a": "n2"}
    world.see(alone("a").with_(suspended=True))
    assert world.state("a") is State.RELEASING
    assert [key for key in world.snapshot.memory if key.startswith(KEY)] == []

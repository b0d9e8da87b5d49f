"""A plan is reported as done in the step that sees the API server show it, and not before."""

from __future__ import annotations

from dataclasses import replace

from policy.cluster.actions import Migrate, Shown
from policy.cluster.gang import State
from policy.cluster.pod import Phase
from tests.builders import (
    BindDone,
    BindRefused,
    JobBuilder,
    JobSeen,
    Led,
    NodeSeen,
    PodGone,
    PodSeen,
    Synced,
    World,
    job,
    members,
    node,
    ps,
    w,
)
from tests.unit.policy.test_migrate import Mover

PAIR = job("a").ps(1, cpu=1).workers(1, cpu=1)
WIDE = job("wide", utility=0.1).workers(1, 4, asked=4, cpu=2)
HEAVY = job("heavy", utility=99.0).workers(1, cpu=6).arrived(10)


def shown(world: World) -> list[Shown]:
    """Return the Shown effects since the last call."""
    told = [effect for effect in world.effects if isinstance(effect, Shown)]
    world.effects.clear()
    return told


def test_a_gang_is_bound_once_every_member_of_its_minimum_is() -> None:
    world = World().nodes("n1")
    world.submit(PAIR)
    assert shown(world) == [], "it has a plan"
    sent = [effect for uid in ("uid-a-ps-0", "uid-a-worker-0") for effect in world.hold(uid)]
    assert shown(world) == [], "its bindings are sent"
    world.answer(sent[:1])
    assert shown(world) == [], "one of the two is made"
    world.do(BindDone("uid-a-worker-0", "n1"))
    assert shown(world) == [Shown("job-a", "Bound", workers=1, members=2, hosts=1)]
    world.pass_time(1)
    assert shown(world) == []


def test_a_gang_whose_binding_is_refused_is_never_bound() -> None:
    world = World().nodes("n1")
    world.submit(PAIR)
    for uid in ("uid-a-ps-0", "uid-a-worker-0"):
        world.hold(uid)
    world.do(BindRefused("uid-a-ps-0", "no"), BindRefused("uid-a-worker-0", "no"))
    assert world.state("a") is State.WAITING
    assert shown(world) == []


def test_what_is_found_bound_after_a_restart_is_no_news() -> None:
    world = World()
    made = PAIR.done()
    pods = [replace(pod, node="n1", phase=Phase.RUNNING) for pod in members(made)]
    world.do(NodeSeen(node("n1")), JobSeen(made), *map(PodSeen, pods), Synced())
    assert world.state("a") is State.RUNNING
    world.do(Led(False))
    world.do(Led(True))
    assert shown(world) == []


def shrinking() -> World:
    world = World().nodes(node("n1", cpu=8)).start(WIDE)
    world.submit(HEAVY)
    assert world.gang("wide").workers == 1
    shown(world)
    return world


def test_a_job_is_shrunk_once_its_object_says_so_and_the_pods_are_gone() -> None:
    world = shrinking()
    world.see(JobBuilder(world.snapshot.jobs["job-wide"]).replicas(1))
    assert shown(world) == [], "its pods are still there"
    world.do(PodGone("uid-wide-worker-3"), PodGone("uid-wide-worker-2"))
    assert shown(world) == []
    world.do(PodGone("uid-wide-worker-1"))
    assert shown(world) == [Shown("job-wide", "Shrunk", 1, 1, 1, before=4, on_behalf_of="job-heavy")]
    world.pass_time(1)
    assert shown(world) == []


def test_pods_that_are_gone_are_no_shrink_while_the_object_asks_for_as_many_as_before() -> None:
    world = shrinking()
    world.do(*(PodGone(f"uid-wide-worker-{index}") for index in (1, 2, 3)))
    assert shown(world) == []


def test_a_shrink_that_is_taken_back_is_never_told() -> None:
    world = shrinking()
    for _ in range(300):
        world.pass_time(1)
    assert world.gang("wide").workers == 4
    assert shown(world) == []


def test_a_job_is_grown_once_its_new_workers_are_bound() -> None:
    world = World().nodes(node("n1", cpu=1)).start(job("a").workers(1, 3, asked=1, cpu=1))
    world.see(node("n1", cpu=3))
    while world.gang("a").workers < 3:
        world.pass_time(1)
    shown(world)
    world.see(JobBuilder(world.snapshot.jobs["job-a"]).replicas(3))
    this = world.snapshot.jobs["job-a"]
    world.do(*(PodSeen(world.fresh(pod)) for pod in members(this) if pod.slot != w(0)))
    assert shown(world) == [], "the pods are there and have no node"
    world.bind(this)
    assert shown(world) == [Shown("job-a", "Grown", 3, 3, 1, before=1)]


def test_a_worker_that_is_replaced_is_no_growth() -> None:
    world = World().nodes(node("n1", cpu=4)).start(job("a").workers(1, 3, asked=3, cpu=1))
    shown(world)
    world.do(PodGone("uid-a-worker-2"))
    (lost,) = [pod for pod in members(world.snapshot.jobs["job-a"]) if pod.slot == w(2)]
    world.do(PodSeen(world.fresh(lost)))
    world.bind(world.snapshot.jobs["job-a"])
    assert world.snapshot.member("job-a", w(2)).node == "n1"  # type: ignore[union-attr]
    assert shown(world) == []


def test_a_gang_is_repaired_once_its_lost_member_is_bound_again() -> None:
    world = World().nodes("n1").start(PAIR)
    shown(world)
    world.do(PodGone("uid-a-worker-0"))
    assert world.state("a") is State.REPAIRING
    (lost,) = [pod for pod in members(PAIR.done()) if pod.slot == w(0)]
    world.do(PodSeen(world.fresh(lost)))
    assert shown(world) == []
    world.bind(PAIR)
    assert shown(world) == [Shown("job-a", "Repaired", 1, 2, 1)]


def test_a_gang_is_moved_once_its_members_are_on_their_new_nodes() -> None:
    world = World(Mover()).nodes("n1", "n2").start(PAIR)
    there = next(iter(world.gang("a").nodes.values()))
    other = "n2" if there == "n1" else "n1"
    shown(world)
    world.policy.moves = {"job-a": {ps(0): other, w(0): other}}  # type: ignore[attr-defined]
    effects = world.pass_time(0)
    assert any(isinstance(effect, Migrate) for effect in effects)
    assert shown(world) == []
    for pod in list(world.snapshot.pods.values()):
        world.do(PodGone(pod.uid))
    world.do(*(PodSeen(world.fresh(pod)) for pod in members(PAIR.done())))
    assert shown(world) == []
    world.bind(PAIR)
    assert shown(world) == [Shown("job-a", "Moved", 1, 2, 1)]


def test_a_move_that_is_given_up_is_none() -> None:
    world = World(Mover()).nodes("n1", "n2").start(PAIR)
    there = next(iter(world.gang("a").nodes.values()))
    other = "n2" if there == "n1" else "n1"
    world.policy.moves = {"job-a": {ps(0): other, w(0): other}}  # type: ignore[attr-defined]
    world.pass_time(0)
    shown(world)
    world.see(replace(world.snapshot.nodes[other], ready=False))
    assert world.state("a") is State.RUNNING
    assert shown(world) == []

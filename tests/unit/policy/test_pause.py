"""A paused gang keeps its place in the queue and gives up its room; and numbers of ps that change."""

from __future__ import annotations

from dataclasses import dataclass

from policy.cluster.actions import Action, Decision
from policy.cluster.job import PS, Slot
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.refusal import refuse_pod
from policy.cluster.snapshot import Snapshot
from policy.desired import desired
from policy.systems.base import Policy
from tests.builders import Admit, PodGone, RefuseBind, Resize, State, Tick, World, job, node, pod, ps, w

ELASTIC = job("a", ps_elastic=True).ps(2, cpu=1).workers(1, 3, asked=2, cpu=1)
TWO = {ps(0): "n1", ps(1): "n1", w(0): "n1", w(1): "n1"}


@dataclass(frozen=True)
class Script(Policy):
    """A policy that returns the actions given by the test in one decision, and none later."""

    actions: tuple[Action, ...] = ()
    name: str = "script"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        del now
        waiting = {job.uid: Verdict(Reason.PAUSED) for job in snapshot.waiting()}
        return Decision(self.actions, waiting)


def do(world: World, *actions: Action) -> tuple[object, ...]:
    world.policy = Script(actions)
    effects = world.do(Tick())
    world.policy = Script()
    return effects


def running() -> World:
    world = World(Script()).nodes(node("n1"), node("n2"))
    world.submit(ELASTIC)
    do(world, Admit("job-a", 2, TWO))
    world.bind(ELASTIC)
    assert world.state("a") is State.RUNNING
    return world


def test_a_pause_takes_the_plan_and_has_the_members_released() -> None:
    world = running()
    do(world, Resize("job-a", 0))
    assert world.state("a") is State.PAUSED
    assert world.plan("a") == {}
    assert sorted(order.name for order in desired(world.snapshot, 500).release) == [
        "a-ps-0",
        "a-ps-1",
        "a-worker-0",
        "a-worker-1",
    ]
    assert desired(world.snapshot, 500).replicas == ()
    world.do(*(PodGone(p.uid) for p in list(world.snapshot.pods_of("job-a"))))
    assert world.snapshot.charged == {}


def test_it_waits_while_it_pauses_and_its_pods_are_told_so() -> None:
    world = running()
    do(world, Resize("job-a", 0))
    world.do(*(PodGone(p.uid) for p in list(world.snapshot.pods_of("job-a"))))
    world.see(pod("again", ELASTIC.done(), w(0)))
    assert [j.uid for j in world.snapshot.waiting()] == ["job-a"]
    assert refuse_pod(world.snapshot, world.pod("again")) is Reason.PAUSED


def test_it_is_admitted_again_with_its_first_admission() -> None:
    world = running()
    first = world.gang("a").admitted_at
    do(world, Resize("job-a", 0))
    world.do(*(PodGone(p.uid) for p in list(world.snapshot.pods_of("job-a"))))
    world.now += 100
    do(world, Admit("job-a", 1, {ps(0): "n2", w(0): "n2"}, ps=1))
    world.see(pod("p", ELASTIC.done(), ps(0)), pod("q", ELASTIC.done(), w(0)))
    world.bind(ELASTIC)
    assert world.state("a") is State.RUNNING
    assert world.gang("a").admitted_at == first is not None


def test_held_binds_are_refused_by_a_pause() -> None:
    world = World(Script()).nodes(node("n1"))
    world.submit(ELASTIC)
    do(world, Admit("job-a", 2, TWO))
    world.hold("uid-a-worker-0")
    assert RefuseBind("uid-a-worker-0", Reason.PAUSED) in do(world, Resize("job-a", 0))


def test_members_that_come_back_on_a_node_do_not_end_the_pause() -> None:
    world = running()
    do(world, Resize("job-a", 0))
    world.see(world.pod("a-worker-0"))
    assert world.state("a") is State.PAUSED


def test_fewer_ps_than_asked_are_whole_where_the_policy_says_so() -> None:
    world = World(Script()).nodes(node("n1"))
    world.submit(ELASTIC)
    do(world, Admit("job-a", 2, {slot: "n1" for slot in TWO if slot != ps(1)}, ps=1))
    world.bind(ELASTIC)
    assert world.state("a") is State.RUNNING
    assert refuse_pod(world.snapshot, world.pod("a-ps-1")) is Reason.SURPLUS


def test_ps_beyond_the_new_number_are_released_and_their_room_is_free_when_they_are_gone() -> None:
    world = running()
    before = world.snapshot.charged["n1"]["cpu"]
    do(world, Resize("job-a", 2, ps=1))
    assert Slot(PS, 1) not in world.gang("a").nodes
    assert [order.name for order in desired(world.snapshot, 500).release] == ["a-ps-1"]
    world.do(PodGone("uid-a-ps-1"))
    assert world.state("a") is State.RUNNING
    assert world.snapshot.charged["n1"]["cpu"] == before - 1000


def test_ps_that_are_added_are_bound_beside_the_running_gang() -> None:
    world = World(Script()).nodes(node("n1"))
    world.submit(ELASTIC)
    do(world, Admit("job-a", 2, {slot: "n1" for slot in TWO if slot != ps(1)}, ps=1))
    world.bind(ELASTIC)
    do(world, Resize("job-a", 2, {ps(1): "n1"}, ps=2))
    world.bind(ELASTIC)
    assert world.state("a") is State.RUNNING
    assert world.pod("a-ps-1").node == "n1"

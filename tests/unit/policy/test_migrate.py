"""Migration of a running gang: its room, the controller's orders, what counts as lost, and how it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from policy.cluster.actions import Action, Decision, Migrate, Resize
from policy.cluster.events import Saved
from policy.cluster.job import Slot
from policy.cluster.lifecycle import InvalidMoveError
from policy.cluster.pod import Phase
from policy.cluster.snapshot import Snapshot
from policy.desired import desired
from policy.systems.base import Policy
from policy.systems.fleet import room_after
from policy.systems.kod2 import Kod2
from tests.builders import (
    JobBuilder,
    JobSeen,
    Led,
    NodeGone,
    NodeNotOffered,
    NodeSeen,
    PodGone,
    PodSeen,
    State,
    Synced,
    World,
    job,
    members,
    node,
    ps,
    res,
    w,
)

PAIR = job("a").ps(1).workers(1)
ALONE = job("a").workers(1)


@dataclass
class Mover(Policy):
    """A policy that admits as KOD2 does, and migrates the jobs in ``moves`` once to the given nodes."""

    name: str = "mover"
    moves: dict[str, Mapping[Slot, str]] = field(default_factory=dict)

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        actions: list[Action] = [Migrate(uid, nodes) for uid, nodes in self.moves.items()]
        self.moves = {}
        rest = Kod2().decide(snapshot, now)
        return replace(rest, actions=(*rest.actions, *actions))


def running(made: object = PAIR, *nodes: str) -> World:
    return World(Mover()).nodes(*(nodes or ("n1", "n2", "n3"))).start(made)  # type: ignore[arg-type]


def moved(world: World, where: str, *slots: Slot) -> World:
    assert isinstance(world.policy, Mover)
    world.policy.moves = {"job-a": dict.fromkeys(slots or (ps(0), w(0)), where)}
    world.pass_time(0)
    return world


def evicted(world: World) -> list[str]:
    return [order.name for order in desired(world.snapshot, 500).evict]


def restart(world: World, *names: str) -> None:
    """Let the old pods go, create their successors as the operator does, and bind these."""
    for name in names:
        old = world.pod(name)
        world.do(PodGone(old.uid))
        made = world.fresh(replace(old, uid=f"uid-{name}", node="", phase=Phase.PENDING, terminating=False, plan=""))
        world.do(PodSeen(made))
    world.bind(PAIR)


def cpu(world: World, where: str) -> float:
    return (world.snapshot.nodes[where].allocatable["cpu"] - world.snapshot.free(where)["cpu"]) / 1000


def test_old_and_new_room_are_charged_until_the_old_pods_are_gone() -> None:
    world = running()
    assert world.plan("a") == {"ps-0": "n1", "worker-0": "n1"}
    moved(world, "n2")
    assert (world.state("a"), cpu(world, "n1"), cpu(world, "n2")) == (State.MIGRATING, 3, 3)
    world.do(PodGone(world.pod("a-ps-0").uid))
    assert (cpu(world, "n1"), cpu(world, "n2")) == (2, 3)
    restart(world, "a-worker-0")
    assert (cpu(world, "n1"), cpu(world, "n2")) == (0, 3)


def test_members_on_old_nodes_are_evicted_and_the_successors_are_not() -> None:
    world = moved(running(), "n2")
    assert evicted(world) == ["a-ps-0", "a-worker-0"]
    world.see(replace(world.pod("a-ps-0"), terminating=True))
    assert evicted(world) == ["a-worker-0"]
    restart(world, "a-ps-0")
    assert evicted(world) == ["a-worker-0"]
    restart(world, "a-worker-0")
    assert evicted(world) == []


def test_a_job_that_can_be_suspended_moves_by_its_operator() -> None:
    """We suspend the job, its operator deletes the pods, we resume it, and the successors are bound."""
    pair = PAIR.with_(suspends=True)
    world = moved(running(pair), "n2")
    assert ([order.suspend for order in desired(world.snapshot, 500).suspend], evicted(world)) == ([True], [])
    world.see(pair.with_(released=True))
    assert (world.state("a"), desired(world.snapshot, 500).suspend) == (State.MIGRATING, ())
    world.do(PodGone("uid-a-ps-0"), PodGone("uid-a-worker-0"))
    assert [order.suspend for order in desired(world.snapshot, 500).suspend] == [False]
    world.see(pair)
    world.do(*(PodSeen(world.fresh(made)) for made in members(pair.done())))
    world.bind(pair)
    assert (world.state("a"), world.plan("a")) == (State.RUNNING, {"ps-0": "n2", "worker-0": "n2"})
    assert desired(world.snapshot, 500).suspend == ()


@pytest.mark.parametrize("gone", [(), ("uid-a-ps-0",), ("uid-a-ps-0", "uid-a-worker-0")])
def test_a_suspended_job_whose_migration_takes_too_long_is_released(gone: tuple[str, ...]) -> None:
    pair = PAIR.with_(suspends=True)
    world = moved(running(pair), "n2")
    world.see(pair.with_(released=True))
    world.do(*(PodGone(uid) for uid in gone))
    world.pass_time(world.snapshot.rules.freeing_seconds + 1)
    rest = {"uid-a-ps-0", "uid-a-worker-0"}.difference(gone)
    world.do(*(PodGone(uid) for uid in sorted(rest)))
    world.see(pair)
    assert (world.state("a"), cpu(world, "n1"), cpu(world, "n2")) == (State.WAITING, 0, 0)


def test_a_user_who_suspends_it_meanwhile_is_obeyed() -> None:
    pair = PAIR.with_(suspends=True)
    world = moved(running(pair), "n2")
    world.see(pair.with_(released=True))
    world.see(pair.with_(suspended=True))
    assert (world.state("a"), cpu(world, "n2")) == (State.RELEASING, 0)


def test_news_of_an_old_pod_does_not_call_the_plan_back() -> None:
    world = moved(running(), "n2")
    world.see(replace(world.pod("a-ps-0"), woken="again"))
    assert (world.plan("a"), evicted(world)) == ({"ps-0": "n2", "worker-0": "n2"}, ["a-ps-0", "a-worker-0"])


def test_a_minimum_that_is_raised_on_the_way_does_not_hold_the_gang_up() -> None:
    """The minimum under which the gang was bound counts until it has reached the new minimum."""
    world = moved(running(), "n2")
    world.see(job("a").ps(1).workers(2, 2, asked=1))
    restart(world, "a-ps-0", "a-worker-0")
    assert (world.state("a"), world.gang("a").workers) == (State.RUNNING, 2)


def test_free_room_after_a_decision() -> None:
    """A decision's placements are charged once, and members that keep their node are not charged again."""
    world = running(job("a").ps(1).workers(1, 2, asked=1))
    snapshot = world.snapshot
    assert world.plan("a") == {"ps-0": "n1", "worker-0": "n1", "worker-1": "n1"}

    def free(*actions: Action) -> list[int]:
        room = room_after(snapshot, actions)
        return [room.free(name)["cpu"] // 1000 for name in ("n1", "n2", "n3")]

    kept = {ps(0): "n1", w(0): "n1", w(1): "n1"}
    assert free() == [5, 10, 10]
    assert free(Resize("job-a", 2, kept)) == [5, 10, 10]
    assert free(Resize("job-a", 2, {w(1): "n2"})) == [5, 8, 10]
    assert free(Migrate("job-a", dict.fromkeys(kept, "n3"))) == [5, 10, 5]


def test_it_runs_again_once_nobody_is_left_behind() -> None:
    world = moved(running(), "n2")
    restart(world, "a-ps-0")
    assert world.state("a") is State.MIGRATING
    restart(world, "a-worker-0")
    assert (world.state("a"), world.plan("a")) == (State.RUNNING, {"ps-0": "n2", "worker-0": "n2"})
    world.pass_time(1000)
    assert world.state("a") is State.RUNNING


def test_the_pods_that_go_are_no_losses() -> None:
    world = moved(running(), "n2")
    world.do(PodGone("uid-a-ps-0"), PodGone("uid-a-worker-0"))
    world.pass_time(world.snapshot.rules.repair_seconds + 1)
    assert world.state("a") is State.MIGRATING
    assert (cpu(world, "n1"), cpu(world, "n2")) == (0, 3)


def test_a_member_that_is_on_its_new_node_already_stays() -> None:
    """Only the worker gets another node, so the ps is not evicted."""
    world = running()
    assert isinstance(world.policy, Mover)
    world.policy.moves = {"job-a": {ps(0): "n1", w(0): "n2"}}
    world.pass_time(0)
    assert evicted(world) == ["a-worker-0"]
    restart(world, "a-worker-0")
    assert (world.state("a"), world.plan("a")) == (State.RUNNING, {"ps-0": "n1", "worker-0": "n2"})


def test_past_the_deadline_a_gang_that_was_not_evicted_stays() -> None:
    world = moved(running(), "n2")
    world.pass_time(world.snapshot.rules.freeing_seconds + 1)
    assert (world.state("a"), world.plan("a")) == (State.RUNNING, {"ps-0": "n1", "worker-0": "n1"})
    assert (evicted(world), cpu(world, "n2")) == ([], 0)


def test_past_the_deadline_half_a_gang_is_completed_where_its_pods_are() -> None:
    world = moved(running(), "n2")
    world.do(PodGone("uid-a-worker-0"))
    world.pass_time(world.snapshot.rules.freeing_seconds + 1)
    assert (world.state("a"), world.plan("a")) == (State.REPAIRING, {"ps-0": "n1", "worker-0": "n2"})
    world.do(PodSeen(world.fresh(members(PAIR.done())[1])))
    world.bind(PAIR)
    assert world.state("a") is State.RUNNING


def test_with_each_member_that_arrives_the_others_have_their_time_anew() -> None:
    """A PodDisruptionBudget may allow one eviction after another, so each arrival restarts the migration's deadline."""
    world = moved(running(), "n2")
    for name in ("a-ps-0", "a-worker-0"):
        world.pass_time(world.snapshot.rules.freeing_seconds - 10)
        restart(world, name)
    assert (world.state("a"), world.plan("a")) == (State.RUNNING, {"ps-0": "n2", "worker-0": "n2"})


def test_pods_that_take_long_to_end_are_waited_for() -> None:
    world = moved(running(), "n2")
    world.see(*(replace(pod, terminating=True) for pod in world.snapshot.pods_of("job-a")))
    for _ in range(3):
        world.pass_time(world.snapshot.rules.freeing_seconds)
    assert world.state("a") is State.MIGRATING
    restart(world, "a-ps-0")
    restart(world, "a-worker-0")
    assert (world.state("a"), world.plan("a")) == (State.RUNNING, {"ps-0": "n2", "worker-0": "n2"})


def test_pods_that_end_on_a_node_that_is_silent_are_not() -> None:
    world = moved(running(), "n2")
    world.see(*(replace(pod, terminating=True) for pod in world.snapshot.pods_of("job-a")), node("n1", ready=False))
    world.pass_time(world.snapshot.rules.freeing_seconds + 1)
    assert (world.state("a"), world.reason("a")) == (State.WAITING, "WaitingForPods")


def test_past_the_deadline_a_gang_without_pods_queues_again() -> None:
    world = moved(running(), "n2")
    world.do(PodGone("uid-a-ps-0"), PodGone("uid-a-worker-0"))
    world.pass_time(world.snapshot.rules.freeing_seconds + 1)
    assert (world.state("a"), world.reason("a")) == (State.WAITING, "WaitingForPods")
    assert (cpu(world, "n1"), cpu(world, "n2")) == (0, 0)


@pytest.mark.parametrize("change", [{"ready": False}, {"unschedulable": True}, None])
def test_a_new_node_that_is_lost_ends_the_migration(change: dict[str, bool] | None) -> None:
    world = moved(running(), "n2")
    world.do(NodeGone("n2")) if change is None else world.see(node("n2", **change))
    assert (world.state("a"), world.plan("a")) == (State.RUNNING, {"ps-0": "n1", "worker-0": "n1"})


def test_a_new_node_that_is_lost_when_half_have_arrived() -> None:
    world = moved(running(), "n2")
    restart(world, "a-ps-0")
    world.do(NodeGone("n2"))
    assert world.state("a") is State.REPAIRING
    assert world.plan("a")["worker-0"] == "n1"
    assert world.plan("a")["ps-0"] in ("n1", "n3")


def test_an_old_node_that_is_lost_only_makes_it_sooner() -> None:
    world = moved(running(), "n2")
    world.do(NodeGone("n1"), PodGone("uid-a-ps-0"), PodGone("uid-a-worker-0"))
    assert world.state("a") is State.MIGRATING
    world.do(*(PodSeen(world.fresh(made)) for made in members(PAIR.done())))
    world.bind(PAIR)
    assert (world.state("a"), world.plan("a")) == (State.RUNNING, {"ps-0": "n2", "worker-0": "n2"})


def test_a_successor_whose_node_is_not_offered_is_planned_elsewhere() -> None:
    world = moved(running(), "n2")
    old = world.pod("a-worker-0")
    made = world.fresh(replace(old, node="", phase=Phase.PENDING, plan=""))
    world.do(PodGone(old.uid))
    world.do(PodSeen(made))
    world.do(NodeNotOffered(made.uid, "n2"))
    assert (world.state("a"), world.plan("a")["worker-0"]) == (State.MIGRATING, "n1")


@pytest.mark.parametrize("change", [{"suspended": True}, {"deleting": True}])
def test_a_job_that_is_withdrawn_is_released(change: dict[str, bool]) -> None:
    world = moved(running(), "n2")
    world.see(PAIR.with_(**change))
    assert (world.state("a"), cpu(world, "n2")) == (State.RELEASING, 0)


@pytest.mark.parametrize("change", [{"suspended": True}, {"deleting": True}])
def test_a_job_that_is_withdrawn_between_its_nodes_queues_again(change: dict[str, bool]) -> None:
    """Simulation seed 100587: a user suspends the job when its old pods have gone and no new pod is bound."""
    world = moved(running(), "n2")
    world.do(PodGone("uid-a-ps-0"), PodGone("uid-a-worker-0"))
    world.see(PAIR.with_(**change))
    assert (world.state("a"), cpu(world, "n2")) == (State.WAITING, 0)


def test_a_job_that_ends_on_the_way_is_complete() -> None:
    world = moved(running(), "n2")
    world.end(PAIR)
    assert (world.state("a"), cpu(world, "n1"), cpu(world, "n2")) == (State.COMPLETED, 0, 0)


def test_a_user_who_lowers_the_maximum_is_obeyed_on_the_way() -> None:
    world = running(job("a").ps(1).workers(1, 2))
    moved(world, "n2", ps(0), w(0), w(1))
    world.see(job("a").ps(1).workers(1, 1))
    assert (world.state("a"), world.plan("a")) == (State.MIGRATING, {"ps-0": "n2", "worker-0": "n2"})


def test_only_a_running_gang_is_moved() -> None:
    world = World(Mover()).nodes("n1", "n2")
    world.submit(PAIR)
    with pytest.raises(InvalidMoveError, match="a planned gang cannot migrate"):
        moved(world, "n2")


def facts(world: World) -> list[object]:
    snapshot = world.snapshot
    return [
        *map(NodeSeen, snapshot.nodes.values()), *map(JobSeen, snapshot.jobs.values()),
        *map(PodSeen, snapshot.pods.values()), Synced(),
    ]  # fmt: skip


def test_after_a_restart_before_anything_went_it_stays() -> None:
    world = moved(running(), "n2")
    again = World(Mover(), world.now)
    again.do(*facts(world))  # type: ignore[arg-type]
    assert (again.state("a"), again.plan("a")) == (State.RUNNING, {"ps-0": "n1", "worker-0": "n1"})


def test_after_a_restart_in_the_middle_it_is_completed_where_its_pods_are() -> None:
    world = moved(running(), "n2")
    restart(world, "a-ps-0")
    world.do(PodGone("uid-a-worker-0"))
    again = World(Mover(), world.now)
    again.do(*facts(world))  # type: ignore[arg-type]
    assert (again.state("a"), again.plan("a")) == (State.REPAIRING, {"ps-0": "n2", "worker-0": "n2"})
    again.do(PodSeen(again.fresh(members(PAIR.done())[1])))
    again.bind(PAIR)
    assert again.state("a") is State.RUNNING


def test_a_replica_that_stops_leading_follows_the_pods() -> None:
    world = moved(running(), "n2")
    world.do(Led(False))
    assert (world.state("a"), world.plan("a")) == (State.RUNNING, {"ps-0": "n1", "worker-0": "n1"})
    assert evicted(world) == []


def test_nothing_is_promised_twice_on_the_way() -> None:
    """The room on the new node is charged from the first moment; the old room is free when the pod is gone."""
    world = World(Mover()).nodes(node("n1", cpu=2), node("n2", cpu=2)).start(ALONE)
    moved(world, "n2", w(0))
    world.submit(job("b").workers(1))
    assert (world.state("b"), world.over()) == (State.WAITING, [])
    world.do(PodGone("uid-a-worker-0"))
    assert world.plan("b") == {"worker-0": "n1"}
    assert world.snapshot.free("n2") == res(memory=28, pods=109)


# -- The tests below are about the checkpoint that a job saves before its migration. --------------


def asked(made: JobBuilder = PAIR) -> World:
    """Decide to move the job to n2, with 30 s in which the training may save first."""
    world = World(Mover()).rules(checkpoint_seconds=30.0).nodes("n1", "n2", "n3").start(made)
    return moved(world, "n2")


def to_save(world: World) -> list[str]:
    return [order.name for order in desired(world.snapshot, 500).checkpoint]


@pytest.mark.parametrize("suspends", [False, True])
def test_nobody_is_evicted_or_suspended_before_the_job_has_saved(suspends: bool) -> None:
    world = asked(PAIR.with_(suspends=suspends))
    wanted = desired(world.snapshot, 500)
    assert (wanted.evict, wanted.suspend) == ((), ())
    assert to_save(world) == ["a-ps-0", "a-worker-0"]
    world.do(Saved("job-a"))
    wanted = desired(world.snapshot, 500)
    assert (len(wanted.evict), len(wanted.suspend)) == ((0, 1) if suspends else (2, 0))
    assert to_save(world) == []


def test_a_pod_is_asked_to_save_once() -> None:
    world = asked()
    plan = world.gang("a").plan
    world.see(*(replace(world.pod(f"a-{slot}"), saves=plan) for slot in (ps(0), w(0))))
    assert to_save(world) == []


def test_a_job_that_never_says_that_it_saved_is_moved_after_its_time() -> None:
    world = asked()
    world.pass_time(29.0)
    assert evicted(world) == []
    world.pass_time(2.0)
    assert evicted(world) == ["a-ps-0", "a-worker-0"]
    world.pass_time(118.0)  # the deadline for the migration began only when the pods were evicted
    assert world.state("a") is State.MIGRATING
    world.pass_time(3.0)
    assert world.state("a") is State.RUNNING


def test_saved_means_nothing_to_a_job_that_was_not_asked() -> None:
    world = running()
    before = world.gang("a")
    world.do(Saved("job-a"), Saved("nobody"))
    assert world.gang("a") == before


def test_a_move_that_is_given_up_while_the_job_saves_disturbs_nobody() -> None:
    world = asked()
    world.do(NodeGone("n2"))
    assert (world.state("a"), world.gang("a").saving) == (State.RUNNING, False)
    assert (evicted(world), to_save(world)) == ([], [])

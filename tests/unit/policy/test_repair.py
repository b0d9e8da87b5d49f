"""Lost nodes and members: planned anew at once, repaired, or released as a whole and queued with the first arrival."""

from dataclasses import replace

import pytest

from policy.cluster.actions import Resize
from policy.cluster.gang import State
from policy.cluster.node import Node
from policy.cluster.pod import Phase
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import reason_of
from policy.desired import desired
from policy.systems import make_policy
from policy.systems.kod2 import Kod2
from tests.builders import (
    START,
    Bind,
    BindDone,
    BindRefused,
    JobBuilder,
    JobSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    RefuseBind,
    Released,
    Synced,
    World,
    job,
    members,
    node,
)

GANG = job("a").ps().workers(2)
GONE = {
    "cordoned": node("n1", unschedulable=True),
    "not ready": node("n1", ready=False),
    "deleted": None,
}


@pytest.mark.parametrize("change", GONE.values(), ids=GONE.keys())
def test_a_node_lost_before_the_bind_is_replanned_in_the_same_step(change: Node | None) -> None:
    world = World().nodes("n1", "n2")
    world.submit(GANG)
    assert set(world.plan("a").values()) == {"n1"}
    if change is None:
        world.do(NodeGone("n1"))
    else:
        world.see(change)
    assert (world.state("a"), set(world.plan("a").values())) == (State.PLANNED, {"n2"})


def test_bound_pods_on_a_cordoned_node_stay() -> None:
    world = World().nodes("n1", "n2").start(GANG)
    world.see(node("n1", unschedulable=True))
    assert (world.state("a"), set(world.plan("a").values())) == (State.RUNNING, {"n1"})


def test_a_lost_member_is_restarted_in_its_place_without_a_barrier() -> None:
    world = World().nodes("n1").start(GANG)
    lost = world.pod("a-worker-1")
    world.do(PodGone(lost.uid))
    assert world.state("a") is State.REPAIRING
    world.see(world.fresh(replace(lost, node="")))
    world.bind(GANG)
    assert world.state("a") is State.RUNNING


@pytest.mark.parametrize("seconds", [5, 30, 90])
def test_a_member_that_takes_its_time_to_stop_is_waited_for(seconds: int) -> None:
    """A drained pod may terminate for 30 s, and its successor gets its name, or its room, only when it is gone."""
    world = World().nodes("n1").start(GANG)
    lost = world.pod("a-worker-1")
    world.see(replace(lost, terminating=True))
    for _ in range(seconds):
        world.pass_time(1)
    world.do(PodGone(lost.uid))
    world.pass_time(world.snapshot.rules.repair_seconds - 1)
    assert world.state("a") is State.REPAIRING
    world.see(world.fresh(replace(lost, node="")))
    world.bind(GANG)
    assert world.state("a") is State.RUNNING


def test_a_member_that_stops_on_a_node_that_is_silent_is_not() -> None:
    world = World().nodes("n1", "n2").start(GANG)
    world.see(replace(world.pod("a-worker-1"), terminating=True), node("n1", ready=False))
    world.pass_time(world.snapshot.rules.repair_seconds + 1)
    assert world.state("a") is State.RELEASING


def test_a_gang_of_which_all_that_is_left_is_on_its_way_out_begins_at_its_barrier() -> None:
    """In simulation seed 111843 a late member was bound alone while all other members were terminating or gone."""
    world = World().nodes("n1").start(GANG)
    world.do(PodGone("uid-a-worker-1"))
    late = world.fresh(replace(members(GANG.done())[2], version=9))
    world.see(late)
    assert world.state("a") is State.REPAIRING
    world.see(*(replace(world.pod(name), terminating=True) for name in ("a-ps-0", "a-worker-0")))
    assert (world.state("a"), world.reason("a")) == (State.WAITING, "WaitingForPods")
    assert not [effect for effect in world.hold(late.uid, "n1") if isinstance(effect, Bind)]


def test_a_gang_that_cannot_be_mended_is_released_whole_and_queues_with_its_first_arrival() -> None:
    world = World(Kod2(starve_limit=20)).nodes("n1").start(GANG)
    world.do(PodGone("uid-a-worker-1"))
    world.pass_time(world.snapshot.rules.repair_seconds - 1)
    assert world.state("a") is State.REPAIRING
    effects = world.pass_time(2)
    assert [e.reason for e in effects if isinstance(e, Released)] == [Reason.REPAIR_FAILED]
    assert world.state("a") is State.RELEASING
    orders = desired(world.snapshot, 500).release
    assert {o.name for o in orders} == {"a-ps-0", "a-worker-0"}
    world.do(*(PodGone(o.uid) for o in orders))
    assert (world.state("a"), world.snapshot.jobs["job-a"].arrival) == (State.WAITING, START)


def test_a_job_that_backs_off_after_a_failed_repair_does_not_say_that_a_start_failed() -> None:
    world = World(Kod2(starve_limit=20)).nodes("n1").start(GANG)
    world.do(PodGone("uid-a-worker-1"))
    world.pass_time(world.snapshot.rules.repair_seconds + 1)
    world.do(*(PodGone(o.uid) for o in desired(world.snapshot, 500).release))
    world.see(*(world.fresh(pod) for pod in members(GANG.done())))
    told = reason_of(world.snapshot, world.snapshot.jobs["job-a"])
    assert told.reason is Reason.BACKING_OFF
    assert told.detail == "the repair failed: lost members of the running gang were not bound again in time"


def test_a_plan_whose_only_bound_member_is_going_already_is_given_up_without_a_release() -> None:
    """The bound member's node is down, so it may terminate for hours; another worker has succeeded (simulation seed
    807).
    """
    gang = job("a", suspends=True).workers(1, 3).replicas(3).done()
    lost, done, comes = members(gang)
    found = (replace(lost, node="n1", terminating=True), replace(done, node="n2", phase=Phase.SUCCEEDED))
    world = World()
    world.do(NodeSeen(node("n1", ready=False)), NodeSeen(node("n2")), JobSeen(gang), *map(PodSeen, found), Synced())
    assert (world.state("a"), world.reason("a")) == (State.WAITING, "WaitingForPods"), "there is nobody to bind"
    world.see(comes)
    assert (world.state("a"), world.plan("a")["worker-2"]) == (State.PLANNED, "n2")
    effects = world.pass_time(31)
    assert [e.reason for e in effects if isinstance(e, Released)] == [Reason.BARRIER_TIMEOUT]
    orders = desired(world.snapshot, 500)
    assert (world.state("a"), orders.suspend, orders.release) == (State.WAITING, (), ())


def test_a_gang_of_pods_that_nobody_would_create_anew_is_not_released() -> None:
    gang = job("a", replaced=False).ps().workers(2)
    world = World(Kod2(starve_limit=20)).nodes("n1").start(gang)
    world.do(PodGone("uid-a-worker-1"))
    world.pass_time(100)
    assert (world.state("a"), desired(world.snapshot, 500).release) == (State.REPAIRING, ())


@pytest.mark.parametrize("failed", [True, False], ids=["failed", "deleted"])
def test_a_member_that_nobody_would_create_anew_holds_room_no_longer_than_a_repair_takes(failed: bool) -> None:
    gang = job("a", replaced=False, elastic=False).workers(3, cpu=3)
    world = World().nodes("n1").start(gang)
    lost = world.pod("a-worker-1")
    world.do(PodSeen(replace(lost, phase=Phase.FAILED)) if failed else PodGone(lost.uid))
    world.submit(waits := job("b").workers(1, cpu=3))
    assert world.state("b") is State.WAITING
    world.pass_time(31)
    assert world.state("b") is State.PLANNED
    world.bind(waits)
    assert (world.state("a"), world.state("b")) == (State.REPAIRING, State.RUNNING)
    comes = world.fresh(replace(lost, node="", phase=Phase.PENDING))
    world.see(comes)
    assert "worker-1" not in world.plan("a"), "its room is another's now"
    world.end(waits)
    world.bind(gang)
    assert world.state("a") is State.RUNNING


def test_a_pod_of_nobodys_whose_node_comes_back_has_run_all_the_while() -> None:
    world = World().nodes("n1").start(job("a", replaced=False, elastic=False).workers(1))
    world.do(NodeGone("n1"))
    world.pass_time(100)
    assert desired(world.snapshot, 500).release == ()
    world.nodes("n1")
    assert (world.state("a"), world.plan("a")) == (State.RUNNING, {"worker-0": "n1"})


@pytest.mark.parametrize("policy", ["kod2", "drs", "dragon"])
def test_a_gang_without_a_worker_role_is_mended_at_a_lighter_jobs_cost_and_not_paused(policy: str) -> None:
    gang = job("a", kind="JobSet", suspends=True, utility=5.0).role("trainer", 3, cpu=2)
    lighter = job("b", utility=0.5).workers(1, 3, cpu=2)
    world = World(make_policy(policy)).nodes(node("n1", cpu=6), node("n2", cpu=6)).start(gang, lighter)
    world.pass_time(100)
    lost = world.pod("a-trainer-2")
    world.see(node(lost.node, cpu=6, unschedulable=True))
    effects = world.do(PodGone(lost.uid))
    (mended,) = (one for one in effects if isinstance(one, Resize) and one.job_uid == "job-a")
    assert (mended.pauses, [str(slot) for slot in mended.nodes]) == (False, ["trainer-2"])
    assert (world.state("a"), world.gang("b").workers) == (State.REPAIRING, 2)
    orders = desired(world.snapshot, 500)
    assert (orders.suspend, orders.release) == ((), ())


def test_without_gangs_a_job_without_a_worker_role_is_given_each_member_as_it_has_room() -> None:
    world = World(make_policy("fifo-pod")).rules(gangs=False).nodes(node("n1", cpu=4))
    gang = job("a", kind="JobSet", suspends=True).role("trainer", 3, cpu=2)
    world.submit(gang)
    world.bind(gang)
    world.see(node("n1", cpu=6))
    assert {str(slot) for slot in world.gang("a").nodes} == {"trainer-0", "trainer-1", "trainer-2"}


def test_a_gang_of_such_pods_that_is_half_bound_keeps_them_and_is_mended() -> None:
    gang = job("a", replaced=False).workers(2)
    world = World().nodes("n1")
    world.submit(gang)
    world.hold("uid-a-worker-0")
    first, second = (e for e in world.hold("uid-a-worker-1") if isinstance(e, Bind))
    world.do(BindDone(first.uid, first.node), BindRefused(second.uid, "no"))
    world.pass_time(1000)
    assert (world.state("a"), desired(world.snapshot, 500).release) == (State.REPAIRING, ())
    world.bind(gang)
    assert world.state("a") is State.RUNNING


def released() -> World:
    """Make a TFJob that has lost one of four members, has no room for it, and is past its repair time."""
    world = World().nodes("n1").start(job("a", suspends=True).ps().workers(3, cpu=3))
    world.do(PodGone("uid-a-worker-2"))
    world.see(node("n1", cpu=7))
    world.pass_time(31)
    assert world.state("a") is State.RELEASING
    return world


def suspended(world: World, **how: bool) -> World:
    """Show the job as suspended."""
    world.see(JobBuilder(world.snapshot.jobs["job-a"]).with_(**how))
    return world


def version(world: World) -> int:
    return world.snapshot.jobs["job-a"].version


def test_a_job_that_can_be_suspended_is_released_by_its_operator() -> None:
    world = released()
    wanted = desired(world.snapshot, 500)
    assert [(o.name, o.kind, o.suspend, o.version) for o in wanted.suspend] == [("a", "TFJob", True, version(world))]
    assert wanted.release == ()


def test_it_goes_on_when_every_pod_is_gone_and_queues_with_its_first_arrival() -> None:
    world = suspended(released(), released=True)
    assert desired(world.snapshot, 500).suspend == ()
    assert reason_of(world.snapshot, world.snapshot.jobs["job-a"]).reason is Reason.RELEASING
    world.do(PodGone("uid-a-ps-0"), PodGone("uid-a-worker-0"))
    assert desired(world.snapshot, 500).suspend == ()
    world.do(PodGone("uid-a-worker-1"))
    assert [(o.suspend, o.version) for o in desired(world.snapshot, 500).suspend] == [(False, version(world))]
    assert [j.key for j in world.snapshot.waiting()] == ["team/a"]
    suspended(world, released=False)
    assert desired(world.snapshot, 500).suspend == ()
    assert (world.state("a"), world.reason("a")) == (State.WAITING, "WaitingForPods")


@pytest.mark.parametrize("marked", [False, True], ids=["before ours", "after ours"])
def test_a_users_suspension_is_kept(marked: bool) -> None:
    world = suspended(released(), released=True) if marked else released()
    suspended(world, suspended=True, released=False)
    world.do(*(PodGone(f"uid-a-{name}") for name in ("ps-0", "worker-0", "worker-1")))
    assert (world.state("a"), desired(world.snapshot, 500).suspend) == (State.WAITING, ())
    assert reason_of(world.snapshot, world.snapshot.jobs["job-a"]).reason is Reason.SUSPENDED


def test_where_the_operator_is_down_a_suspended_jobs_pods_are_deleted_after_all() -> None:
    world = suspended(released(), released=True)
    assert desired(world.snapshot, 500).release == ()
    world.pass_time(121)
    assert {o.name for o in desired(world.snapshot, 500).release} == {"a-ps-0", "a-worker-0", "a-worker-1"}


def test_a_release_that_a_restart_finds_is_brought_to_its_end() -> None:
    before = suspended(released(), released=True).snapshot
    world = World()
    world.do(*map(JobSeen, before.jobs.values()), *map(NodeSeen, before.nodes.values()))
    world.do(*map(PodSeen, before.pods.values()), Synced())
    assert world.state("a") is State.RELEASING
    world.do(*(PodGone(uid) for uid in before.pods))
    assert [o.suspend for o in desired(world.snapshot, 500).suspend] == [False]


@pytest.mark.parametrize("ended", ["finished", "deleting", "invalid"])
def test_a_job_that_ended_meanwhile_is_left_as_it_is(ended: str) -> None:
    world = suspended(released(), released=True)
    world.do(*(PodGone(f"uid-a-{name}") for name in ("ps-0", "worker-0", "worker-1")))
    suspended(world, **{ended: True})
    assert desired(world.snapshot, 500).suspend == ()


def test_a_gang_in_repair_may_shrink_lighter_jobs() -> None:
    world = World().nodes(node("n1", cpu=6), node("n2", cpu=5))
    world.start(job("heavy").workers(2, cpu=3, memory=4).with_(utility=9.0))
    world.start(job("light").workers(1, 2, asked=2, cpu=2, memory=2).arrived(1))
    assert set(world.plan("heavy").values()) == {"n1"}
    lost = world.pod("heavy-worker-1")
    world.do(PodGone(lost.uid))
    world.see(node("n1", cpu=6, unschedulable=True))
    assert world.gang("light").workers == 1
    assert set(world.gang("heavy").waits_for) == {"uid-light-worker-1"}
    world.do(PodGone("uid-light-worker-1"))
    assert not world.gang("heavy").waits_for
    assert world.plan("heavy")["worker-1"] == "n2"


def test_room_that_a_gang_in_repair_could_use_is_given_to_nobody_else() -> None:
    world = World().nodes("n1", node("n2", cpu=4))
    world.start(job("a").workers(2, cpu=5))
    lost = world.pod("a-worker-1")
    world.see(node("n1", unschedulable=True))
    world.do(PodGone(lost.uid))
    world.submit(job("small").workers(1, cpu=1).arrived(5))
    assert (world.state("small"), world.reason("small")) == (State.WAITING, "BehindHeavierJob")
    assert world.snapshot.verdicts["job-small"].behind == "job-a"
    world.pass_time(31)
    assert world.state("small") is State.PLANNED


def test_a_gang_that_has_lost_every_member_queues_at_once() -> None:
    world = World().nodes("n1").start(job("a").workers(1))
    world.do(PodGone("uid-a-worker-0"))
    assert (world.state("a"), world.reason("a")) == (State.WAITING, "WaitingForPods")


def test_members_that_only_succeeded_do_not_make_a_waiting_job_run() -> None:
    world = World().nodes(node("n1", cpu=3))
    world.submit(job("a").workers(3, cpu=2))
    world.see(replace(world.pod("a-worker-0"), phase=Phase.SUCCEEDED))
    assert world.state("a") is State.WAITING


def test_a_held_member_whose_node_is_lost_is_refused_because_its_check_was_for_that_node() -> None:
    world = World().nodes("n1", "n2")
    world.submit(GANG)
    world.see(replace(world.pod("a-ps-0"), node="n2"))
    world.hold("uid-a-worker-0")
    assert RefuseBind("uid-a-worker-0", Reason.PLAN_CHANGED) in world.see(node("n1", unschedulable=True))
    assert set(world.plan("a").values()) == {"n2"}
    assert not world.gang("a").held


def test_members_whose_node_comes_back_are_planned_where_they_are() -> None:
    world = World().nodes("n1", "n2").start(GANG)
    world.do(NodeGone("n1"))
    assert set(world.plan("a").values()) == {"n2"}
    world.see(node("n1"))
    assert (world.state("a"), set(world.plan("a").values())) == (State.RUNNING, {"n1"})
    assert "n2" not in world.snapshot.charged

"""Nodes on which members fail: which failures count, which nodes are avoided, for how long, and what keeps it."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from policy.cluster.actions import NodeFailed, NodeForgiven
from policy.cluster.failures import (
    LONGEST,
    MOST_JOBS,
    Failure,
    avoided_until,
    read_failures,
    remembered,
    with_failure,
    write_failures,
)
from policy.cluster.node import Node
from policy.cluster.pod import Phase, Pod
from policy.cluster.snapshot import Rules, Snapshot
from policy.cluster.words import in_time
from policy.desired import desired
from tests.builders import (
    START,
    JobBuilder,
    JobSeen,
    Led,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    Synced,
    World,
    job,
    node,
)

HOUR = 3600.0
WATCH = 15.0


def cluster(nodes: int = 10, *, half_life: float = HOUR, cpu: float = 10) -> World:
    """Return a cluster of nodes n0, n1 ... that avoids nodes on which members fail."""
    world = World(snapshot=Snapshot(rules=Rules(half_life_seconds=half_life, watch_seconds=WATCH)))
    return world.nodes(*(node(f"n{index}", cpu=cpu) for index in range(nodes)))


def wide(name: str, workers: int = 3, cpu: float = 6) -> JobBuilder:
    """Return a rigid job of workers so large that each needs a node of its own."""
    return job(name).workers(workers, cpu=cpu, memory=1)


def fail(world: World, pod: Pod) -> None:
    world.see(replace(world.snapshot.pods[pod.uid], phase=Phase.FAILED))


def recreate(world: World, name: str) -> None:
    """Remove the job's failed pods, create their successors as the operator does, and bind them."""
    made = world.snapshot.jobs[f"job-{name}"]
    failed = [pod for pod in world.snapshot.pods_of(made.uid) if pod.phase is Phase.FAILED]
    world.do(*(PodGone(pod.uid) for pod in failed))
    new = (world.fresh(replace(pod, node="", plan="", phase=Phase.PENDING)) for pod in failed)
    world.do(*(PodSeen(pod) for pod in new))
    world.bind(made)


def fail_on(world: World, name: str, where: str) -> None:
    """Let the job's member on that node fail and be created again, while its others live on until that counts."""
    fail(world, next(pod for pod in world.snapshot.pods_of(f"job-{name}") if pod.node == where))
    recreate(world, name)
    world.pass_time(WATCH)


def two_jobs_fail(world: World, where: str = "n0") -> None:
    """Let members of two jobs, one after the other, fail on the same node."""
    for name in ("a", "b"):
        start_with_member(world, name, where)
        fail_on(world, name, where)


def start_with_member(world: World, name: str, where: str) -> None:
    """Start a job of two large workers, one of them on that node: all but it and one other node are cordoned for a
    moment.
    """
    free = [one for one in sorted(world.snapshot.nodes) if one != where and world.snapshot.free(one)["cpu"] >= 6000]
    shut = [one for one in world.snapshot.nodes if one not in (where, free[0])]
    world.see(*(replace(world.snapshot.nodes[one], unschedulable=True) for one in shut))
    world.now += 600  # Nothing that failed plans may have left is remembered any more.
    world.start(wide(name, 2))
    world.see(*(replace(world.snapshot.nodes[one], unschedulable=False) for one in shut))
    assert where in world.plan(name).values()


def state(world: World, where: str = "n0") -> Node:
    return world.snapshot.nodes[where]


def failures(world: World, where: str = "n0") -> list[str]:
    return [one.job for one in world.snapshot.failures.get(where, ())]


# -- Which failures count. ---------------------------------------------------------------------------


def test_a_failure_counts_once_the_others_have_lived_on() -> None:
    world = cluster()
    start_with_member(world, "a", "n0")
    fail(world, world.pod("a-worker-0") if world.pod("a-worker-0").node == "n0" else world.pod("a-worker-1"))
    assert failures(world) == []
    recreate(world, "a")
    world.pass_time(WATCH - 1)
    assert failures(world) == []
    world.pass_time(1)
    assert failures(world) == ["job-a"]
    assert [one for one in world.effects if isinstance(one, NodeFailed)] == [
        NodeFailed("job-a", "n0", jobs=1, until=0.0, barred=False)
    ]
    assert not state(world).shunned


def test_a_member_lost_there_is_repaired_elsewhere_first() -> None:
    world = cluster()
    start_with_member(world, "a", "n0")
    lost = next(pod for pod in world.snapshot.pods_of("job-a") if pod.node == "n0")
    fail(world, lost)
    assert lost.slot is not None
    assert world.gang("a").nodes[lost.slot] != "n0"
    recreate(world, "a")
    assert "n0" not in {pod.node for pod in world.snapshot.pods_of("job-a")}


def test_it_is_repaired_there_where_no_other_node_has_room() -> None:
    world = cluster(2)
    start_with_member(world, "a", "n0")
    lost = next(pod for pod in world.snapshot.pods_of("job-a") if pod.node == "n0")
    fail(world, lost)
    assert lost.slot is not None
    assert world.gang("a").nodes[lost.slot] == "n0"


def test_without_the_setting_nothing_is_noted_and_the_slot_keeps_its_node() -> None:
    world = cluster(half_life=0.0)
    start_with_member(world, "a", "n0")
    lost = next(pod for pod in world.snapshot.pods_of("job-a") if pod.node == "n0")
    fail(world, lost)
    assert lost.slot is not None
    assert world.gang("a").nodes[lost.slot] == "n0"
    world.see(replace(state(world), failures=write_failures("uid-n0", (Failure("x", START), Failure("y", START)))))
    world.pass_time(WATCH)
    assert (world.snapshot.failures, world.snapshot.suspected) == ({}, {})
    assert not state(world).shunned


@pytest.mark.parametrize("apart", [0.0, WATCH - 1])
def test_one_job_that_crashes_everywhere_bars_nothing(apart: float) -> None:
    world = cluster()
    for name in ("a", "b", "c"):
        world.start(wide(name))
        for pod in [*world.snapshot.pods_of(f"job-{name}")]:
            fail(world, pod)
            world.pass_time(apart)
        recreate(world, name)
        world.pass_time(2 * WATCH)
        world.end(wide(name))
    assert world.snapshot.failures == {}
    assert not any(one.shunned for one in world.snapshot.nodes.values())


def test_a_job_that_fails_again_and_again_on_a_node_counts_once() -> None:
    world = cluster(2)
    start_with_member(world, "a", "n0")
    for _ in range(4):
        fail_on(world, "a", "n0")
    assert failures(world) == ["job-a"]
    assert not state(world).shunned


def test_a_job_on_one_node_alone_says_nothing_of_the_node() -> None:
    world = cluster()
    world.start(job("a").workers(2, cpu=1, memory=1))
    fail(world, world.pod("a-worker-0"))
    world.pass_time(WATCH)
    assert (world.snapshot.failures, world.snapshot.suspected) == ({}, {})


@pytest.mark.parametrize("how", ["deleted", "cordoned", "finished", "suspended"])
def test_what_is_no_failure_of_the_node(how: str) -> None:
    world = cluster()
    start_with_member(world, "a", "n0")
    lost = next(pod for pod in world.snapshot.pods_of("job-a") if pod.node == "n0")
    if how == "cordoned":
        world.see(replace(state(world), unschedulable=True))
    if how == "deleted":
        world.see(replace(lost, terminating=True))
        world.do(PodGone(lost.uid))
    else:
        fail(world, lost)
    if how in ("finished", "suspended"):
        made = world.snapshot.jobs["job-a"]
        world.see(replace(made, finished=how == "finished", suspended=how == "suspended"))
    world.pass_time(WATCH)
    assert failures(world) == []


def test_a_preempted_member_is_no_failure_of_the_node() -> None:
    world = cluster()
    start_with_member(world, "a", "n0")
    lost = next(pod for pod in world.snapshot.pods_of("job-a") if pod.node == "n0")
    world.see(replace(lost, preempted=True, phase=Phase.FAILED))
    world.pass_time(WATCH)
    assert (failures(world), world.snapshot.suspected) == ([], {})


def test_a_member_that_is_deleted_on_a_node_that_is_not_ready_has_failed() -> None:
    world = cluster()
    start_with_member(world, "a", "n0")
    lost = next(pod for pod in world.snapshot.pods_of("job-a") if pod.node == "n0")
    world.see(replace(state(world), ready=False))
    world.see(replace(lost, terminating=True))
    world.pass_time(WATCH)
    assert failures(world) == ["job-a"]


# -- Which nodes are avoided. ------------------------------------------------------------------------


def test_with_two_jobs_the_node_is_barred_for_a_half_life() -> None:
    world = cluster()
    two_jobs_fail(world)
    until = state(world).shunned
    last = world.snapshot.failures["n0"][-1].at
    assert until == pytest.approx(last + HOUR)
    assert (state(world).barred, state(world).usable) == (True, False)
    told = "avoided until 1970-01-12 15:06:55 UTC because members of different jobs have failed there"
    assert state(world).closed == told
    records = [one for one in world.effects if isinstance(one, NodeFailed)]
    assert records[-1] == NodeFailed("job-b", "n0", jobs=2, until=until, barred=True)
    # Each worker needs a node of its own, and one of the ten nodes is barred.
    for name in ("a", "b"):
        world.end(job(name))
    world.submit(wide("ten", 10))
    assert world.reason("ten") == "NodesClosed"
    world.now = until - 1
    world.pass_time(0)
    assert world.plan("ten") == {}
    world.pass_time(1)
    assert world.plan("ten") != {}
    assert [one for one in world.effects if isinstance(one, NodeForgiven)] == [NodeForgiven("n0", by_hand=False)]


def test_running_members_stay_on_an_avoided_node_and_a_planned_gang_leaves_it() -> None:
    world = cluster()
    start_with_member(world, "c", "n0")
    shut = [one for one in world.snapshot.nodes if one != "n0"]
    world.see(*(replace(state(world, one), unschedulable=True) for one in shut))
    world.submit(job("d").workers(2, cpu=2, memory=1))
    world.see(*(replace(state(world, one), unschedulable=False) for one in shut))
    assert set(world.plan("d").values()) == {"n0"}
    world.snapshot = replace(world.snapshot, failures={"n0": (Failure("x", START), Failure("y", START))})
    world.pass_time(0)
    assert state(world).barred
    assert (world.state("c").value, "n0" in world.plan("c").values()) == ("running", True)
    assert world.plan("d")
    assert "n0" not in world.plan("d").values()


def test_at_most_a_tenth_is_barred_and_the_others_are_used_last() -> None:
    world = cluster(20)
    ages = {f"n{index}": index for index in range(5)}
    found = {name: (Failure("x", START - age), Failure("y", START - age)) for name, age in ages.items()}
    world.snapshot = replace(world.snapshot, failures=found)
    world.pass_time(0)
    assert [name for name in ages if state(world, name).barred] == ["n0", "n1"]
    assert [name for name in ages if state(world, name).wary] == ["n2", "n3", "n4"]
    world.submit(wide("most", 15))
    assert not {"n2", "n3", "n4"} & set(world.plan("most").values())
    world.submit(wide("rest", 3))
    assert set(world.plan("rest").values()) == {"n2", "n3", "n4"}


def test_a_cluster_of_nine_nodes_bars_none() -> None:
    world = cluster(9)
    two_jobs_fail(world)
    assert (state(world).barred, state(world).wary) == (False, True)
    world.start(wide("c", 2))
    assert "n0" not in world.plan("c").values()


def test_a_node_that_is_down_takes_no_share_of_the_tenth() -> None:
    world = cluster(10)
    found = {name: (Failure("x", START), Failure("y", START)) for name in ("n0", "n1")}
    world.snapshot = replace(world.snapshot, failures=found)
    world.see(replace(state(world), ready=False))
    assert [name for name in found if state(world, name).barred] == ["n1"]


def test_an_elastic_job_grows_last_onto_a_node_that_is_avoided() -> None:
    world = cluster(4)
    found = {"n0": (Failure("x", START), Failure("y", START))}
    world.snapshot = replace(world.snapshot, failures=found)
    world.start(job("a").workers(1, 4, cpu=6, memory=1))
    for _ in range(4):
        world.pass_time(120)
        world.operate(job("a"))
    assert list(world.plan("a").values()).index("n0") == 3


# -- For how long. -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ages", "expected"),
    [
        ([0.0], 0.0),
        ([0.0, 0.0], 1.0),
        ([0.0, 0.5], 1.0),
        ([0.0, 1.9], 1.0),
        ([0.0, 2.0], 0.0),
        ([0.0, 0.0, 0.0, 0.0], 2.0),
        ([0.0] * 8, 3.0),
    ],
)
def test_how_long_a_node_is_avoided(ages: list[float], expected: float) -> None:
    found = tuple(Failure(f"j{index}", START - age * HOUR) for index, age in enumerate(ages))
    until = avoided_until(found, HOUR)
    assert until == pytest.approx(START + expected * HOUR if expected else 0.0)


def test_failures_are_forgotten_after_two_half_lives() -> None:
    found = with_failure(with_failure((), "x", START), "y", START + HOUR)
    assert remembered(found, HOUR, START + 1.9 * HOUR) == found
    assert remembered(found, HOUR, START + 2.5 * HOUR) == (Failure("y", START + HOUR),)
    assert remembered(found, HOUR, START + 3 * HOUR) == ()


def test_a_later_failure_of_the_same_job_replaces_the_earlier_one() -> None:
    found = with_failure(with_failure((), "x", START), "x", START + 5)
    assert found == (Failure("x", START + 5),)


def test_only_the_last_failures_are_kept() -> None:
    found = tuple(Failure(f"j{index:02}", START + index) for index in range(MOST_JOBS))
    assert [one.job for one in with_failure(found, "new", START + 99)][:1] == ["j01"]


# -- The annotation, restarts and forgiveness. -------------------------------------------------------


def carry_out(world: World) -> None:
    """Let the controller write on the nodes what is wanted, and the watch show it."""
    for order in desired(world.snapshot, 500).mark:
        old = world.snapshot.nodes[order.name]
        assert (order.uid, order.version) == (old.uid, old.version)
        forgiven = old.forgiven and not order.forgiven
        world.see(replace(old, failures=order.failures, forgiven=forgiven, shunned=0.0, barred=False))


def rebuilt(world: World) -> World:
    """Return the world of a new process, which knows only what the API server has."""
    bare = [replace(one, shunned=0.0, barred=False) for one in world.snapshot.nodes.values()]
    other = World(snapshot=Snapshot(rules=world.snapshot.rules), now=world.now)
    jobs, pods = world.snapshot.jobs.values(), world.snapshot.pods.values()
    other.do(*(NodeSeen(one) for one in bare), *(JobSeen(one) for one in jobs), *(PodSeen(one) for one in pods))
    other.do(Synced())
    return other


def test_a_restart_keeps_which_nodes_are_avoided() -> None:
    world = cluster()
    two_jobs_fail(world)
    carry_out(world)
    assert desired(world.snapshot, 500).mark == ()
    after = rebuilt(world)
    assert after.snapshot.failures == world.snapshot.failures
    assert after.snapshot.nodes == world.snapshot.nodes
    assert state(after).barred


def test_what_is_not_written_yet_is_written_by_the_next_order() -> None:
    world = cluster()
    two_jobs_fail(world)
    (order,) = desired(world.snapshot, 500).mark
    assert json.loads(order.failures)["node"] == "uid-n0"
    assert [row[0] for row in json.loads(order.failures)["jobs"]] == ["job-a", "job-b"]


def test_a_fail_over_keeps_it_and_the_leader_forgets_nothing() -> None:
    world = cluster()
    follower = cluster()
    follower.do(Led(False))
    two_jobs_fail(world)
    carry_out(world)
    follower.now = world.now
    follower.see(replace(state(world), shunned=0.0, barred=False))
    assert follower.snapshot.failures == world.snapshot.failures
    assert not state(follower).shunned, "a replica that does not lead judges no node"
    follower.do(Led(True))
    assert state(follower) == replace(state(world), version=state(follower).version)
    # An annotation that somebody else changes does not change what the leader knows; it is written again.
    follower.see(replace(state(follower), failures=""))
    assert state(follower).barred
    assert len(desired(follower.snapshot, 500).mark) == 1


def test_an_annotation_forgives_the_node_and_goes_with_the_failures() -> None:
    world = cluster()
    two_jobs_fail(world)
    carry_out(world)
    world.see(replace(state(world), forgiven=True))
    assert (state(world).usable, failures(world)) == (True, [])
    assert [one for one in world.effects if isinstance(one, NodeForgiven)] == [NodeForgiven("n0", by_hand=True)]
    (order,) = desired(world.snapshot, 500).mark
    assert (order.failures, order.forgiven) == ("", True)
    carry_out(world)
    assert (state(world).failures, state(world).forgiven) == ("", False)
    assert (world.snapshot.failures, desired(world.snapshot, 500).mark) == ({}, ())


def test_a_restart_before_the_annotations_are_removed_does_not_bar_a_forgiven_node() -> None:
    world = cluster()
    two_jobs_fail(world)
    carry_out(world)
    world.see(replace(state(world), forgiven=True))
    after = rebuilt(world)
    assert state(after).usable
    assert [order.forgiven for order in desired(after.snapshot, 500).mark] == [True]


def test_in_time_the_annotation_is_removed_too() -> None:
    world = cluster()
    two_jobs_fail(world)
    carry_out(world)
    world.pass_time(3 * HOUR)
    assert failures(world) == []
    assert [order.failures for order in desired(world.snapshot, 500).mark] == [""]
    carry_out(world)
    assert world.snapshot.failures == {}


def test_a_node_that_is_made_anew_has_no_failures() -> None:
    world = cluster()
    two_jobs_fail(world)
    carry_out(world)
    world.do(NodeGone("n0"))
    assert world.snapshot.failures == {}
    world.do(NodeSeen(node("n0", uid="new")))
    assert state(world).usable
    # A copy of the old object has the old annotation, which names another node.
    world.do(NodeSeen(node("n0", uid="other", failures=write_failures("uid-n0", (Failure("x", START),)), version=5)))
    assert failures(world) == []


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        '{"v":2,"node":"uid-n0","jobs":[]}',
        '{"v":1,"node":"another","jobs":[["x",1.0],["y",1.0]]}',
        '{"v":1,"node":"uid-n0","jobs":[["x"]]}',
        '{"v":1,"node":"uid-n0","jobs":[["x","soon"]]}',
        '{"v":1,"node":"uid-n0","jobs":[["",1.0]]}',
        '{"v":1,"node":"uid-n0","jobs":[["x",1e999]]}',
        '{"v":1,"node":"uid-n0"}',
        "[" * 100_000,
        " " * LONGEST + "{}",
    ],
)
def test_an_annotation_that_kohort_cannot_have_written_counts_as_none(text: str) -> None:
    assert read_failures(node("n0", failures=text), START) == ()


def test_a_failure_in_the_future_is_not_read() -> None:
    text = write_failures("uid-n0", (Failure("x", START), Failure("y", START + 99 * HOUR)))
    assert read_failures(node("n0", failures=text), START) == (Failure("x", START),)


def test_what_is_written_is_read() -> None:
    found = (Failure("x", START), Failure("y", START + 1.5))
    assert read_failures(node("n0", failures=write_failures("uid-n0", found)), START + 2) == found


@pytest.mark.parametrize("seed", range(20))
def test_a_time_is_told_as_the_calendar_has_it(seed: int) -> None:
    chance = random.Random(seed)
    leap_days = [datetime(year, 2, 28, 23, 59, 59, tzinfo=UTC).timestamp() for year in (1972, 2000, 2026, 2100)]
    for at in (0.0, *leap_days, *(leap + 1.0 for leap in leap_days), *(chance.uniform(0, 8e9) for _ in range(50))):
        assert in_time(at) == f"{datetime.fromtimestamp(int(at), UTC):%Y-%m-%d %H:%M:%S} UTC"

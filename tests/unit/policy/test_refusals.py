"""What kube-scheduler's plugins say of a member reaches the plan: its node is avoided, and the message is reported."""

from __future__ import annotations

from dataclasses import replace

from policy.answers.explain import explain
from policy.answers.queue import places
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import reason_of
from tests.builders import Bind, JobBuilder, Released, State, World, job, node, w

FULL = "0/2 nodes are available: 2 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
OURS = "0/2 nodes are available: 1 kohort: the gang waits for room, 1 Insufficient cpu."
LATE = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'


def two_nodes() -> tuple[World, JobBuilder]:
    world = World().nodes(node("n1", cpu=4), node("n2", cpu=5))
    made = job("a").workers(2, cpu=2, memory=1)
    world.submit(made)
    assert set(world.plan("a").values()) == {"n1"}
    return world, made


def turn_away(world: World, name: str, message: str = FULL, **changes: object) -> None:
    known = world.pod(name)
    world.see(replace(known, refused=True, refusal=message, **changes))  # type: ignore[arg-type]


def released(world: World) -> list[str]:
    return [effect.reason.value for effect in world.effects if isinstance(effect, Released)]


def woken(world: World, name: str) -> Pod:
    """Write the plan's name on the pod, as the controller does, so that kube-scheduler tries it again."""
    world.see(replace(world.pod(name), woken=world.gang("a").plan))
    return world.pod(name)


def told(world: World) -> tuple[str, str]:
    found = explain(world.snapshot, "job-a", world.policy, world.now)
    assert found is not None
    return (found.waits.reason, found.waits.detail) if found.waits is not None else ("", "")


def test_a_node_that_the_plugins_refuse_is_left_in_the_same_step() -> None:
    world, made = two_nodes()
    turn_away(world, "a-worker-0")
    assert set(world.plan("a").values()) == {"n2"}
    assert released(world) == ["PlannedNodeNotOffered"]
    world.bind(made)
    assert {effect.node for effect in world.effects if isinstance(effect, Bind)} == {"n2"}


def test_where_no_other_node_is_left_the_gang_waits_and_its_reason_has_the_words_of_kube_scheduler() -> None:
    world = World().nodes(node("n1", cpu=4))
    world.submit(job("a").workers(2, cpu=2, memory=1))
    turn_away(world, "a-worker-1")
    assert world.state("a") is State.WAITING
    reason, detail = told(world)
    assert reason == "PlannedNodeNotOffered"
    assert f"kube-scheduler says of worker-1: {FULL}" in detail
    assert FULL in reason_of(world.snapshot, world.snapshot.jobs["job-a"]).detail
    assert places(world.snapshot, world.policy, world.now)
    world.pass_time(1.0)
    assert set(world.plan("a").values()) == {"n1"}


def test_the_room_is_another_gangs_while_the_node_is_refused() -> None:
    world = World().nodes(node("n1", cpu=4))
    world.submit(job("a").workers(2, cpu=2, memory=1))
    world.submit(job("b").workers(2, cpu=2, memory=1).arrived(1))
    turn_away(world, "a-worker-0")
    assert set(world.plan("b").values()) == {"n1"}


def test_our_own_refusal_in_the_condition_is_no_news() -> None:
    world, _ = two_nodes()
    turn_away(world, "a-worker-0", OURS)
    assert set(world.plan("a").values()) == {"n1"}


def test_a_refusal_from_before_the_plan_does_not_count_until_the_member_was_woken_for_it() -> None:
    world = World().nodes(node("n2", cpu=1))
    made = job("a").workers(1, cpu=2, memory=1)
    world.submit(made)
    turn_away(world, "a-worker-0", "0/1 nodes are available: 1 Insufficient cpu.")
    world.see(node("n1", cpu=4))
    assert world.plan("a") == {"worker-0": "n1"}
    turn_away(world, "a-worker-0")  # this attempt began before the plan was made, so it does not count
    assert world.plan("a") == {"worker-0": "n1"}
    woken(world, "a-worker-0")
    turn_away(world, "a-worker-0", "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had a conflict.")
    assert world.plan("a") == {}
    assert world.reason("a") == "PlannedNodeNotOffered"


def test_a_refusal_in_the_same_words_counts_when_the_plan_has_failed() -> None:
    """kube-scheduler does not write the same condition again, so the pod does not change when the plan runs out of
    time.
    """
    world = World().nodes(node("n1", cpu=4), node("n2", cpu=5))
    world.submit(job("a").workers(2, cpu=2, memory=1))
    turn_away(world, "a-worker-1")
    assert set(world.plan("a").values()) == {"n2"}
    world.pass_time(2)  # after 2 s node n1 is no longer avoided
    first, rest = world.snapshot.rules.plan_seconds, world.snapshot.rules.backoff_initial_seconds
    world.pass_time(first)
    assert released(world)[-1] == "MemberRefused"
    assert {name for _, name in world.snapshot.not_offered} == {"n2"}
    assert world.snapshot.gang("job-a").tries.not_before == world.now + rest


def test_a_member_that_is_refused_in_the_same_words_ends_the_window_of_the_others_at_once() -> None:
    world = World().nodes(node("n1", cpu=4))
    world.submit(job("a").workers(2, cpu=2, memory=1))
    turn_away(world, "a-worker-1")
    world.pass_time(1)
    world.hold("uid-a-worker-0")
    world.pass_time(world.snapshot.rules.window_seconds)
    assert released(world)[-1] == "MemberRefused"
    assert world.state("a") is State.WAITING


def test_a_volume_that_does_not_come_is_named_while_it_is_waited_for_and_in_the_back_off() -> None:
    world = World().nodes(node("n1", cpu=4))
    world.submit(job("a").workers(1, cpu=2, memory=1))
    world.see(replace(world.pod("a-worker-0"), volumes=("data",)))
    turn_away(world, "a-worker-0", LATE, failed_attempt=True)
    # the volume may come at the next attempt, so the plan stays until its deadline
    assert world.plan("a") == {"worker-0": "n1"}
    reason, detail = told(world)
    assert reason == "MemberRefused"
    assert detail == f"kube-scheduler says of worker-0, which asks for the volume data: {LATE}"
    world.pass_time(world.snapshot.rules.plan_seconds)
    assert released(world) == ["MemberRefused"]
    reason, detail = told(world)
    assert reason == "BackingOff"
    assert "volume data" in detail


def test_a_binding_that_kohort_could_not_make_is_not_told_as_kube_schedulers_refusal() -> None:
    world = World().nodes(node("n1", cpu=4))
    world.submit(job("a").workers(1, cpu=2, memory=1))
    turn_away(world, "a-worker-0", "binding rejected: kohort: the API server refused the binding", failed_attempt=True)
    assert told(world)[0] != "MemberRefused"


def test_an_innocent_gang_starts_while_the_one_whose_volume_does_not_come_backs_off() -> None:
    world = World().nodes(node("n1", cpu=4))
    world.submit(job("a").workers(2, cpu=2, memory=1))
    innocent = job("b").workers(2, cpu=2, memory=1).arrived(1)
    world.submit(innocent)
    turn_away(world, "a-worker-0", LATE, failed_attempt=True)
    assert world.state("b") is State.WAITING
    world.pass_time(world.snapshot.rules.plan_seconds)
    world.bind(innocent)
    assert world.state("b") is State.RUNNING


def test_a_volume_that_comes_late_still_lets_its_gang_start() -> None:
    world = World().nodes(node("n1", cpu=4))
    made = job("a").workers(1, cpu=2, memory=1)
    world.submit(made)
    turn_away(world, "a-worker-0", LATE, failed_attempt=True)
    for _ in range(70):
        world.pass_time(1)
    assert len(released(world)) >= 2
    while world.state("a") is not State.PLANNED:
        world.pass_time(1)
    world.bind(made)
    assert world.state("a") is State.RUNNING


def test_a_worker_of_a_running_gang_is_planned_elsewhere() -> None:
    world = World().nodes(node("n1", cpu=4), node("n2", cpu=2))
    made = job("a").workers(1, 3, asked=2, cpu=2, memory=1)
    world.start(made)
    lost = next(p for p in world.snapshot.pods_of("job-a") if p.node == "n1" and p.slot != w(0))
    world.see(replace(lost, terminating=True))
    assert world.state("a") is State.RUNNING
    late = world.fresh(replace(lost, node="", plan="", terminating=False))
    world.see(late)
    before = world.gang("a").nodes[w(lost.slot.index)] if lost.slot else ""
    world.see(replace(world.snapshot.pods[late.uid], refused=True, refusal=FULL))
    assert ("job-a", before) in world.snapshot.not_offered


def test_every_reason_of_ours_is_known_by_its_beginning() -> None:
    assert all(reason.text.startswith("kohort: ") for reason in Reason)

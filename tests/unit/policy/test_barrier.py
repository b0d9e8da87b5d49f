"""Binds are held until the minimum has passed kube-scheduler's checks; then all are sent, or none."""

from dataclasses import replace
from typing import Any

import pytest

from policy.cluster.actions import WriteRefused
from policy.cluster.gang import State
from policy.cluster.pod import Phase
from policy.cluster.reasons import Reason
from policy.transitions.deadlines.patience import LOST_BINDING_SECONDS
from tests.builders import (
    Bind,
    BindDone,
    BindDropped,
    BindHeld,
    BindRefused,
    BindUnknown,
    JobBuilder,
    JobSeen,
    NodeGone,
    NodeNotOffered,
    NodeSeen,
    PodGone,
    PodSeen,
    RefuseBind,
    Released,
    World,
    guest,
    job,
    node,
    ps,
    w,
)  # fmt: skip

GANG = job("a").ps().workers(2)
PODS = ("uid-a-ps-0", "uid-a-worker-0", "uid-a-worker-1")


def planned() -> World:
    world = World().nodes("n1", "n2")
    world.submit(GANG)
    assert world.state("a") is State.PLANNED
    return world


def test_binds_are_held_until_the_last_of_the_minimum() -> None:
    world = planned()
    assert world.hold(PODS[0]) == ()
    assert world.hold(PODS[1]) == ()
    effects = world.hold(PODS[2])
    assert [e.slot for e in effects if isinstance(e, Bind)] == [ps(), w(0), w(1)]
    assert {e.plan for e in effects if isinstance(e, Bind)} == {world.gang("a").plan}
    assert world.state("a") is State.BINDING
    assert set(world.gang("a").in_flight) == set(PODS)
    world.answer(effects)
    assert world.state("a") is State.RUNNING
    assert not world.gang("a").in_flight


def test_surplus_workers_follow_without_a_barrier() -> None:
    world = World().nodes("n1")
    world.submit(job("a").ps().workers(1, 3, asked=3))
    for uid in ("uid-a-ps-0", "uid-a-worker-0"):
        effects = world.hold(uid)
    world.answer(effects)
    assert [type(e) for e in world.hold("uid-a-worker-2")] == [Bind]


def test_a_window_that_ends_refuses_all_keeps_the_plan_and_is_tried_once_more() -> None:
    world = planned()
    world.hold(PODS[0])
    plan = world.plan("a")
    assert world.pass_time(7.9) == ()
    assert world.pass_time(0.2) == (RefuseBind(PODS[0], Reason.BARRIER_TIMEOUT),)
    assert world.state("a") is State.PLANNED
    assert world.plan("a") == plan
    world.hold(PODS[0])
    effects = world.pass_time(8.1)
    assert RefuseBind(PODS[0], Reason.BARRIER_TIMEOUT) in effects
    assert world.state("a") is State.WAITING
    assert world.reason("a") == "BackingOff"
    assert not world.snapshot.charged


def test_back_off_doubles_and_ends_with_success() -> None:
    world = planned()
    for pause in (5, 10, 20):
        world.pass_time(world.snapshot.rules.plan_seconds + 0.1)
        assert world.state("a") is State.WAITING
        assert world.gang("a").tries.not_before == world.now + pause
        world.pass_time(pause)
        assert world.state("a") is State.PLANNED
    world.bind(GANG)
    assert (world.state("a"), world.gang("a").tries.attempts) == (State.RUNNING, 0)


def test_the_window_goes_on_with_every_member_that_comes() -> None:
    world = planned()
    world.hold(PODS[0])
    world.pass_time(7.5)
    world.hold(PODS[1])
    assert world.pass_time(7.5) == ()
    assert len(world.hold(PODS[2])) == 3


def test_a_member_that_comes_again_is_no_progress() -> None:
    world = planned()
    world.hold(PODS[0])
    world.pass_time(7.5)
    world.hold(PODS[0])
    assert world.pass_time(0.6) == (RefuseBind(PODS[0], Reason.BARRIER_TIMEOUT),)


def test_no_bind_is_held_longer_than_httptimeout_allows_whoever_comes() -> None:
    world = planned().rules(hold_seconds=10.0)
    world.hold(PODS[0])
    world.pass_time(7.5)
    world.hold(PODS[1])
    assert world.pass_time(2.4) == ()
    assert {e.uid for e in world.pass_time(0.2) if isinstance(e, RefuseBind)} == set(PODS[:2])


def test_a_window_after_one_that_ended_is_a_whole_one() -> None:
    world = planned().rules(hold_seconds=10.0)
    world.hold(PODS[0])
    world.pass_time(9)
    world.hold(PODS[0])
    assert world.pass_time(7.9) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"invalid": "spec: no", "roles": (), "min_workers": 0},
        {"suspended": True},
        {"released": True},
        {"finished": True},
    ],
    ids=["malformed", "suspended", "released", "finished"],
)
def test_a_bind_in_the_step_that_ends_the_plan_is_refused(change: dict[str, Any]) -> None:
    """A malformed job has no roles, so its gang would look complete."""
    world = planned()
    changed = replace(world.snapshot.jobs["job-a"], version=9, **change)
    effects = world.do(JobSeen(changed), BindHeld(PODS[0], world.plan("a")["ps-0"]))
    assert RefuseBind(PODS[0], Reason.PLAN_CHANGED) in effects
    assert not [e for e in effects if isinstance(e, Bind)]


LOST_IN_THAT_STEP = {
    "its node is gone": NodeGone("n1"),
    "its node is cordoned": NodeSeen(node("n1", unschedulable=True, version=9)),
    "its room is stolen": PodSeen(guest("thief", "n1", cpu=9)),
}


@pytest.mark.parametrize("event", LOST_IN_THAT_STEP.values(), ids=LOST_IN_THAT_STEP.keys())
def test_the_last_member_commits_nothing_in_the_step_that_loses_the_room(event: Any) -> None:
    world = planned()
    assert set(world.plan("a").values()) == {"n1"}
    world.hold(PODS[0])
    world.hold(PODS[1])
    effects = world.do(event, BindHeld(PODS[2], "n1"))
    assert not [e for e in effects if isinstance(e, Bind)]
    assert {e.uid for e in effects if isinstance(e, RefuseBind)} == set(PODS)
    assert (world.state("a"), set(world.plan("a").values())) == (State.PLANNED, {"n2"})


def test_a_held_worker_beyond_a_lowered_maximum_neither_counts_nor_is_bound() -> None:
    world = World().nodes("n1")
    world.submit(job("a").ps().workers(2, 4, asked=4))
    for slot in ("ps-0", "worker-3"):
        world.hold(f"uid-a-{slot}")
    world.see(JobBuilder(world.snapshot.jobs["job-a"]).with_(max_workers=2))
    assert not [e for e in world.hold("uid-a-worker-0") if isinstance(e, Bind)]
    effects = world.hold("uid-a-worker-1")
    assert {e.uid for e in effects if isinstance(e, Bind)} == {"uid-a-ps-0", "uid-a-worker-0", "uid-a-worker-1"}
    assert [e for e in effects if isinstance(e, RefuseBind)] == [RefuseBind("uid-a-worker-3", Reason.PLAN_CHANGED)]


@pytest.mark.parametrize("change", [{"slot": w(2)}, {"slot": None}, {"job_uid": "job-other", "slot": w(0)}])
def test_who_waits_for_a_slot_that_another_pod_has_now_is_refused(change: dict[str, Any]) -> None:
    """The slot was taken by another pod of the group, bound by another scheduler (simulation seed 100118)."""
    world = planned()
    world.hold(PODS[0])
    world.hold(PODS[1])
    late = world.snapshot.pods[PODS[1]]
    taker = replace(late, uid="uid-new", name="a-new", node="n2")
    effects = world.see(replace(late, **change), taker)
    assert RefuseBind(PODS[1], Reason.PLAN_CHANGED) in effects
    assert PODS[1] not in world.gang("a").held
    bound = [e.uid for e in (*effects, *world.hold(PODS[2])) if isinstance(e, Bind)]
    assert bound == [PODS[0], PODS[2]]


def test_a_dropped_check_no_longer_counts() -> None:
    world = planned()
    world.hold(PODS[0])
    world.do(BindDropped(PODS[0]))
    assert world.gang("a").window_ends is None
    assert world.hold(PODS[1]) == world.hold(PODS[2]) == ()
    assert len(world.hold(PODS[0])) == 3


def test_a_hold_that_its_own_step_drops_does_not_complete_the_gang() -> None:
    world = planned()
    node = world.gang("a").nodes[ps()]
    assert world.do(*(BindHeld(uid, node) for uid in PODS), BindDropped(PODS[1])) == ()
    assert set(world.gang("a").held) == {PODS[0], PODS[2]}


def test_the_last_hold_completes_no_gang_of_which_its_step_drops_another() -> None:
    world = planned()
    world.hold(PODS[0])
    world.hold(PODS[1])
    assert world.do(BindHeld(PODS[2], world.gang("a").nodes[w(1)]), BindDropped(PODS[0])) == ()
    assert set(world.gang("a").held) == set(PODS[1:])


def test_a_hold_after_its_drop_counts() -> None:
    world = planned()
    node = world.gang("a").nodes[ps()]
    effects = world.do(BindHeld(PODS[0], node), BindDropped(PODS[0]), *(BindHeld(uid, node) for uid in PODS))
    assert [type(effect) for effect in effects] == [Bind] * 3


def test_a_hold_of_the_step_that_tells_of_the_binding_before_it_sends_another_one() -> None:
    """BindRefused is about the earlier binding: if it counted for the new one, the room would be given away (seed
    107263).
    """
    world = planned()
    effects = [e for uid in PODS for e in world.hold(uid)]
    world.answer(effects[1:])
    node = world.gang("a").nodes[ps()]
    again = world.do(BindHeld(PODS[0], node), BindRefused(PODS[0], "no answer within 5 s"))
    assert [type(effect) for effect in again] == [WriteRefused, Bind]
    assert world.gang("a").in_flight == {PODS[0]: node}


def test_bindings_of_a_large_gang_may_take_longer_than_one_has() -> None:
    """The bindings are sent together, but a busy API server answers one after the other."""
    made = job("a").workers(4, cpu=1)
    world = World().nodes("n1").rules(repair_seconds=20.0)
    world.submit(made)
    sent = [effect for uid in [pod.uid for pod in world.snapshot.pods_of("job-a")] for effect in world.hold(uid)]
    for effect in sent:
        assert isinstance(effect, Bind)
        world.pass_time(15)
        assert world.state("a") is State.BINDING
        world.do(BindDone(effect.uid, effect.node))
    assert world.state("a") is State.RUNNING


def test_k_of_n_fail_the_rest_is_retried_and_at_the_deadline_the_gang_is_released_whole() -> None:
    world = planned()
    effects = [e for uid in PODS for e in world.hold(uid)]
    world.answer(effects[:1])
    world.do(*(BindRefused(uid, "conflict") for uid in PODS[1:]))
    assert world.state("a") is State.BINDING
    assert [type(e) for e in world.hold(PODS[1])] == [Bind]
    world.do(BindRefused(PODS[1], "conflict"))
    # gives up within the 30 s of the shipped settings, including the time that the pods take to go
    effects2 = world.pass_time(24.0)
    assert [e.reason for e in effects2 if isinstance(e, Released)] == [Reason.BIND_FAILED]
    assert world.state("a") is State.RELEASING
    world.do(PodGone(PODS[0]))
    assert world.state("a") is State.WAITING


def test_an_unknown_outcome_keeps_the_room_until_the_watch_decides() -> None:
    world = planned()
    effects = [e for uid in PODS for e in world.hold(uid)]
    world.answer(effects[:2])
    world.do(BindUnknown(PODS[2]))
    taken = dict(world.snapshot.charged)
    assert PODS[2] in world.gang("a").in_flight
    assert world.snapshot.charged == taken
    world.see(replace(world.snapshot.pods[PODS[2]], node="n1", phase=Phase.RUNNING))
    assert (world.state("a"), dict(world.gang("a").in_flight)) == (State.RUNNING, {})
    assert world.snapshot.charged == taken


def test_room_of_a_binding_in_flight_stays_charged_while_the_gang_is_released() -> None:
    world = planned()
    _ = [world.hold(uid) for uid in PODS]
    world.do(BindUnknown(PODS[0]), BindRefused(PODS[1], ""), BindRefused(PODS[2], ""))
    world.pass_time(world.snapshot.rules.plan_seconds + 0.1)
    assert world.state("a") is State.RELEASING
    assert world.snapshot.charged["n1"] == world.snapshot.pods[PODS[0]].requests
    world.pass_time(LOST_BINDING_SECONDS - 1)
    assert world.snapshot.charged["n1"] == world.snapshot.pods[PODS[0]].requests
    world.pass_time(2)
    assert world.state("a") is State.PLANNED
    assert not world.gang("a").in_flight


def test_a_gang_of_which_no_binding_was_made_is_bound_together_or_not_at_all_the_next_time() -> None:
    world = planned()
    _ = [world.hold(uid) for uid in PODS]
    world.do(*(BindRefused(uid, "quota") for uid in PODS))
    assert (world.state("a"), world.gang("a").tries.attempts) == (State.WAITING, 1)
    world.pass_time(6)
    assert world.state("a") is State.PLANNED
    assert world.hold(PODS[0]) == ()
    assert world.hold(PODS[1]) == ()


@pytest.mark.parametrize("comes_first", [True, False])
def test_a_member_that_asks_in_the_step_of_those_refusals_is_not_bound_alone(comes_first: bool) -> None:
    """Simulation seed 6162: the first two bindings of a new leader are refused when a third member makes
    its bind call.
    """
    world = World().nodes("n1")
    world.submit(job("a").workers(2, 3, asked=3))
    effects = [e for index in (0, 1) for e in world.hold(f"uid-a-worker-{index}")]
    assert [type(effect) for effect in effects] == [Bind] * 2
    late = BindHeld("uid-a-worker-2", world.gang("a").nodes[w(2)])
    refused = [BindRefused(f"uid-a-worker-{index}", "not leading") for index in (0, 1)]
    answers = world.do(late, *refused) if comes_first else world.do(*refused, late)
    assert [e.reason for e in answers if isinstance(e, RefuseBind)] == [Reason.PLAN_CHANGED]
    assert not [e for e in answers if isinstance(e, Bind)]
    assert world.state("a") is State.WAITING


@pytest.mark.parametrize("room", [4, 6])
def test_a_successor_is_bound_once_its_predecessor_is_gone_or_where_there_is_room_for_both(room: int) -> None:
    """Simulation seed 114319: kube-scheduler no longer counted a terminating pod that still held room on the node."""
    world = World().nodes(node("n1", cpu=room))
    world.start(job("a").workers(2, 2))
    old = world.pod("a-worker-1")
    world.see(replace(old, terminating=True))
    new = world.fresh(replace(old, node="", plan="", phase=Phase.PENDING))
    world.see(new)
    if room == 4:
        assert world.hold(new.uid) == (RefuseBind(new.uid, Reason.ROOM_BEING_FREED),)
        world.do(PodGone(old.uid))
    assert [type(effect) for effect in world.hold(new.uid)] == [Bind]
    assert world.over() == []


def test_only_so_many_gangs_at_once() -> None:
    world = World().rules(gangs_at_once=1).nodes("n1", "n2")
    world.submit(GANG, job("b").workers(2))
    world.hold(PODS[0])
    assert world.hold("uid-b-worker-0") == (RefuseBind("uid-b-worker-0", Reason.BARRIER_FULL),)
    assert world.hold(PODS[1]) == ()


def test_a_bind_to_another_node_than_planned_is_refused() -> None:
    world = planned()
    assert world.hold(PODS[0], "n2") == (RefuseBind(PODS[0], Reason.PLAN_CHANGED),)


def test_ranked_the_plan_follows_the_schedulers_choice_where_there_is_room() -> None:
    world = World().rules(ranked=True).nodes("n1", node("n2", cpu=1.5))
    world.submit(GANG)
    assert world.hold(PODS[0], "n2") == ()
    assert world.plan("a")["ps-0"] == "n2"
    assert world.hold(PODS[1], "n2") == (RefuseBind(PODS[1], Reason.PLAN_CHANGED),)
    assert world.over() == []


def test_a_pod_that_is_gone_cannot_be_bound() -> None:
    world = planned()
    world.hold(PODS[0])
    assert RefuseBind(PODS[0], Reason.POD_GONE) in world.do(PodGone(PODS[0]))
    assert world.do(BindHeld(PODS[0], "n1")) == (RefuseBind(PODS[0], Reason.POD_GONE),)


def test_binding_is_idempotent_once_bound() -> None:
    world = World().nodes("n1", "n2").start(GANG)
    (again,) = world.do(BindHeld(PODS[0], "n1"))
    assert isinstance(again, Bind)
    assert again.node == "n1"
    assert world.do(BindHeld(PODS[0], "n2")) == (RefuseBind(PODS[0], Reason.PLAN_CHANGED),)


def test_a_held_bind_is_answered_when_the_watch_shows_the_pod_bound() -> None:
    world = planned()
    world.hold(PODS[0])
    effects = world.see(replace(world.snapshot.pods[PODS[0]], node="n1"))
    assert [e.uid for e in effects if isinstance(e, Bind)] == [PODS[0]]
    assert not world.gang("a").held


def test_held_binds_go_through_when_the_minimum_is_lowered_to_what_is_bound_and_held() -> None:
    world = planned()
    world.hold(PODS[0])
    world.hold(PODS[1])
    effects = world.see(job("a").ps().workers(1, 2, asked=2))
    assert {e.uid for e in effects if isinstance(e, Bind)} == {PODS[0], PODS[1]}


def test_a_node_that_is_not_offered_is_avoided_and_the_gang_planned_anew_at_once() -> None:
    world = planned()
    world.hold(PODS[1])
    effects = world.do(NodeNotOffered(PODS[0], "n1"))
    assert RefuseBind(PODS[1], Reason.NODE_NOT_OFFERED) in effects
    assert (world.state("a"), set(world.plan("a").values())) == (State.PLANNED, {"n2"})
    world.do(NodeNotOffered(PODS[0], "n2"))
    assert (world.state("a"), world.reason("a")) == (State.WAITING, "PlannedNodeNotOffered")
    assert sorted(until - world.now for until in world.snapshot.not_offered.values()) == [1, 2]
    world.pass_time(1.1)
    assert set(world.plan("a").values()) == {"n1"}
    world.do(NodeNotOffered(PODS[0], "n1"))
    assert max(until - world.now for until in world.snapshot.not_offered.values()) == 4


def test_a_plan_whose_pods_are_deleted_is_given_up_at_once_and_made_again_when_they_are_back() -> None:
    world = planned()
    effects = world.do(PodGone(PODS[1]))
    assert [e.reason for e in effects if isinstance(e, Released)] == [Reason.WAITING_FOR_PODS]
    assert (world.state("a"), world.reason("a")) == (State.WAITING, "WaitingForPods")
    assert world.gang("a").tries.not_before == 0.0
    world.see(world.fresh(replace(world.snapshot.pods[PODS[2]], uid="uid-new", name="a-worker-0", slot=w(0))))
    assert world.state("a") is State.PLANNED


def test_room_stolen_by_a_stranger_does_not_break_the_sums() -> None:
    world = planned()
    for uid in PODS:
        world.hold(uid)
    world.see(guest("thief", "n1", cpu=9))
    assert len(world.over()) == 1
    # The gang's bindings are in flight, so their outcomes decide what becomes of the gang.
    assert world.state("a") is State.BINDING

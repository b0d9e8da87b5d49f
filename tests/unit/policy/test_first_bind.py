"""``barrier.commit: first``: an eligible gang is bound at any member's first bind call, other gangs at the barrier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policy.cluster.actions import Effect
from policy.cluster.constraints import ANYWHERE
from policy.cluster.gang import State
from policy.cluster.job import Job
from policy.cluster.pod import Phase, Pod
from policy.cluster.reasons import Reason
from policy.desired import desired
from policy.transitions.deadlines.patience import LOST_BINDING_SECONDS
from tests.builders import (
    Bind,
    BindDone,
    BindHeld,
    BindRefused,
    BindUnknown,
    JobBuilder,
    JobSeen,
    NodeSeen,
    PodGone,
    PodSeen,
    RefuseBind,
    World,
    guest,
    job,
    members,
    node,
    ps,
    taint,
    w,
)

GANG = job("a").ps().workers(2)
PODS = ("uid-a-ps-0", "uid-a-worker-0", "uid-a-worker-1")


def readable(of: Job, workers: int | None = None) -> list[Pod]:
    """Return the job's member pods with empty node constraints, as the translator reads them."""
    return [replace(one, places=ANYWHERE) for one in members(of, workers)]


def submitted(world: World, *jobs: JobBuilder) -> World:
    made = [one.done() for one in jobs]
    world.do(*(JobSeen(one) for one in made), *(PodSeen(pod) for one in made for pod in readable(one)))
    return world


def planned(*nodes: Any, gang: JobBuilder = GANG, commit_first: bool = True) -> World:
    world = submitted(World().rules(commit_first=commit_first).nodes(*(nodes or ("n1", "n2"))), gang)
    assert world.state("a") is State.PLANNED
    return world


def sent(effects: tuple[Effect, ...]) -> list[str]:
    return [effect.uid for effect in effects if isinstance(effect, Bind)]


@pytest.mark.parametrize("first", PODS)
def test_the_first_bind_call_of_any_member_sends_all_bindings(first: str) -> None:
    world = planned()
    effects = world.hold(first)
    assert [e.slot for e in effects if isinstance(e, Bind)] == [ps(), w(0), w(1)]
    assert {e.plan for e in effects if isinstance(e, Bind)} == {world.gang("a").plan}
    assert (world.state("a"), set(world.gang("a").in_flight), world.gang("a").held) == (State.BINDING, set(PODS), {})
    world.answer(effects)
    assert (world.state("a"), world.gang("a").in_flight) == (State.RUNNING, {})


def test_without_the_setting_the_barrier_waits_for_the_minimum() -> None:
    assert sent(planned(commit_first=False).hold(PODS[0])) == []


def test_nothing_is_bound_before_kube_scheduler_has_asked_for_a_member() -> None:
    world = planned()
    assert sent(world.pass_time(1)) == []
    assert not world.gang("a").in_flight


def test_all_planned_workers_are_sent_and_not_only_the_minimum() -> None:
    world = planned(gang=job("a").ps().workers(1, 3, asked=3))
    assert len(sent(world.hold(PODS[0]))) == 4


def test_an_ineligible_gang_waits_at_the_barrier() -> None:
    world = planned()
    world.see(replace(world.pod("a-worker-1"), unchecked=("volumes",)))
    assert sent(world.hold(PODS[0])) == sent(world.hold(PODS[1])) == []
    assert set(world.gang("a").held) == set(PODS[:2])
    assert sent(world.hold(PODS[2])) == list(PODS)


def test_a_gang_that_becomes_complete_while_a_bind_is_held_is_sent_then() -> None:
    gang = job("a").ps().workers(1, 2, asked=2)
    world = planned(gang=gang)
    last = world.pod("a-worker-1")
    world.do(PodGone(last.uid))
    assert sent(world.hold(PODS[0])) == []
    effects = world.do(PodSeen(replace(last, uid="uid-again", version=9)))
    assert sent(effects) == [*PODS[:2], "uid-again"]


def test_our_own_bindings_do_not_send_the_next_gang_back_to_the_barrier() -> None:
    """Both gangs are on one node, and the BindDone of the first gang changes this node in the same step."""
    world = submitted(planned("n1"), job("b").workers(1, cpu=1))
    first = world.hold(PODS[0])
    done = [BindDone(e.uid, e.node) for e in first if isinstance(e, Bind)]
    assert sent(world.do(*done, BindHeld("uid-b-worker-0", "n1"))) == ["uid-b-worker-0"]


LOST: dict[str, Any] = {
    "cordoned": NodeSeen(node("n1", unschedulable=True, version=9)),
    "smaller": NodeSeen(node("n1", cpu=2, version=9)),
    "filled by another scheduler": PodSeen(guest("thief", "n1", cpu=9)),
}


@pytest.mark.parametrize("event", LOST.values(), ids=LOST.keys())
def test_the_first_call_binds_nothing_in_the_step_that_loses_the_room(event: Any) -> None:
    world = planned()
    assert set(world.plan("a").values()) == {"n1"}
    effects = world.do(event, BindHeld(PODS[0], "n1"))
    assert sent(effects) == []
    assert RefuseBind(PODS[0], Reason.PLAN_CHANGED) in effects or RefuseBind(PODS[0], Reason.ROOM_TAKEN) in effects


def test_a_later_taint_of_a_planned_node_leaves_the_members_to_kube_scheduler() -> None:
    world = planned()
    world.see(node("n1", taints=(taint("gpu"),)))
    assert sent(world.do(BindHeld(PODS[0], "n1"))) == []


def test_of_three_bindings_one_is_refused_and_the_member_is_bound_when_it_is_tried_again() -> None:
    world = planned()
    effects = world.hold(PODS[0])
    world.answer(tuple(effects[:2]))
    world.do(BindRefused(PODS[2], "Forbidden: a webhook"))
    assert world.state("a") is State.BINDING
    again = world.hold(PODS[2])
    assert sent(again) == [PODS[2]]
    world.answer(again)
    assert world.state("a") is State.RUNNING


def test_of_three_bindings_one_is_refused_for_good_and_all_are_released() -> None:
    world = planned()
    world.answer(tuple(world.hold(PODS[0])[:2]))
    world.do(BindRefused(PODS[2], "Forbidden: a webhook"))
    world.pass_time(world.snapshot.rules.repair_seconds + 1)
    assert world.state("a") is State.RELEASING


def test_all_bindings_are_refused_and_the_gang_backs_off() -> None:
    world = planned()
    world.hold(PODS[0])
    world.do(*(BindRefused(uid, "Forbidden: a webhook") for uid in PODS))
    assert (world.state("a"), world.reason("a")) == (State.WAITING, "BackingOff")
    assert not world.snapshot.charged


def test_a_binding_of_unknown_outcome_keeps_its_room_until_it_is_known() -> None:
    world = planned()
    world.answer(tuple(world.hold(PODS[0])[:2]))
    world.do(BindUnknown(PODS[2]))
    assert world.gang("a").in_flight == {PODS[2]: "n1"}
    before = world.snapshot.charged["n1"]
    world.pass_time(LOST_BINDING_SECONDS / 10)
    assert world.snapshot.charged["n1"] == before
    world.do(BindDone(PODS[2], "n1"))
    assert (world.state("a"), world.gang("a").in_flight) == (State.RUNNING, {})


def test_a_member_that_is_deleted_meanwhile_is_repaired() -> None:
    world = planned()
    world.answer(tuple(world.hold(PODS[0])[:2]))
    world.do(PodGone(PODS[2]))
    assert PODS[2] not in world.gang("a").in_flight
    world.do(PodSeen(replace(readable(GANG.done())[2], uid="uid-again", version=9)))
    world.answer(world.hold("uid-again"))
    assert world.state("a") is State.RUNNING


def refused(world: World, *uids: str) -> World:
    """Mark these pods as refused by kube-scheduler before there was a plan, so that they wait in its queue."""
    why = "0/2 nodes are available: kohort: the gang waits for room"
    world.see(*(replace(world.snapshot.pods[uid], refused=True, refusal=why) for uid in uids))
    return world


def woken(world: World) -> list[str]:
    return [order.uid for order in desired(world.snapshot, 500).wake]


def test_one_member_is_woken_and_the_others_are_bound_while_they_sleep() -> None:
    world = refused(planned(), *PODS)
    assert woken(world) == [PODS[0]]
    assert [order.uid for order in desired(world.snapshot, 500).nominate] == [PODS[0]]
    world.see(replace(world.snapshot.pods[PODS[0]], woken=world.gang("a").plan))
    assert woken(world) == []


def test_nobody_is_woken_while_a_member_comes_by_itself() -> None:
    assert woken(refused(planned(), *PODS[1:])) == []


def test_all_are_woken_where_each_must_pass_the_barrier() -> None:
    assert woken(refused(planned(commit_first=False), *PODS)) == list(PODS)
    world = refused(planned(), *PODS)
    world.see(replace(world.pod("a-worker-1"), unchecked=("volumes",)))
    assert woken(world) == list(PODS)


def test_all_others_are_woken_when_the_first_call_is_held_after_all() -> None:
    """The planned node gets a taint after the first member was woken, so the gang is no longer eligible."""
    world = refused(planned("n1"), *PODS)
    world.see(node("n1", taints=(taint("gpu"),)))
    world.hold(PODS[0])
    assert woken(world) == list(PODS[1:])


def test_the_condition_that_kube_scheduler_wrote_on_a_bound_member_is_set_right() -> None:
    """kube-scheduler was trying to schedule the member while Kohort bound it; without first bind no condition is
    mended.
    """
    world = planned()
    world.answer(world.hold(PODS[0]))
    assert desired(world.snapshot, 500).scheduled == ()
    wrong = replace(world.pod("a-worker-1"), refused=True, failed_attempt=True, refusal="pod is assigned")
    world.see(wrong)
    assert [order.name for order in desired(world.snapshot, 500).scheduled] == ["a-worker-1"]
    world.rules(commit_first=False).see(wrong)
    assert desired(world.snapshot, 500).scheduled == ()
    world.rules(commit_first=True).see(replace(wrong, refused=False))
    assert desired(world.snapshot, 500).scheduled == ()


@pytest.mark.parametrize("change", [{"terminating": True}, {"phase": Phase.FAILED}, {"opted_in": False}, {"node": ""}])
def test_a_condition_that_is_true_or_no_longer_matters_is_left_alone(change: dict[str, Any]) -> None:
    bound = replace(readable(GANG.done())[0], node="n1", refused=True)
    assert bound.misreported
    assert not replace(bound, **change).misreported


def test_a_gang_with_an_earlier_binding_of_unknown_outcome_passes_the_barrier() -> None:
    world = planned()
    world.snapshot = replace(world.snapshot, gangs={"job-a": replace(world.gang("a"), in_flight={PODS[2]: "n1"})})
    assert sent(world.hold(PODS[0])) == []

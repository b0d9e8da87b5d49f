"""Writes that the API server refuses are reported once, with its message, and no job waits for their outcome."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policy.answers.explain import explain
from policy.answers.foresee import foresee
from policy.answers.refusals import refusals
from policy.answers.unblock import unblock
from policy.cluster.actions import Effect, ShrinkStalled, WriteRefused
from policy.cluster.events import WritesRefused
from policy.cluster.gang import State
from policy.cluster.reasons import Reason
from policy.cluster.refusedwrite import MOST_CHARACTERS, RefusedWrite, shortened
from policy.desired import desired
from policy.systems import make_policy
from policy.systems.base import Policy
from tests.builders import (
    BindRefused,
    JobBuilder,
    Led,
    PodGone,
    PodSeen,
    Released,
    Resize,
    World,
    job,
    members,
    node,
    w,
)

FIXED = "Invalid: the size of a training job is fixed here"
BIG = job("big", utility=0.1).workers(2, 4, asked=4, cpu=2)
HEAVY = job("heavy", utility=99.0).workers(1, cpu=4).arrived(10)
ELASTIC = [make_policy("kod2"), make_policy("drs"), make_policy("dragon", urgent_threshold=5.0, idle_threshold=10.0)]
DENIED = "Forbidden: doomed may not be bound"


def resize(lasting: bool = True) -> RefusedWrite:
    return RefusedWrite("SetReplicas", "job-big", FIXED, lasting)


def shrinking(policy: Policy) -> World:
    """Make a node full of job big, which is to give up two workers for heavy, whose plan waits for them."""
    world = World(policy).nodes(node("n1", cpu=8)).start(BIG)
    world.now += 10
    world.submit(HEAVY)
    world.pass_time(10)
    assert (world.gang("big").workers, world.state("heavy")) == (2, State.PLANNED)
    assert len(world.gang("heavy").waits_for) == 2
    world.effects.clear()
    return world


def told(effects: tuple[Effect, ...]) -> list[WriteRefused]:
    return [effect for effect in effects if isinstance(effect, WriteRefused)]


# -- In the tests below, the API server refuses to shrink a job. ---------------------------------


@pytest.mark.parametrize("policy", ELASTIC, ids=lambda policy: policy.name)
def test_a_shrink_that_is_refused_is_taken_back_at_once_and_its_room_promised_to_nobody(policy: Policy) -> None:
    world = shrinking(policy)
    effects = world.do(WritesRefused((resize(),)))
    named = replace(resize(), name="team/big")
    assert told(effects) == [WriteRefused("job-big", named, on_behalf_of="job-heavy")]
    assert [e for e in effects if isinstance(e, ShrinkStalled)] == [ShrinkStalled("job-big", 2, 2, "job-heavy")]
    assert [e.reason for e in effects if isinstance(e, Released)] == [Reason.RESIZE_REFUSED]
    assert [(e.job_uid, e.workers) for e in effects if isinstance(e, Resize)] == [("job-big", 4)]
    assert (world.gang("big").workers, len(world.gang("big").nodes)) == (4, 4)
    assert world.state("heavy") is State.WAITING
    assert desired(world.snapshot, 500).replicas == (), "nothing is asked of the API server any more"


@pytest.mark.parametrize("policy", ELASTIC, ids=lambda policy: policy.name)
def test_it_is_left_alone_for_ten_minutes(policy: Policy) -> None:
    world = shrinking(policy)
    world.do(WritesRefused((resize(),)))
    world.effects.clear()
    for _ in range(58):
        world.pass_time(10)
    assert world.gang("big").workers == 4
    assert not [e for e in world.effects if isinstance(e, Resize)]


def test_who_waits_takes_other_room_in_the_same_step() -> None:
    """The job other can shrink as well, so heavy is planned again on its room."""
    other = job("other", utility=0.5).workers(1, 4, asked=4, cpu=2)
    world = World().nodes(node("n1", cpu=8), node("n2", cpu=8)).start(BIG, other)
    world.now += 10
    world.submit(HEAVY)
    assert world.gang("big").workers == 2
    world.do(WritesRefused((resize(),)))
    assert (world.gang("big").workers, world.gang("other").workers) == (4, 2)
    assert (world.state("heavy"), set(world.plan("heavy").values())) == (State.PLANNED, {"n2"})


def crowded(lasting: bool) -> World:
    """Let a Deployment of five pods be planned with two, and let the API server refuse to remove its other pods."""
    world = World().nodes(node("n1", cpu=5))
    world.submit(job("big", kind="Deployment", one_by_one=False, unnumbered=True).workers(2, 5, asked=5, cpu=2))
    assert (world.state("big"), world.gang("big").workers) == (State.PLANNED, 2)
    assert [one.workers for one in desired(world.snapshot, 500).replicas] == [2]
    world.do(WritesRefused((resize(lasting),)))
    return world


def test_a_plan_that_waits_for_pods_that_may_not_be_removed_is_given_up_and_says_why() -> None:
    """No worker of a Deployment is bound before its surplus pods are gone, so the plan would only keep room."""
    world = crowded(lasting=True)
    assert world.state("big") is State.WAITING
    assert [e.reason for e in world.effects if isinstance(e, Released)] == [Reason.RESIZE_REFUSED]
    assert world.reason("big") == Reason.BACKING_OFF.value
    told = explain(world.snapshot, "job-big", world.policy, world.now)
    assert told is not None
    assert told.waits is not None
    assert FIXED in told.waits.detail
    world.submit(job("other").workers(2, cpu=2).arrived(1))
    assert world.state("other") is State.PLANNED, "its room is promised to nobody"


def test_such_a_plan_is_made_again_after_a_pause_and_may_then_succeed() -> None:
    world = crowded(lasting=True)
    world.do(WritesRefused(()))
    world.pass_time(world.snapshot.rules.backoff_initial_seconds + 1)
    assert world.state("big") is State.PLANNED
    assert [one.workers for one in desired(world.snapshot, 500).replicas] == [2], "the resize is tried again"


def test_such_a_plan_stays_where_the_refusal_may_pass() -> None:
    assert crowded(lasting=False).state("big") is State.PLANNED


def test_what_may_pass_is_only_told() -> None:
    """A conflict, a refusal by a PodDisruptionBudget or a lost answer may pass, so only the plan's deadline ends the
    plan.
    """
    world = shrinking(make_policy("kod2"))
    effects = world.do(WritesRefused((resize(lasting=False),)))
    assert len(told(effects)) == 1
    assert (world.gang("big").workers, world.state("heavy")) == (2, State.PLANNED)


def test_both_jobs_are_told_by_whom_and_in_which_words() -> None:
    world = shrinking(make_policy("kod2"))
    world.do(WritesRefused((resize(lasting=False),)))
    said = f"the API server refused to resize team/big: {FIXED}"
    found = [(to, whose, one.text) for to, whose, one in refusals(world.snapshot)]
    assert found == [("job-big", "job-big", said), ("job-heavy", "job-big", said)]
    world.do(WritesRefused((resize(),)))
    found = [(to, whose, one.text) for to, whose, one in refusals(world.snapshot)]
    assert found == [("job-big", "job-big", said), ("job-heavy", "job-big", said)], "also when it has been taken back"


def test_the_fact_goes_with_the_next_shrink_that_the_api_server_takes() -> None:
    world = shrinking(make_policy("kod2"))
    world.do(WritesRefused((resize(),)))
    world.do(WritesRefused(()))
    assert world.snapshot.refused_writes == {}
    world.pass_time(601)
    assert world.gang("big").workers == 2, "it is tried again"
    assert list(refusals(world.snapshot)) == []
    world.see(JobBuilder(world.snapshot.jobs["job-big"]).replicas(2))
    world.do(PodGone("uid-big-worker-3"), PodGone("uid-big-worker-2"))
    assert world.state("heavy") is State.PLANNED
    world.bind(HEAVY)
    assert world.state("heavy") is State.RUNNING


def test_a_shrink_for_nobody_that_is_refused_stays_asked_for_and_its_room_is_no_offer() -> None:
    """The user has lowered the maximum of big; heavy, which comes later, must not be planned in the room of its
    workers.
    """
    world = World().nodes(node("n1", cpu=8)).start(BIG)
    world.see(replace(world.snapshot.jobs["job-big"], max_workers=2, max_stated=True))
    assert world.gang("big").workers == 2
    world.do(WritesRefused((resize(),)))
    assert [order.uid for order in desired(world.snapshot, 500).replicas] == ["job-big"]
    world.submit(HEAVY)
    assert world.state("heavy") is State.WAITING
    world.do(WritesRefused(()))
    assert world.state("heavy") is State.PLANNED, "else what is leaving is an offer"


# -- In the test below, the API server refuses to grow a job. ------------------------------------


def test_a_growth_that_is_refused_gives_its_room_back_at_once_and_rests() -> None:
    world = World().nodes(node("n1", cpu=2)).start(job("big", utility=0.1).workers(1, 4, asked=1, cpu=2))
    world.see(node("n1", cpu=8))
    while world.gang("big").workers < 4:
        world.pass_time(1)
    world.do(WritesRefused((resize(),)))
    assert world.gang("big").workers == 1
    assert world.snapshot.free("n1")["cpu"] == 6000
    world.pass_time(30)
    assert world.gang("big").workers == 1
    assert [one.text for _, _, one in refusals(world.snapshot)] == [
        f"the API server refused to resize team/big: {FIXED}"
    ]


# -- In the tests below, the API server refuses writes that resize no job. -----------------------


def test_a_write_of_a_pod_is_told_at_its_job_once_for_all_of_its_pods() -> None:
    world = World().nodes("n1")
    world.submit(job("a").workers(3, cpu=1))
    writes = tuple(RefusedWrite("Ungate", f"uid-a-worker-{index}", "Forbidden: no") for index in range(3))
    (one,) = told(world.do(WritesRefused(writes)))
    said = "the API server refused to remove the scheduling gate of team/a-worker-0: Forbidden: no"
    assert (one.job_uid, one.refused.text) == ("job-a", said)
    assert told(world.do(WritesRefused(writes))) == [], "it is no news"
    assert len(world.snapshot.refused_writes["job-a"]) == 3
    assert told(world.do(WritesRefused(()))) == []
    assert len(told(world.do(WritesRefused(writes[:1])))) == 1, "it has begun again"


def test_what_is_gone_is_left_out_and_the_gate_is_nobodys() -> None:
    world = World().nodes("n1")
    effects = world.do(WritesRefused((RefusedWrite("Evict", "uid-gone", "no"), RefusedWrite("SetGate", "", "no"))))
    assert [(one.job_uid, one.refused.text) for one in told(effects)] == [
        ("", "the API server refused to switch the admission gate: no")
    ]


def test_one_that_follows_takes_none_and_forgets_those_that_it_had() -> None:
    world = shrinking(make_policy("kod2"))
    world.do(WritesRefused((resize(lasting=False),)))
    world.do(Led(False))
    assert world.snapshot.refused_writes == {}
    assert told(world.do(WritesRefused((resize(),)))) == []
    assert world.snapshot.refused_writes == {}


# -- In the tests below, the API server refuses a binding. ---------------------------------------


def denied() -> World:
    world = World().nodes("n1")
    world.submit(job("doomed").workers(2, cpu=1))
    for index in (0, 1):
        world.hold(f"uid-doomed-worker-{index}")
    world.do(BindRefused("uid-doomed-worker-0", DENIED), BindRefused("uid-doomed-worker-1", DENIED))
    assert world.state("doomed") is State.WAITING
    return world


def test_a_gang_whose_binding_was_refused_says_which_pod_and_in_which_words() -> None:
    world = denied()
    found = explain(world.snapshot, "job-doomed", world.policy, world.now)
    assert found is not None
    said = f"the API server refused to bind team/doomed-worker-1: {DENIED}"
    assert found.waits is not None
    assert found.waits.reason == Reason.BACKING_OFF.value
    assert found.waits.detail == f"attempt 1 failed: {said}"
    assert found.arithmetic == f"all members would fit, but {said}"
    assert "admission policy" in found.mend


def test_to_wait_is_no_advice_and_no_start_is_expected_where_the_api_server_refuses() -> None:
    world = denied()
    assert unblock(world.snapshot, "job-doomed", world.policy, world.now) == ()
    start = foresee(world.snapshot, world.policy, world.now)["job-doomed"]
    assert (start.at, start.basis.startswith("the API server has refused its binding")) == (None, True)


def test_the_words_go_once_the_gang_is_bound() -> None:
    world = denied()
    world.pass_time(5)
    assert world.state("doomed") is State.PLANNED
    assert len(list(refusals(world.snapshot))) == 1
    world.bind(job("doomed").workers(2, cpu=1))
    assert world.state("doomed") is State.RUNNING
    assert list(refusals(world.snapshot)) == []


def test_a_worker_that_is_bound_at_last_or_gone_bears_no_words() -> None:
    """The gang runs and is not bound again, so the message disappears with the pod that was refused."""
    world = World().nodes(node("n1", cpu=4)).start(job("a").workers(1, 3, asked=3, cpu=1))
    for gone in (False, True):
        last = world.snapshot.member("job-a", w(2))
        assert last is not None
        world.do(PodGone(last.uid))
        (new,) = [pod for pod in members(world.snapshot.jobs["job-a"]) if pod.slot == w(2)]
        new = world.fresh(new)
        world.do(PodSeen(new))
        world.hold(new.uid)
        world.do(BindRefused(new.uid, DENIED))
        assert [one.uid for _, _, one in refusals(world.snapshot)] == [new.uid]
        if gone:
            world.do(PodGone(new.uid))
        else:
            world.answer(world.hold(new.uid))
        assert list(refusals(world.snapshot)) == []


def test_an_outcome_without_words_of_the_api_server_is_no_refusal() -> None:
    world = World().nodes("n1")
    world.submit(job("a").workers(1, cpu=1))
    world.hold("uid-a-worker-0")
    assert told(world.do(BindRefused("uid-a-worker-0", ""))) == []
    assert list(refusals(world.snapshot)) == []


def test_words_are_one_line_and_no_longer_than_people_read() -> None:
    assert shortened("two\n  lines\t") == "two lines"
    assert len(shortened("x" * 5000)) == MOST_CHARACTERS

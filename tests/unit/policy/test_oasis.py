"""OASiS as a policy: which jobs are admitted, how many workers each slot has, and what follows when plans fail."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from policy.cluster.actions import Reject
from policy.cluster.events import JobGone, JobSeen, PodSeen, Reported
from policy.cluster.node import Node
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason
from policy.cluster.resources import NOTHING
from policy.cluster.training import Report, Training, Utility
from policy.desired import desired
from policy.systems.oasis import Oasis
from policy.systems.oasis.arithmetic import Array
from policy.systems.oasis.dp import SlotOffer, SlotRole, offer
from policy.systems.oasis.policy import OasisCycle
from policy.systems.oasis.prices import Floor
from policy.systems.oasis.schedule import MEMORY, Book, Plan, Postponed
from policy.systems.oasis.workload import POOL
from tests.builders import START, JobBuilder, NodeGone, NodeNotOffered, PodGone, State, World, job, members, node, w

SLOT = 1000.0
WORTH = Utility(100.0, 0.1, 20.0)


def trains(name: str, slots: int, most: int = 4, utility: Utility = WORTH, **more: object) -> JobBuilder:
    """Return a job of ``slots`` worker-slots: chunks that take one slot each, and enough epochs of ``most`` chunks."""
    training = Training(epochs=-(-slots // most), chunks=most, seconds=SLOT, utility=utility, **more)  # type: ignore[arg-type]
    return job(name, training=training, suspends=True).ps(1, cpu=1).workers(1, most, asked=1, cpu=2)


def world(*nodes: str | Node, **parameters: object) -> World:
    return World(Oasis(slot_seconds=SLOT, horizon=10, **parameters)).nodes(*(nodes or ("n1",)))  # type: ignore[arg-type]


def book(made: World) -> Book:
    found = made.snapshot.memory[MEMORY]
    assert isinstance(found, Book)
    return found


def plan(made: World, name: str) -> Plan:
    return book(made).plans[f"job-{name}"]


def counts(made: World, name: str) -> dict[int, int]:
    """Return the planned number of workers by slot, counted from the present slot."""
    first = int(made.now // SLOT)
    return {shift.slot - first: shift.workers for shift in plan(made, name).shifts}


def run(made: World, one: JobBuilder) -> None:
    """Submit the job, and let its operator and kube-scheduler do their part if it is admitted."""
    made.submit(one)
    for _ in range(2):
        if made.snapshot.gang(one.done().uid).admitted:
            made.operate(one)


def next_slot(made: World, *jobs: JobBuilder) -> None:
    made.pass_time(SLOT - made.now % SLOT)
    for _ in range(3):
        for one in jobs:
            if f"job-{one.done().name}" in made.snapshot.jobs:
                gang = made.gang(one.done().name)
                if gang.state is State.PAUSED:
                    made.do(*(PodGone(p.uid) for p in list(made.snapshot.pods_of(gang.job_uid)) if p.holds_room))
                    made.see(*(made.fresh(p) for p in members_of(made, one)))
                elif gang.admitted:
                    made.operate(one)


def members_of(made: World, one: JobBuilder) -> list[Pod]:
    this = made.snapshot.jobs[one.done().uid]
    there = {p.slot for p in made.snapshot.pods_of(this.uid)}
    return [p for p in members(this) if p.slot not in there]


def test_a_job_that_pays_is_admitted_at_once_with_its_whole_schedule() -> None:
    made = world()
    run(made, trains("a", 8))
    assert counts(made, "a") == {0: 4, 1: 4}
    assert made.state("a") is State.RUNNING
    assert made.gang("a").workers == 4


def test_a_decision_is_made_once() -> None:
    made = world()
    run(made, trains("a", 8))
    before = book(made)
    made.pass_time(10.0)
    assert book(made) is before


def test_a_job_sets_prices_for_as_many_slots_as_are_planned() -> None:
    made = world()
    run(made, one := trains("a", 4))
    made.end(one)
    made.pass_time(9 * SLOT)
    assert set(book(made).seen) == {"job-a"}
    assert made.policy.prices(made.snapshot, made.now)
    made.pass_time(SLOT)
    assert not book(made).seen
    assert not made.policy.prices(made.snapshot, made.now)


def test_a_job_that_does_not_pay_is_refused_for_good_with_its_price() -> None:
    made = world(node("n1", cpu=20))
    run(made, trains("a", 40))
    effects = made.submit(trains("cheap", 4, utility=Utility(0.01, 0.0, 1.0)).done())
    refused = next(effect for effect in effects if isinstance(effect, Reject))
    assert refused.reason is Reason.REJECTED
    assert "payoff -" in refused.detail
    assert "price" in refused.detail
    assert "its fewest workers cost least in time slot" in refused.detail
    made.end(trains("a", 40))
    made.pass_time(SLOT)
    assert made.reason("cheap") == "JobRejected"
    assert made.state("cheap") is State.WAITING


LATER = Utility(1.0, 0.0, 1.0)  # a utility that does not fall with the delay


def refused(**parameters: object) -> tuple[World, int]:
    """Return a world that is full for ten slots and has refused a cheap job, with the slot of the refusal."""
    made = world(node("n1", cpu=9), **parameters)
    run(made, trains("a", 40))
    effects = made.submit(trains("cheap", 4, utility=LATER))
    assert any(isinstance(effect, Reject) for effect in effects) is not bool(parameters)
    assert made.reason("cheap") == "JobRejected"
    return made, int(made.now // SLOT)


@pytest.mark.parametrize("offer_again", [0, 2])
def test_a_refused_job_is_offered_again_where_it_may_be_once_its_time_has_come(offer_again: int) -> None:
    made, slot = refused(**({"offer_again": 2} if offer_again else {}))
    told = made.snapshot.verdicts["job-cheap"].detail
    assert told.endswith(f"; it is offered again in time slot {slot + 2}") is bool(offer_again)
    made.end(trains("a", 40))
    next_slot(made)
    assert made.reason("cheap") == "JobRejected"
    next_slot(made)
    assert made.gang("cheap").admitted is bool(offer_again)
    assert ("job-cheap" in book(made).rejected) is not bool(offer_again)


def test_who_is_refused_again_waits_twice_as_long_for_the_next_time() -> None:
    """The job fits into no window of slots, so it is refused each time."""
    made = world(offer_again=1)
    made.submit(trains("long", 100, utility=LATER))
    slot, told = int(made.now // SLOT), list[int]()
    for _ in range(8):
        refusal = book(made).rejected["job-long"]
        told.append((refusal.slot or 0) - slot)
        next_slot(made)
    assert told == [0, 1, 1, 3, 3, 3, 3, 7]
    assert not any(isinstance(effect, Reject) for effect in made.effects)


def test_a_job_that_would_be_hopeless_by_then_is_refused_for_good_at_once() -> None:
    made = world(node("n1", cpu=9), offer_again=8)
    run(made, trains("a", 40))
    effects = made.submit(trains("cheap", 4, utility=Utility(0.01, 1.0, 3.0)))
    assert any(isinstance(effect, Reject) for effect in effects)
    assert made.reason("cheap") == "JobRejected"
    assert not isinstance(book(made).rejected["job-cheap"], Postponed)


def test_a_hopeless_job_is_refused_and_sets_no_price() -> None:
    made = world()
    made.submit(trains("late", 40, utility=Utility(100.0, 6.0, 1.0)).done())
    assert made.reason("late") == "JobRejected"
    assert book(made).seen == {}


@pytest.mark.parametrize("floor", list(Floor))
def test_a_job_worth_nothing_is_refused_and_leaves_the_prices_as_they_are(floor: Floor) -> None:
    """The logarithm of a utility of 0 among the bounds of the prices would have every later job refused."""
    made = world(floor=floor)
    made.submit(trains("worthless", 4, utility=Utility(0.0, 0.5, 5.0)).done())
    assert made.reason("worthless") == "JobRejected"
    run(made, trains("a", 8))
    assert made.state("a") is State.RUNNING
    assert set(book(made).seen) == {"job-a"}


def test_a_job_larger_than_the_window_is_refused() -> None:
    made = world()
    effects = made.submit(trains("long", 100).done())
    assert any(isinstance(e, Reject) and "does not fit into the 10 time slots" in e.detail for e in effects)


def test_what_is_forgotten_with_the_job() -> None:
    made = world()
    run(made, trains("a", 8))
    made.do(JobGone("job-a"))
    assert book(made).plans == {}


def test_room_of_a_job_that_ends_early_is_planned_anew() -> None:
    made = world()
    run(made, trains("a", 40))
    made.end(trains("a", 40))
    run(made, trains("b", 8))
    assert counts(made, "b") == {0: 4, 1: 4}


def test_jobs_share_the_slots_and_nothing_is_promised_twice() -> None:
    made = world(node("n1", cpu=6))
    first, second = trains("a", 4, most=2), trains("b", 4, most=2)
    run(made, first)
    run(made, second)
    both = {slot: counts(made, "a").get(slot, 0) + counts(made, "b").get(slot, 0) for slot in range(10)}
    assert sum(both.values()) == 8
    assert max(both.values()) <= 2  # of 6 cores, one job at a time uses a ps of one core and two workers of two
    assert made.over() == []


def test_a_job_whose_schedule_is_over_without_room_for_the_rest_is_not_told_that_it_goes_on_later() -> None:
    made = world(node("n1", cpu=6))
    slow, urgent = trains("slow", 6, most=2, utility=Utility(100.0, 0.0, 1.0)), trains("b", 2, most=2)
    run(made, slow)
    shifts = tuple(replace(shift, slot=shift.slot + (i > 0)) for i, shift in enumerate(plan(made, "slow").shifts))
    waits = replace(plan(made, "slow"), shifts=shifts)
    made.snapshot = replace(made.snapshot, memory={MEMORY: replace(book(made), plans={"job-slow": waits})})
    run(made, urgent)
    next_slot(made, slow, urgent)
    assert made.reason("slow") == "JobPaused"
    over = replace(book(made), plans={**book(made).plans, "job-slow": replace(waits, shifts=shifts[:1])})
    cycle = made.policy.decide(replace(made.snapshot, memory={**made.snapshot.memory, MEMORY: over}), made.now)
    assert cycle.verdicts["job-slow"].reason is Reason.SCHEDULE_OVER


def test_an_empty_slot_is_a_pause_and_the_job_goes_on_in_the_next() -> None:
    made = world(node("n1", cpu=6))
    slow, urgent = trains("slow", 6, most=2, utility=Utility(100.0, 0.0, 1.0)), trains("b", 2, most=2)
    run(made, slow)
    shifts = tuple(replace(shift, slot=shift.slot + (i > 0)) for i, shift in enumerate(plan(made, "slow").shifts))
    waits = replace(plan(made, "slow"), shifts=shifts)
    made.snapshot = replace(made.snapshot, memory={MEMORY: replace(book(made), plans={"job-slow": waits})})
    run(made, urgent)
    assert counts(made, "b") == {1: 2}
    next_slot(made, slow, urgent)
    assert made.state("slow") is State.PAUSED
    assert made.reason("slow") == "JobPaused"
    assert made.state("b") is State.RUNNING
    made.end(urgent)
    next_slot(made, slow)
    assert made.state("slow") is State.RUNNING


def lone(name: str, slots: int, **more: object) -> JobBuilder:
    """Return a one-worker job that trains for ``slots`` slots, cannot be suspended, and whose pod is never replaced."""
    made = trains(name, slots, most=1).workers(1, 1, cpu=4)
    only = {"suspends": False, "replaced": False, "elastic": False, "roles": made.done().roles[1:], **more}
    return made.with_(**only)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_job_that_cannot_be_suspended_holds_on_beyond_its_plan_and_the_others_make_room(replaced: bool) -> None:
    made = world(node("n1", cpu=4))
    held, other = lone("a", 1, replaced=replaced), lone("b", 3, suspends=True)
    run(made, held)
    run(made, other)
    assert counts(made, "b") == {1: 1, 2: 1, 3: 1}
    for _ in range(3):
        next_slot(made, held, other)
        assert (made.state("a"), desired(made.snapshot, 500).release) == (State.RUNNING, ())
        assert (counts(made, "a"), counts(made, "b")) == ({0: 1}, {1: 1, 2: 1, 3: 1})
    made.end(held)
    next_slot(made, other)
    assert made.state("b") is State.RUNNING


def test_a_job_that_cannot_be_suspended_is_not_moved_to_where_its_plan_has_it() -> None:
    made = swapped(suspends=False)
    made.pass_time(1.0)
    assert [made.state(name) for name in "ab"] == [State.RUNNING, State.RUNNING]
    assert desired(made.snapshot, 500).release == ()


def test_a_job_that_cannot_be_suspended_stays_on_its_node_while_others_are_planned_around_it() -> None:
    """Job a, begun under another policy, is planned on room of job b's plan, and job b is planned again."""
    made = world(node("n1", cpu=4))
    run(made, lone("a", 3))
    run(made, lone("b", 2, suspends=True))
    taken = replace(book(made), plans={uid: one for uid, one in book(made).plans.items() if uid == "job-b"})
    shifted = taken.plans["job-b"].moved(-3)
    made.snapshot = replace(made.snapshot, memory={MEMORY: replace(taken, plans={"job-b": shifted})})
    made.pass_time(1.0)
    assert (counts(made, "a"), counts(made, "b")) == ({0: 1, 1: 1, 2: 1}, {3: 1, 4: 1})


@pytest.mark.parametrize("roles", [{"master": 1}, {"x-0": 2, "y-0": 1}, {"ps": 2}])
@pytest.mark.parametrize("bare", [False, True])
def test_a_job_without_workers_is_planned_and_started_as_one_unit(roles: dict[str, int], bare: bool) -> None:
    """With ``bare`` the members request nothing, so a node takes any number of them."""
    made = world("n1", "n2")
    one = job(
        "a",
        kind="JobSet",
        suspends=True,
        ps_elastic=True,
        training=Training(epochs=3, chunks=1, seconds=SLOT, utility=WORTH),
    )
    for name, count in roles.items():
        one = one.role(name, count, cpu=2)
    if bare:
        one = one.with_(roles=tuple(replace(role, requests=NOTHING) for role in one.done().roles))
    run(made, one)
    assert (made.state("a"), made.gang("a").workers, len(made.plan("a"))) == (State.RUNNING, 0, sum(roles.values()))
    assert counts(made, "a") == {0: 0, 1: 0, 2: 0}
    assert plan(made, "a").left(0) == 3
    before = made.gang("a")
    made.pass_time(SLOT)
    made.pass_time(SLOT)
    assert made.gang("a") == before


def test_a_job_without_workers_pays_for_its_roles_and_takes_their_room() -> None:
    made = world(node("n1", cpu=4))
    for name in "ab":
        run(
            made,
            job(name, suspends=True, training=Training(chunks=2, seconds=SLOT, utility=WORTH)).role("master", 1, cpu=3),
        )
    assert [list(counts(made, name)) for name in "ab"] == [[0, 1], [2, 3]]
    assert plan(made, "a").payoff > plan(made, "b").payoff
    parts = made.policy.parts(made.snapshot.memory)
    assert made.policy.recalled(made.snapshot, parts)[MEMORY].plans == book(made).plans  # type: ignore[attr-defined]


def suspended(made: World, one: JobBuilder) -> None:
    """Suspend the job as its user does; its operator deletes its pods."""
    made.see(JobBuilder(made.snapshot.jobs[one.done().uid]).with_(suspended=True))
    made.do(*(PodGone(p.uid) for p in list(made.snapshot.every_pod_of(one.done().uid))))


def resumed(made: World, one: JobBuilder) -> None:
    """Resume the job as its user does; its operator creates its pods again."""
    made.see(one.replicas(1))
    made.see(*(made.fresh(p) for p in members(one.replicas(1).done())))


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("reported", [False, True])
def test_a_job_that_its_user_suspends_stays_admitted_and_does_not_do_its_work_twice(
    reported: bool, restarted: bool
) -> None:
    """The job is resumed when its utility is nearly 0; its rest of work comes from its report, or else from its old
    plan.
    """
    made = world(node("n1", cpu=20))
    one = trains("a", 16, utility=Utility(100.0, 3.0, 5.0))
    run(made, one)
    made.pass_time(2 * SLOT)
    if reported:
        made.do(Reported("job-a", Report(made.now, None, 0.75)))
    parts = made.policy.parts(made.snapshot.memory)
    suspended(made, one)
    assert book(made).plans == {}
    other = trains("b", 8)
    run(made, other)
    assert counts(made, "b") == {0: 4, 1: 4}
    made.end(other)
    if restarted:
        recalled = made.policy.recalled(made.snapshot, parts)
        made.snapshot = replace(made.snapshot, memory=recalled)
    made.pass_time(6 * SLOT)
    resumed(made, one)
    assert counts(made, "a") == ({0: 4} if reported else {0: 4, 1: 4})
    assert book(made).shelved == {}
    made.bind(one)
    assert made.state("a") is State.RUNNING


def test_the_plan_of_a_suspended_job_is_forgotten_with_it() -> None:
    made = world()
    one = trains("a", 16)
    run(made, one)
    suspended(made, one)
    assert list(book(made).shelved) == ["job-a"]
    made.do(JobGone("job-a"))
    made.pass_time(SLOT)
    assert book(made).shelved == {}


def test_a_lost_node_has_its_plans_made_anew_whether_or_not_they_pay() -> None:
    made = world("n1", "n2")
    run(made, trains("a", 16))
    home = next(iter(made.gang("a").nodes.values()))
    made.do(NodeGone(home))
    left = {node for shift in plan(made, "a").shifts for _, node, _ in shift.layout}
    assert left == {"n1", "n2"} - {home}
    assert plan(made, "a").left(0) >= 12


def test_a_job_behind_its_plan_is_given_more_slots() -> None:
    made = world()
    run(made, trains("a", 8))
    made.now += SLOT - made.now % SLOT - 1
    made.do(Reported("job-a", Report(made.now, done=0.25)))
    next_slot(made)
    assert plan(made, "a").left(int(made.now // SLOT)) == 6


def test_bounds_that_their_user_changes_hold_at_once_and_the_plan_follows_from_the_next_slot() -> None:
    made = world()
    run(made, trains("a", 12, most=2))
    made.pass_time(SLOT / 2)
    made.do(JobSeen(replace(made.snapshot.jobs["job-a"], min_workers=3, max_workers=4)))
    assert made.gang("a").workers == 3
    first = int(made.now // SLOT)
    assert all(3 <= shift.workers <= 4 for shift in plan(made, "a").shifts if shift.slot > first)
    assert plan(made, "a").left(first + 1) >= 10


def test_a_job_ahead_of_its_plan_gives_slots_back() -> None:
    made = world()
    run(made, trains("a", 12))
    made.now += SLOT - made.now % SLOT - 1
    made.do(Reported("job-a", Report(made.now, done=0.6)))
    next_slot(made)
    assert plan(made, "a").left(int(made.now // SLOT)) == 8


def test_of_a_gang_with_members_that_are_done_the_others_are_placed_and_bound() -> None:
    """An Indexed Job of three indices, one of them complete, is first seen after a restart."""
    made = world(node("n1", cpu=9))
    whole = trains("a", 6).workers(3, 3, cpu=2).with_(kind="Job", over=(w(0),)).done()
    made.see(whole, *[pod for pod in members(whole) if pod.slot != w(0)])
    assert made.gang("a").workers == 3
    assert made.plan("a") == {"ps-0": "n1", "worker-1": "n1", "worker-2": "n1"}
    before = made.snapshot.gangs
    made.pass_time(1.0)
    assert made.snapshot.gangs == before, "nothing is missing of it"
    for name in ("ps-0", "worker-1", "worker-2"):
        made.hold(f"uid-a-{name}")
    assert made.state("a") is State.BINDING


def planned_on(made: World, name: str, where: str) -> None:
    """Change the job's plan so that all its members are on the node ``where``."""
    plans = dict(book(made).plans)
    old = plans[f"job-{name}"]
    there = (replace(one, layout=tuple((role, where, count) for role, _, count in one.layout)) for one in old.shifts)
    plans[f"job-{name}"] = replace(old, shifts=tuple(there))
    memory = {**made.snapshot.memory, MEMORY: replace(book(made), plans=plans)}
    made.snapshot = replace(made.snapshot, memory=memory)


def swapped(**more: object) -> World:
    """Return a world in which two jobs run, each on the node on which the other one is planned."""
    made = world("n1", "n2")
    run(made, trains("a", 12).with_(**more))
    run(made, trains("b", 12).with_(**more))
    assert (made.plan("a")["ps-0"], made.plan("b")["ps-0"]) == ("n1", "n2")
    planned_on(made, "a", "n2")
    planned_on(made, "b", "n1")
    return made


def test_jobs_beside_their_plans_start_again_where_they_are_planned() -> None:
    made = swapped()
    made.pass_time(1.0)
    assert (made.state("a"), made.state("b")) == (State.PAUSED, State.PAUSED)


def test_a_job_that_starts_beside_its_plan_again_stays_for_the_slot_and_does_not_pause_for_ever() -> None:
    made = swapped()
    righted = replace(book(made), righted=("job-a", "job-b"), slot=int(made.now // SLOT))
    made.snapshot = replace(made.snapshot, memory={**made.snapshot.memory, MEMORY: righted})
    assert [effect for _ in range(3) for effect in made.pass_time(1.0)] == []
    assert (made.state("a"), made.state("b")) == (State.RUNNING, State.RUNNING)
    made.pass_time(SLOT)
    assert (made.state("a"), made.state("b")) == (State.PAUSED, State.PAUSED)


def test_a_planned_node_that_is_not_offered_is_asked_for_again_in_a_moment_and_not_in_the_same_step() -> None:
    made = world("n1", "n2")
    made.submit(trains("a", 8))
    assert set(made.plan("a").values()) == {"n1"}
    made.do(NodeNotOffered("uid-a-ps-0", "n1"))
    assert (made.state("a"), made.reason("a")) == (State.WAITING, "PlannedNodeNotOffered")
    made.pass_time(0.5)
    assert made.state("a") is State.WAITING
    made.pass_time(0.6)
    assert (made.state("a"), set(made.plan("a").values())) == (State.PLANNED, {"n1"})


def test_a_planned_node_that_is_not_offered_twice_is_left_for_another_one() -> None:
    made = world("n1", "n2")
    made.submit(trains("a", 8))
    made.do(NodeNotOffered("uid-a-ps-0", "n1"))
    made.pass_time(1.1)
    made.do(NodeNotOffered("uid-a-ps-0", "n1"))
    assert (made.state("a"), set(made.plan("a").values())) == (State.PLANNED, {"n2"})


def test_a_restarted_worker_is_not_put_where_its_node_was_not_offered() -> None:
    made = world(node("n1", cpu=6), node("n2", cpu=6), node("n3", cpu=6))
    run(made, one := trains("a", 12, most=4))
    lost = max(made.gang("a").nodes)
    made.do(PodGone(made.snapshot.members["job-a"][lost]))
    made.see(made.fresh(members(one.replicas(4).done())[-1]))
    for _ in range(2):
        refused = made.gang("a").nodes[lost]
        made.do(NodeNotOffered(made.snapshot.members["job-a"][lost], refused))
        assert made.gang("a").nodes.get(lost) != refused


def test_a_running_job_without_a_plan_gets_one() -> None:
    made = world()
    run(made, trains("a", 8))
    made.snapshot = replace(made.snapshot, memory={})
    made.pass_time(10.0)
    assert "job-a" in book(made).plans
    assert made.state("a") is State.RUNNING


def test_a_refused_job_that_another_scheduler_has_begun_gets_a_plan_and_is_refused_no_more() -> None:
    made = world()
    made.submit(hopeless := trains("late", 40, utility=Utility(100.0, 6.0, 1.0)).done())
    assert made.reason("late") == "JobRejected"
    made.see(replace(members(hopeless)[0], node="n1"))
    made.pass_time(10.0)
    assert "job-late" in book(made).plans
    assert "job-late" not in book(made).rejected
    assert made.reason("late") != "JobRejected"


def test_a_gang_has_its_minimum_in_every_slot_or_nothing() -> None:
    made = world(node("n1", cpu=10))
    training = Training(epochs=2, chunks=4, seconds=SLOT, utility=WORTH)
    run(made, job("a", training=training).ps(1, cpu=1).workers(3, 4, asked=3, cpu=2))
    assert set(counts(made, "a").values()) <= {3, 4}


def test_ps_come_and_go_with_the_workers_where_they_may() -> None:
    made = world(node("n1", cpu=20))
    this = trains("a", 5, most=4, worker_bandwidth=1.0, ps_bandwidth=2.0).with_(ps_elastic=True)
    run(made, this)
    shift = plan(made, "a").shifts[0]
    assert (shift.workers, shift.count("ps")) == (4, 2)
    assert made.gang("a").ps == 2


def test_ps_that_may_not_change_are_planned_as_asked() -> None:
    made = world(node("n1", cpu=20))
    run(made, trains("a", 5, most=4, worker_bandwidth=1.0, ps_bandwidth=8.0))
    assert {shift.count("ps") for shift in plan(made, "a").shifts} == {1}
    assert made.gang("a").ps is None


def test_pools_by_label_keep_workers_and_ps_apart() -> None:
    made = world(node("n1", labels={POOL: "worker"}), node("n2", labels={POOL: "ps"}))
    run(made, trains("a", 8))
    places = {(role, where) for shift in plan(made, "a").shifts for role, where, _ in shift.layout}
    assert places == {("worker", "n1"), ("ps", "n2")}


def test_a_slot_that_has_begun_is_not_planned() -> None:
    policy = Oasis(slot_seconds=SLOT, horizon=10)
    assert policy.window(20 * SLOT + 49.0).first == 20
    assert policy.window(20 * SLOT + 51.0).first == 21


def test_nothing_is_planned_beyond_the_end_of_the_timespan() -> None:
    policy = Oasis(slot_seconds=SLOT, horizon=10, end=23 * SLOT)
    assert policy.window(20 * SLOT).last == 22
    assert policy.window(30 * SLOT).slots == 0


def test_in_the_papers_mode_an_empty_cluster_takes_every_job() -> None:
    for value in (0.01, 1.0, 100.0):
        made = world(floor=Floor.PAPER)
        run(made, trains("a", 8, utility=Utility(value, 0.5, 5.0)))
        assert made.state("a") is State.RUNNING


def test_the_same_facts_give_the_same_decision() -> None:
    made = world("n1", "n2")
    run(made, trains("a", 8))
    policy = made.policy
    assert isinstance(policy, Oasis)
    assert (
        OasisCycle(policy, made.snapshot, made.now + SLOT).run()
        == OasisCycle(policy, made.snapshot, made.now + SLOT).run()
    )


WRONG = [
    {"slot_seconds": 0.0}, {"horizon": 0}, {"price_ratio": -1.0}, {"l_scale": math.nan}, {"switching_cost": math.nan},
    {"switching_cost": -0.1}, {"offer_again": -1},
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_parameter_out_of_range_is_named(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"oasis: {next(iter(wrong))} is"):
        Oasis(**wrong)  # type: ignore[arg-type]


# -- The tests below are about jobs that are late against their schedules. ------------------------


def test_a_job_whose_pods_come_after_its_slot_is_planned_anew_whole() -> None:
    made = world()
    one = trains("a", 8)
    made.now += 0.2 * SLOT  # the present slot has begun, so the plan starts with the next slot
    made.submit(one)
    assert counts(made, "a") == {1: 4, 2: 4}
    made.snapshot = replace(made.snapshot, leading=False)
    made.pass_time(2.9 * SLOT)  # both planned slots pass while this replica does not lead
    made.snapshot = replace(made.snapshot, leading=True)
    made.pass_time(SLOT - made.now % SLOT)
    assert counts(made, "a") == {0: 4, 1: 4}
    assert made.state("a") is State.PLANNED


def test_a_job_that_runs_on_beyond_its_plan_is_planned_slot_by_slot() -> None:
    """Without reports the job counts as nearly done in the slot after its plan, and gets one slot more at a time."""
    made = world()
    one = trains("a", 4)
    run(made, one)
    next_slot(made, one)
    assert counts(made, "a") == {}
    next_slot(made, one)
    assert counts(made, "a") == {0: 1}
    assert made.gang("a").workers == 1


# -- The tests below are about clocks that are set back, and about pools, bounds and slot lengths that change. --


def test_a_clock_set_back_leaves_who_runs_running_and_who_waits_as_near_to_its_slot() -> None:
    """By the old clock's slot numbers both jobs would be paused until the new clock has reached these slots."""
    made = world()
    first, second = trains("a", 8), trains("b", 8)
    run(made, first)
    made.submit(second)
    assert (counts(made, "a"), counts(made, "b")) == ({0: 4, 1: 4}, {2: 4, 3: 4})
    made.pass_time(-240 * SLOT)
    assert made.state("a") is State.RUNNING
    assert (counts(made, "a"), counts(made, "b")) == ({0: 4, 1: 4}, {2: 4, 3: 4})


def test_a_refusal_by_a_clock_that_was_ahead_ends_with_it_and_one_by_the_right_clock_stays() -> None:
    made = world()
    made.pass_time(240 * SLOT)
    late = trains("late", 8)
    made.submit(late.with_(arrival=START))
    assert made.reason("late") == "JobRejected"
    told = [effect for effect in made.pass_time(SLOT) if isinstance(effect, Reject)]
    assert (made.reason("late"), told) == ("JobRejected", [])
    made.pass_time(-241 * SLOT)
    assert made.reason("late") != "JobRejected"
    assert "job-late" in book(made).plans
    made.submit(trains("cheap", 4, utility=Utility(1e-6, 0.0, 1.0)))
    assert made.reason("cheap") == "JobRejected"
    told = [effect for _ in range(3) for effect in made.pass_time(SLOT) if isinstance(effect, Reject)]
    assert (made.reason("cheap"), told) == ("JobRejected", [])


def test_a_pool_that_is_gone_has_no_price_and_stops_nobody() -> None:
    """The paper's floor divides by what a pool offers, here 0. The same holds after the policy's ``end``: no slot is
    left.
    """
    apart = [node("n1", labels={POOL: "worker"}), node("n2", labels={POOL: "ps"})]
    made = world(*apart, floor=Floor.PAPER)
    run(made, trains("a", 4))
    assert made.snapshot.gang("job-a").admitted
    made.see(replace(made.snapshot.nodes["n2"], ready=False))
    assert made.state("a") is not State.WAITING, "the ledger goes on"
    made.do(NodeGone("n1"), NodeGone("n2"))
    over = World(Oasis(slot_seconds=SLOT, horizon=10, floor=Floor.PAPER, end=START + 3 * SLOT)).nodes("n1")
    run(over, trains("a", 4))
    over.pass_time(5 * SLOT)
    over.submit(trains("b", 4))
    assert not over.snapshot.gang("job-b").admitted


def test_what_its_pods_ask_for_is_planned_and_not_the_template() -> None:
    """A LimitRange gives each pod four cores for its worker, so two such jobs do not fit into one slot of ten cores."""
    made = world(node("n1", cpu=10))
    for name in ("a", "b"):
        one = trains(name, 1, most=1).done()
        pods = [
            replace(pod, requests=replace(pod.requests, amounts={**pod.requests.amounts, "cpu": cpu * 1000}))
            for pod, cpu in zip(members(one), (2, 4), strict=True)
        ]
        made.do(JobSeen(one), *(PodSeen(pod) for pod in pods))
    assert plan(made, "a").work.requests["cpu"] == 4000
    assert [part.requests["cpu"] for part in plan(made, "a").work.parts] == [2000]
    assert counts(made, "a").keys().isdisjoint(counts(made, "b"))


def test_a_bound_beyond_what_the_cluster_takes_costs_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision's tables are only as wide as the empty cluster allows, and the decision does not change by that."""
    widths: list[int] = []

    def noted(free: Array, price: Array, roles: tuple[SlotRole, ...]) -> SlotOffer:
        widths.append(len(roles[0].counts))
        return offer(free, price, roles)

    monkeypatch.setattr("policy.systems.oasis.planner.offer", noted)
    shifts = []
    for capped in (True, False):
        if not capped:
            monkeypatch.setattr("policy.systems.oasis.planner.room_for", lambda left, _: np.full(left.shape[:2], 1e6))
        made = world(node("n1", cpu=10))
        training = Training(epochs=1, chunks=10_000, seconds=SLOT / 1000, utility=WORTH)
        made.submit(job("a", training=training, suspends=True).ps(1, cpu=1).workers(1, 300, asked=1, cpu=2))
        shifts.append([shift.workers for shift in plan(made, "a").shifts])
    assert set(widths) == {6, 301}
    assert shifts[0] == shifts[1]
    assert sum(shifts[0]) == 10


def busy(made: World, name: str, slot_seconds: float) -> list[tuple[float, float, int]]:
    """Return the spans (begin, end, workers) of the job's plan in seconds after the start; equal slots in a row are one
    span.
    """
    spans: list[tuple[float, float, int]] = []
    for shift in plan(made, name).shifts:
        begin, end = (at * slot_seconds - START for at in (shift.slot, shift.slot + 1))
        if spans and spans[-1][1:] == (begin, shift.workers):
            begin = spans.pop()[0]
        spans.append((begin, end, shift.workers))
    return spans


@pytest.mark.parametrize("length", [500.0, 2000.0])
def test_slots_of_another_length_leave_every_schedule_at_its_time(length: float) -> None:
    """The slot length changes while jobs run: each plan keeps its times, and refused jobs stay refused."""
    made = world(node("n1", cpu=10))
    run(made, trains("a", 16))
    made.submit(trains("b", 8))
    made.submit(trains("worthless", 8, utility=Utility(1e-9, 9.0, -99.0)))
    before = {name: busy(made, name, SLOT) for name in ("a", "b")}
    assert made.gang("a").workers == 4
    made.policy = Oasis(slot_seconds=length, horizon=20)
    made.pass_time(1.0)
    assert {name: busy(made, name, length) for name in ("a", "b")} == before
    assert made.reason("worthless") == "JobRejected"
    for _ in range(3):
        made.pass_time(length / 2)
        assert made.gang("a").workers == 4


def test_a_restart_with_slots_of_another_length_reads_the_same_times() -> None:
    made = world(node("n1", cpu=10))
    run(made, trains("a", 16))
    before, kept = busy(made, "a", SLOT), made.policy.parts(made.snapshot.memory)
    again = Oasis(slot_seconds=500.0, horizon=20)
    made.snapshot = replace(made.snapshot, memory=dict(again.recalled(made.snapshot, kept)))
    assert busy(made, "a", 500.0) == before
    assert book(made).slot == int(START // 500.0)

"""Ps whose number changes only while their job is suspended: OASiS's plan, and the orders that make it true."""

from __future__ import annotations

from policy.cluster.job import PS
from policy.cluster.orders import SuspendOrder
from policy.cluster.training import Training, Utility
from policy.desired import desired
from policy.systems.oasis import Oasis
from policy.systems.oasis.schedule import MEMORY, Book
from tests.builders import JobBuilder, PodGone, Resize, State, World, job, members, node

SLOT = 1000.0
WORTH = Utility(100.0, 0.1, 20.0)


def trains(slots: int, ps: int, *, most: int = 4, varies: bool = True, **more: object) -> JobBuilder:
    """Return job a with ``slots`` worker-slots of work; it needs one ps for every two workers."""
    training = Training(chunks=slots, seconds=SLOT, utility=WORTH, worker_bandwidth=1.0, ps_bandwidth=2.0, **more)  # type: ignore[arg-type]
    made = job("a", training=training, suspends=True, ps_restarts=varies)
    return made.ps(ps, cpu=1).workers(1, most, asked=1, cpu=2)


def world() -> World:
    return World(Oasis(slot_seconds=SLOT, horizon=10)).nodes(node("n1", cpu=20))


def planned(made: World, role: str) -> list[int]:
    """Return the planned number of members of the role in each slot."""
    book = made.snapshot.memory[MEMORY]
    assert isinstance(book, Book)
    return [shift.count(role) for shift in book.plans["job-a"].shifts]


def suspensions(made: World) -> list[tuple[bool, int | None]]:
    return [(order.suspend, order.ps) for order in desired(made.snapshot, 500).suspend]


def restart(made: World) -> None:
    """Obey the suspend orders until there are none: delete the pods at a suspension, create the ordered ones at a
    resumption.
    """
    while orders := desired(made.snapshot, 500).suspend:
        (order,) = orders
        made.see(_obeyed(made, order))
        there = list(made.snapshot.pods_of("job-a"))
        if order.suspend:
            made.do(*(PodGone(pod.uid) for pod in there))
        else:
            made.see(*(made.fresh(pod) for pod in members(made.snapshot.jobs["job-a"])))


def _obeyed(made: World, order: SuspendOrder) -> JobBuilder:
    found = JobBuilder(made.snapshot.jobs["job-a"]).with_(released=order.suspend)
    return found if order.ps is None else found.ps(order.ps, cpu=1)


def running(slots: int, **more: object) -> tuple[World, JobBuilder]:
    """Start job a with the ps that its first slot needs; return the world and the job."""
    made, one = world(), trains(slots, 2, **more)  # type: ignore[arg-type]
    made.submit(one)
    for _ in range(2):
        made.operate(one)
    assert (made.state("a"), made.gang("a").workers) == (State.RUNNING, 4)
    return made, one


def test_a_job_without_ps_asks_for_none() -> None:
    assert [found.done().servers for found in (job("a").workers(3), job("a").ps(2).workers(3))] == [0, 2]


def test_a_job_that_comes_with_other_ps_is_suspended_until_it_asks_for_those_of_its_first_slot() -> None:
    made = world()
    made.submit(trains(4, 3))
    assert (planned(made, "worker"), planned(made, PS)) == ([4], [2])
    assert (made.state("a"), made.reason("a"), suspensions(made)) == (State.WAITING, "JobPaused", [(True, None)])
    restart(made)
    assert made.snapshot.jobs["job-a"].servers == 2
    assert (made.state("a"), sorted(made.plan("a"))[:2]) == (State.PLANNED, ["ps-0", "ps-1"])
    assert suspensions(made) == []


def test_a_running_job_is_started_again_with_the_ps_of_the_next_slot() -> None:
    made, one = running(5)
    assert (planned(made, "worker"), planned(made, PS)) == ([4, 1], [2, 1])
    made.pass_time(SLOT - made.now % SLOT)
    assert (made.state("a"), made.gang("a").ps_next, suspensions(made)) == (State.PAUSED, 1, [(True, None)])
    restart(made)
    assert (made.state("a"), sorted(made.plan("a"))) == (State.PLANNED, ["ps-0", "worker-0"])
    made.bind(one)
    assert (made.state("a"), suspensions(made)) == (State.RUNNING, [])
    assert made.pass_time(SLOT / 2) == ()


def test_nothing_is_deleted_and_no_ps_is_ordered_while_it_runs() -> None:
    made, _ = running(5)
    made.pass_time(SLOT - made.now % SLOT)
    wanted = desired(made.snapshot, 500)
    assert (wanted.release, wanted.replicas, wanted.evict) == ((), (), ())


def test_its_order_is_found_again_after_a_restart_of_ours() -> None:
    made, _ = running(5)
    made.pass_time(SLOT - made.now % SLOT)
    made.see(JobBuilder(made.snapshot.jobs["job-a"]).with_(released=True))
    made.do(*(PodGone(pod.uid) for pod in list(made.snapshot.pods_of("job-a"))))
    fresh = World(made.policy, now=made.now).nodes(node("n1", cpu=20))
    fresh.snapshot = type(fresh.snapshot)(**{
        **{name: getattr(fresh.snapshot, name) for name in ("nodes", "synced", "leading", "rules")},
        "memory": made.snapshot.memory,
    })  # fmt: skip
    fresh.see(JobBuilder(made.snapshot.jobs["job-a"]))
    restart(fresh)
    assert fresh.snapshot.jobs["job-a"].servers == 1
    assert sorted(fresh.plan("a")) == ["ps-0", "worker-0"]


def test_ps_for_a_slot_that_its_users_new_bounds_have_ended_are_not_ordered_any_more() -> None:
    made, _ = running(5)
    made.pass_time(SLOT - made.now % SLOT)
    made.see(JobBuilder(made.snapshot.jobs["job-a"]).with_(released=True))
    assert made.gang("a").ps_next == 1
    made.see(JobBuilder(made.snapshot.jobs["job-a"]).with_(min_workers=2))  # the plan has only one worker in this slot
    made.do(*(PodGone(pod.uid) for pod in list(made.snapshot.pods_of("job-a"))))
    assert suspensions(made) == [(False, None)]


def test_a_job_that_does_not_say_so_holds_and_pays_its_ps_in_every_slot() -> None:
    made, one = running(5, varies=False)
    assert (planned(made, "worker"), planned(made, PS)) == ([4, 1], [2, 2])
    made.pass_time(SLOT - made.now % SLOT)
    made.operate(one)
    assert (made.state("a"), sorted(made.plan("a"))) == (State.RUNNING, ["ps-0", "ps-1", "worker-0"])
    assert suspensions(made) == []


def test_an_all_reduce_job_keeps_its_ps() -> None:
    made, _ = running(5, all_reduce=True)
    assert planned(made, PS) == [2, 2]
    effects = made.pass_time(SLOT - made.now % SLOT)
    assert [effect.workers for effect in effects if isinstance(effect, Resize)] == [1]

"""OASiS takes over a cluster from another policy: running jobs go on unchanged, and old schedules are forgotten."""

from __future__ import annotations

from dataclasses import replace

from policy.cluster.actions import Resize
from policy.cluster.events import JobSeen, PodSeen, PolicyChanged
from policy.cluster.training import Training, Utility
from policy.systems.kod2 import Kod2
from policy.systems.oasis import Oasis
from policy.systems.oasis.schedule import MEMORY, Book
from policy.systems.rebalanced import Rebalanced
from policy.systems.specon import SpeCon
from tests.builders import START, JobBuilder, State, World, job, members, node

SLOT = 1000.0
OASIS = Oasis(slot_seconds=SLOT, horizon=10)
WORTH = Utility(100.0, 0.1, 20.0)


def trains(name: str, epochs: int, workers: int = 2) -> JobBuilder:
    """Return an elastic job of one to four workers that asks for ``workers``, and whose work fills ``epochs`` slots at
    these.
    """
    training = Training(epochs=epochs, chunks=workers, seconds=SLOT, utility=WORTH)
    return job(name, training=training, suspends=True).ps(1, cpu=1).workers(1, 4, asked=workers, cpu=2)


def taken_over(*jobs: JobBuilder, later: float = 300.0) -> World:
    """Start the jobs under KOD2, and let OASiS take over ``later`` seconds after the beginning of a slot."""
    world = World(Kod2()).nodes(node("n1", cpu=5))
    world.start(*jobs)
    world.policy, world.now = OASIS, START + later
    world.effects.clear()
    world.do(PolicyChanged())
    return world


def resized(world: World) -> list[Resize]:
    return [effect for effect in world.effects if isinstance(effect, Resize)]


def test_what_runs_goes_on_until_the_work_that_it_states_is_done() -> None:
    world = taken_over(trains("a", epochs=3))
    nodes = world.gang("a").nodes
    for _ in range(3):
        assert (world.gang("a").state, world.gang("a").nodes, resized(world)) == (State.RUNNING, nodes, [])
        world.pass_time(SLOT)


def test_its_room_is_promised_to_nobody_else_meanwhile() -> None:
    world = taken_over(trains("a", epochs=3))
    world.submit(trains("b", epochs=1))
    book = world.snapshot.memory[MEMORY]
    assert isinstance(book, Book)
    first = int(START // SLOT)
    assert [shift.slot - first for shift in book.plans["job-a"].shifts] == [0, 1, 2]
    assert [shift.slot - first for shift in book.plans["job-b"].shifts] == [3]


def test_what_others_were_promised_is_not_taken_by_a_job_that_somebody_else_has_started() -> None:
    world = taken_over(trains("a", epochs=9))
    world.see(node("n1", cpu=10))
    world.submit(trains("b", epochs=1))
    stranger = trains("c", epochs=2).done()
    world.do(JobSeen(stranger), *(PodSeen(replace(pod, node="n1")) for pod in members(stranger)))
    book = world.snapshot.memory[MEMORY]
    assert isinstance(book, Book)
    first = int(START // SLOT)
    busy = {name: [shift.slot - first for shift in book.plans[f"job-{name}"].shifts] for name in ("b", "c")}
    assert (world.gang("c").state, resized(world)) == (State.RUNNING, [])
    assert (busy["b"], busy["c"][0]) == ([1], 0)
    assert 1 not in busy["c"]


def test_a_policy_that_comes_back_has_forgotten_its_old_schedule() -> None:
    world = taken_over(trains("a", epochs=3))
    old = world.snapshot.memory[MEMORY]
    world.policy = Kod2()
    world.do(PolicyChanged())
    assert MEMORY not in world.snapshot.memory
    world.now += 5 * SLOT
    world.policy = OASIS
    world.do(PolicyChanged())
    assert world.snapshot.memory[MEMORY] != old
    assert world.gang("a").state is State.RUNNING
    assert resized(world) == []


def test_a_policy_that_stays_beneath_or_without_another_forgets_nothing() -> None:
    world = World(OASIS).nodes(node("n1", cpu=5))
    world.submit(trains("a", epochs=3))
    world.submit(job("worthless", training=Training(utility=Utility(1e-9, 9.0, -99.0))).workers(1, cpu=1))
    old, texts = world.snapshot.memory[MEMORY], world.snapshot.texts
    world.policy = Rebalanced(OASIS, SpeCon())
    world.do(PolicyChanged(("oasis",)))
    assert (world.snapshot.memory[MEMORY], world.snapshot.texts) == (old, texts)
    assert world.reason("worthless") == "JobRejected"


def test_who_was_paused_or_refused_is_judged_anew() -> None:
    world = World(OASIS).nodes(node("n1", cpu=5))
    world.submit(job("worthless", training=Training(utility=Utility(1e-9, 9.0, -99.0))).workers(1, cpu=1))
    assert world.reason("worthless") == "JobRejected"
    world.policy = Kod2()
    world.do(PolicyChanged())
    assert world.gang("worthless").state is State.PLANNED

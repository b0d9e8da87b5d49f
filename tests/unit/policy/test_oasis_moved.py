"""OASiS with a rebalancer: a job is moved only to room that no later slot of another job's plan needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policy.cluster.actions import Effect, Migrate
from policy.cluster.events import PodGone, Reported
from policy.cluster.training import Report, Training, Utility
from policy.systems import make_policy
from policy.systems.base import Promised
from policy.systems.oasis.ahead import PlansAhead
from policy.systems.oasis.prices import usable
from policy.systems.oasis.workload import POOL
from tests.builders import JobBuilder, State, World, job, node
from tests.unit.policy.test_oasis import SLOT, book, members_of, plan, run

PAIRS = ("oasis+specon", "oasis+guests")


def trains(name: str, slots: int, cpu: float) -> JobBuilder:
    training = Training(epochs=slots, chunks=1, seconds=SLOT, utility=Utility(1000.0, 0.1, 20.0))
    return job(name, training=training, suspends=True, migratable=True).workers(1, 1, asked=1, cpu=cpu)


def two_on_n1(policy: str) -> World:
    own = {"specon.balance_any": True, "specon.gate": "open"} if policy.endswith("specon") else {}
    world = World(make_policy(policy, slot_seconds=SLOT, horizon=10, **own)).nodes(node("n1", cpu=11))
    world.now -= world.now % SLOT
    for name in "ab":
        run(world, trains(name, 6, 2).arrived(world.now))
    return world


def rounds(world: World) -> list[Effect]:
    found: list[Effect] = []
    for turn in range(4):
        world.now += 31.0
        found += world.do(*(Reported(f"job-{name}", Report(world.now, 9.0 - turn)) for name in "ab"))
    return found


def arrives(world: World, name: str) -> None:
    """Remove the job's old pods, and bind their successors on the new node."""
    one = trains(name, 6, 2)
    world.do(*(PodGone(pod.uid) for pod in list(world.snapshot.pods_of(f"job-{name}")) if pod.holds_room))
    world.see(*(world.fresh(pod) for pod in members_of(world, one)))
    world.bind(world.snapshot.jobs[f"job-{name}"])


def where(world: World, name: str) -> set[str]:
    return set(world.gang(name).nodes.values())


@pytest.mark.parametrize("policy", PAIRS)
def test_nobody_moves_to_where_a_plan_has_somebody_later(policy: str) -> None:
    """Node n2 is idle only until the next slot, in which the plan of job d has all of it."""
    world = two_on_n1(policy)
    world.pass_time(300)
    world.do()
    world.snapshot = replace(world.snapshot, memory={**world.snapshot.memory, "guests/clock": world.now})
    world.see(node("n2", cpu=9))
    world.submit(trains("d", 4, 8).arrived(world.now))
    assert {part[1] for shift in plan(world, "d").shifts for part in shift.layout} == {"n2"}
    assert not [effect for effect in rounds(world) if isinstance(effect, Migrate)]
    world.pass_time(SLOT - world.now % SLOT)
    assert world.snapshot.gang("job-d").admitted
    assert [where(world, name) for name in "ab"] == [{"n1"}] * 2


@pytest.mark.parametrize("policy", PAIRS)
def test_who_is_moved_takes_its_plan_along_and_stays(policy: str) -> None:
    world = two_on_n1(policy)
    world.see(node("n2", cpu=9))
    moved = [one for one in (*world.effects, *rounds(world)) if isinstance(one, Migrate)]
    assert moved
    (name,) = {one.job_uid.removeprefix("job-") for one in moved}
    first = int(world.now // SLOT)
    assert {part[1] for shift in plan(world, name).shifts if shift.slot >= first for part in shift.layout} == {"n2"}
    arrives(world, name)
    assert (world.state(name), where(world, name)) == (State.RUNNING, {"n2"})
    run(world, trains("d", 4, 8).arrived(world.now))  # job d gets other room than that on n2
    for _ in range(3):
        world.pass_time(SLOT - world.now % SLOT)
        assert (world.state(name), where(world, name)) == (State.RUNNING, {"n2"})


def ahead(world: World) -> PlansAhead:
    return PlansAhead(world.snapshot, book(world), int(world.now // SLOT), usable(world.snapshot))


def test_room_is_promised_slot_by_slot_and_by_pool() -> None:
    world = two_on_n1("oasis")
    world.see(node("n2", cpu=3), node("n3", cpu=1), node("n4", cpu=9, labels={POOL: "ps"}))
    found = ahead(world)
    assert [found.leaves("job-a", name) for name in ("n2", "n3", "n4", "nowhere")] == [True, False, False, False]
    found.moved("job-a", "n2")
    assert not found.leaves("job-b", "n2")
    assert found.leaves("somebody without a plan", "n3")


def test_without_a_move_nothing_is_remembered() -> None:
    found = ahead(two_on_n1("oasis"))
    assert found.actions() == ()
    found.moved("job-a", "n1")
    found.moved("somebody without a plan", "n1")
    assert found.actions() == ()


def test_who_promises_nothing_leaves_everything() -> None:
    promised = Promised()
    promised.moved("job-a", "n1")
    assert promised.leaves("job-a", "n1")
    assert promised.actions() == ()

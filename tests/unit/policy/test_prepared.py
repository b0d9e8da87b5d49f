"""What a policy prepares between two steps leaves less work for the next decision and does not change it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from policy.cluster.events import Event, JobSeen, PodSeen
from policy.cluster.gang import Gang
from policy.cluster.index import Index
from policy.cluster.job import Job
from policy.cluster.snapshot import Snapshot
from policy.placement.grow import FreedRoom, freed_rooms
from policy.step import step
from policy.systems import make_policy
from tests.builders import World, job, members, node

FULL = range(4)
SYSTEMS = ("kod2", "drs", "dragon", "kod2+specon")
NOW = 2000.0  # so many seconds after the start the first job has become urgent


def full(system: str) -> World:
    """Fill each of four nodes with one gang that has two workers above its minimum."""
    world = World(make_policy(system)).nodes(*(node(f"n{number}") for number in FULL))
    for number in FULL:
        world.start(job(f"run-{number}").ps(1).workers(2, 4, asked=4).with_(utility=1 + number))
    world.pass_time(NOW)
    return world


def heavy() -> list[Event]:
    made = job("heavy").ps(1).workers(3).with_(utility=1e6).done()
    return [JobSeen(made), *(PodSeen(pod) for pod in members(made))]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_decision_that_was_prepared_for_is_the_same(system: str) -> None:
    world = full(system)
    policy = make_policy(system)
    apart: Snapshot = replace(world.snapshot, index=Index.of(world.snapshot))
    policy.prepare(world.snapshot, world.now)
    prepared, effects = step(world.snapshot, heavy(), policy, world.now)
    found_out, same_effects = step(apart, heavy(), policy, world.now)
    assert (prepared, effects) == (found_out, same_effects)
    assert prepared.gang("job-heavy").admitted, "or nobody was asked what it could give"


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_running_jobs_could_give_is_not_worked_out_again(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = full(system)
    policy = make_policy(system)
    asked: list[str] = []

    def counted(snapshot: Snapshot, one: Job, gang: Gang) -> Iterator[FreedRoom]:
        asked.append(one.uid)
        return freed_rooms(snapshot, one, gang)

    monkeypatch.setattr("policy.placement.shrink.freed_rooms", counted)
    policy.prepare(world.snapshot, world.now)
    assert sorted(asked) == [f"job-run-{number}" for number in FULL]
    asked.clear()
    step(world.snapshot, heavy(), policy, world.now)
    assert asked == []


def test_a_system_without_anything_to_prepare_is_left_alone() -> None:
    make_policy("fifo").prepare(World().snapshot, 0.0)

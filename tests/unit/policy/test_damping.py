"""Damping: a person's edits are respected and reported, and under constant load no job keeps growing and shrinking."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from policy.cluster.actions import Edited
from policy.systems import make_policy
from policy.systems.resizing import TURN_SECONDS, TURNS
from tests.builders import JobBuilder, State, World, job, node

ELASTIC = job("a", min_stated=True, max_stated=True).workers(1, 6, asked=4, cpu=1)


def running() -> World:
    """Start an elastic job of one to six workers with four, on a node with room for four."""
    world = World().nodes(node("n1", cpu=4)).start(ELASTIC)
    world.effects.clear()
    assert world.gang("a").workers == 4
    return world


def edits(world: World) -> list[Edited]:
    return [effect for effect in world.effects if isinstance(effect, Edited)]


def test_a_lower_count_that_a_person_sets_is_taken_over_and_told() -> None:
    world = running()
    world.see(ELASTIC.replicas(2))
    assert world.gang("a").workers == 2
    assert edits(world) == [Edited("job-a", "workers", 4, 2, kept=True)]
    world.operate(ELASTIC)
    world.pass_time(30.0)  # half of the cool-down of 60 s
    assert world.gang("a").workers == 2


def test_a_higher_count_that_a_person_sets_is_set_back_and_told() -> None:
    world = running()
    world.see(ELASTIC.replicas(6))
    assert world.gang("a").workers == 4
    assert edits(world) == [Edited("job-a", "workers", 4, 6, kept=False)]


def test_our_own_counts_are_nobodys_edits() -> None:
    """Kohort shrinks the job one worker at a time, as its operator needs it, and grows it again; none of this is an
    edit.
    """
    world = running()
    heavy = job("b", utility=100.0).workers(2, cpu=1)
    world.submit(heavy)
    assert world.gang("a").workers == 2
    for count in (3, 2):
        world.see(ELASTIC.replicas(count))
    world.operate(ELASTIC)
    world.bind(heavy)
    world.end(heavy)
    world.pass_time(61.0)
    assert world.gang("a").workers == 4
    world.operate(ELASTIC)
    assert edits(world) == []


@pytest.mark.parametrize(
    ("changed", "edit"),
    [
        (ELASTIC.with_(min_workers=3), Edited("job-a", "min-workers", 1, 3, kept=True)),
        (ELASTIC.with_(max_workers=4), Edited("job-a", "max-workers", 6, 4, kept=True)),
    ],
    ids=["min", "max"],
)
def test_a_bound_that_a_person_sets_is_in_force_and_told(changed: JobBuilder, edit: Edited) -> None:
    world = running()
    world.see(changed)
    assert edits(world) == [edit]
    heavy = job("b", utility=100.0).workers(2, cpu=1)
    world.submit(heavy)
    # a minimum of three of the four workers leaves no room for the two of b
    assert world.gang("a").workers == (2 if edit.what == "max-workers" else 4)


def test_a_bound_that_follows_from_the_replicas_is_nobodys_edit() -> None:
    world = World().nodes(node("n1", cpu=4))
    loose = job("a", min_stated=True, max_stated=False).workers(1, 4, asked=4, cpu=1)
    world.start(loose)
    world.effects.clear()
    world.see(loose.with_(max_workers=3))
    assert edits(world) == []


def test_workers_that_a_person_gives_a_rigid_job_are_kept() -> None:
    """A rigid job's bounds are the number of workers that it asks for, so the target follows in the same step."""
    rigid = job("a", min_stated=False, max_stated=False, elastic=False)
    world = World().nodes(node("n1", cpu=8)).start(rigid.workers(2, 2, cpu=1))
    world.effects.clear()
    world.see(rigid.workers(4, 4, cpu=1))
    assert world.gang("a").workers == 4
    assert edits(world) == [Edited("job-a", "workers", 2, 4, kept=True)]


@pytest.mark.parametrize(("cpu", "target"), [(8, 6), (4, 4)], ids=["there is room", "there is none"])
def test_more_workers_of_a_job_without_a_stated_maximum_raise_that(cpu: int, target: int) -> None:
    """The user's higher count is taken as the new maximum; the policy decides whether the workers are given."""
    loose = job("a", min_stated=True, max_stated=False)
    world = World().nodes(node("n1", cpu=cpu)).start(loose.workers(2, 4, asked=4, cpu=1))
    world.effects.clear()
    world.see(loose.workers(2, 6, asked=6, cpu=1))
    assert world.gang("a").workers == target
    assert edits(world) == [Edited("job-a", "max-workers", 4, 6, kept=True)]


def test_a_job_that_its_user_stops_and_starts_by_its_replicas_has_no_other_bounds() -> None:
    """A StatefulSet at no replicas counts as suspended, and its bounds are not read."""
    stated = job("a", kind="StatefulSet", min_stated=True, max_stated=True).workers(2, 4, asked=4, cpu=1)
    world = World().nodes(node("n1", cpu=8)).start(stated)
    world.effects.clear()
    world.see(stated.workers(0, 0, asked=0, cpu=1).with_(suspended=True))
    assert edits(world) == [Edited("job-a", "workers", 4, 0, kept=True)]
    world.effects.clear()
    world.see(stated)
    assert edits(world) == []


def test_bounds_of_a_suspended_job_whose_kind_is_suspended_by_a_field_are_told() -> None:
    paused = ELASTIC.with_(suspended=True, suspends=True)
    world = running()
    world.see(paused)
    world.see(paused.with_(max_workers=4))
    assert edits(world) == [Edited("job-a", "max-workers", 6, 4, kept=True)]


# -- The test below is about jobs under a constant load. ---------------------------------------------


def turned(effects: list[tuple[float, int]]) -> list[float]:
    """Return the times at which a job's resizing changed direction, from its (time, workers) in order of time."""
    signs = [(at, after > before) for (_, before), (at, after) in pairwise(effects) if after != before]
    return [at for (_, was), (at, now) in pairwise(signs) if was is not now]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("policy", ["kod2", "drs", "dragon"])
def test_under_constant_load_nobody_changes_direction_more_than_twice_in_ten_minutes(policy: str, seed: int) -> None:
    """Five elastic jobs ask for more than two nodes hold, all from the start; their counts are followed for half an
    hour.
    """
    chance = random.Random(seed)
    world = World(make_policy(policy)).nodes(*(node(f"n{n}", cpu=8) for n in range(2)))
    jobs = [
        job(f"{n}", utility=chance.choice((1.0, 3.0, 9.0)))
        .ps(1, cpu=1)
        .workers(least := chance.randint(1, 2), least + chance.randint(0, 5), cpu=chance.choice((1, 2)))
        for n in range(5)
    ]
    counts: dict[str, list[tuple[float, int]]] = {one.done().uid: [] for one in jobs}
    world.submit(*jobs)
    for _ in range(90):
        for one in jobs:
            gang, now = world.snapshot.gang(one.done().uid), world.snapshot.jobs[one.done().uid]
            if gang.state is State.PLANNED or (gang.admitted and now.worker and now.worker.replicas != gang.workers):
                world.bind(one)
                world.operate(one)
        world.pass_time(20.0)
        for uid, seen in counts.items():
            if (gang := world.snapshot.gang(uid)).admitted:
                seen.append((world.now, gang.workers))
    assert sum(map(len, counts.values())) > 100
    for uid, seen in counts.items():
        times = turned(seen)
        assert all(later - at > TURN_SECONDS for at, later in zip(times, times[TURNS:], strict=False)), (uid, seen)

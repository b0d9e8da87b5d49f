"""Which node is cleared for a gang: nodes that cannot be better are skipped, without changing the result."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from policy.cluster.capacity import Capacity
from policy.cluster.constraints import ANYWHERE
from policy.cluster.pod import Phase
from policy.cluster.resources import NOTHING
from policy.placement import shrink
from policy.placement.ask import Ask
from policy.placement.gang import fits
from policy.placement.grow import FreedRoom
from policy.placement.room import Room
from policy.placement.shrink import NOBODY, Reclaimable, one_by_one, reclaimable_of
from tests.builders import PodGone, World, job, node, res, w


@pytest.mark.parametrize("seed", range(300))
def test_the_node_that_is_cleared_is_the_best_of_all_of_them(seed: int) -> None:
    draw = random.Random(seed)
    names = [f"n{index}" for index in range(5)]
    room = Room.of(World().nodes(*(node(name, cpu=8) for name in names)).snapshot)
    for name in names:
        room.take(name, res(draw.randint(5, 8)))
    sizes = [res(1)] if draw.random() < 0.5 else [res(1), res(2), res(3)]

    def victim(uid: str) -> Reclaimable:
        return Reclaimable.of(
            uid, tuple(FreedRoom(draw.choice(names), draw.choice(sizes)) for _ in range(draw.randint(1, 3)))
        )

    nobody = [victim(NOBODY) for _ in range(draw.choice((0, 0, 1, 2)))]
    victims = [*nobody, *(victim(f"job-{index}") for index in range(draw.randint(1, 6)))]
    ask = Ask((), res(1), ANYWHERE, draw.randint(2, 6))
    assert shrink._on_one_node(room, ask, victims, one_by_one) == best_of_all(room, ask, victims)


def best_of_all(room: Room, ask: Ask, victims: list[Reclaimable]) -> list[Reclaimable] | None:
    rank = {victim.job_uid: place for place, victim in enumerate(victims)}
    plans = []
    for host in sorted(room):
        here = [victim for victim in victims if any(freed_room.node == host for freed_room in victim.rooms)]
        plan = shrink._clear(room, ask, here, one_by_one, host) if here else None
        if plan is not None:
            plans.append(plan)
    return min(plans, key=lambda plan: (shrink._removals(plan), [rank[one.job_uid] for one in plan]), default=None)


@pytest.mark.parametrize("seed", range(60))
def test_over_several_nodes_no_shorter_run_of_removals_would_do(seed: int) -> None:
    """The search doubles the number of removals that it tries; its result is that of trying every number."""
    draw = random.Random(seed)
    names = [f"n{index:02d}" for index in range(draw.choice((4, 60)))]
    room = Room.of(World().nodes(*(node(name, cpu=8) for name in names)).snapshot)
    for name in names:
        room.take(name, res(draw.randint(6, 8)))
    pairs = [tuple(FreedRoom(draw.choice(names), res(1)) for _ in range(2)) for _ in names]
    victims = [Reclaimable.of(f"job-{number}", pair) for number, pair in enumerate(pairs)]
    ask = Ask((), res(2), ANYWHERE, draw.randint(2, len(names)))
    turns = one_by_one(victims)

    def suffices(length: int) -> bool:
        return fits(shrink._given(room, shrink._cut(victims, Counter(turns[:length]))), ask)

    shortest = next((length for length in range(len(turns) + 1) if suffices(length)), None)
    plan = shrink._on_several(room, ask, victims, one_by_one)
    if not shortest:
        assert plan == (None if shortest is None else [])
        return
    last = turns[shortest - 1]
    assert plan is not None
    assert fits(shrink._given(room, plan), ask)
    assert plan[-1] == victims[last].first(turns[:shortest].count(last))
    for place, given in enumerate(plan):
        without = [*plan[:place], given.first(len(given.rooms) - 1), *plan[place + 1 :]]
        assert not fits(shrink._given(room, without), ask), f"{given.job_uid} gives a worker for nothing"


def test_a_room_that_is_gathered_by_kind_is_the_one_that_is_made_anew() -> None:
    draw = random.Random(1)
    names = [f"n{index:03d}" for index in range(300)]
    old = Room.of(World().nodes(*(node(name, cpu=8) for name in names)).snapshot)._capacity
    changed = {name: old.free[name] - res(draw.randint(0, 3)) for name in draw.sample(names, 120)}
    new = old.with_free(changed)
    made = Capacity.made(old.nodes, {**old.free, **changed})
    assert dict(new.free) == dict(made.free)
    assert dict(new.kinds) == dict(made.kinds)
    # the capacity from which the new one was made has not changed
    assert all(room == old.nodes[name].allocatable for name, room in old.free.items())


def test_a_worker_that_is_done_gives_no_room_back() -> None:
    """The worker's pod has succeeded, or is gone and will not be replaced because its index is complete."""
    world = World().nodes(node("n1", cpu=12)).start(job("a").workers(1, 4, asked=4, cpu=3))
    before = world.snapshot.free("n1")
    world.see(replace(world.pod("a-worker-3"), phase=Phase.SUCCEEDED))
    world.see(replace(world.pod("a-worker-2"), phase=Phase.SUCCEEDED))
    done = world.snapshot.jobs["job-a"]
    world.see(replace(done, over=(w(2),), version=done.version + 1))
    world.do(PodGone(world.pod("a-worker-2").uid))
    each = world.pod("a-worker-1").requests
    assert world.snapshot.free("n1") == before + each + each
    offered = reclaimable_of(world.snapshot, "job-a").rooms
    assert [freed_room.requests for freed_room in offered] == [NOTHING, NOTHING, each]

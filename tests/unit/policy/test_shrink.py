"""Which node is cleared for a gang: nodes that cannot be better are passed over, and nothing else changes."""

from __future__ import annotations

import random

import pytest

from policy.cluster.model import ANYWHERE
from policy.placement import shrink
from policy.placement.gang import Ask
from policy.placement.grow import Shed
from policy.placement.room import Room
from policy.placement.shrink import NOBODY, Offer, one_by_one
from tests.builders import World, node, res


@pytest.mark.parametrize("seed", range(300))
def test_the_node_that_is_cleared_is_the_best_of_all_of_them(seed: int) -> None:
    draw = random.Random(seed)
    names = [f"n{index}" for index in range(5)]
    room = Room.of(World().nodes(*(node(name, cpu=8) for name in names)).snapshot)
    for name in names:
        room.take(name, res(draw.randint(5, 8)))
    sizes = [res(1)] if draw.random() < 0.5 else [res(1), res(2), res(3)]

    def offer(uid: str) -> Offer:
        return Offer(uid, tuple(Shed(draw.choice(names), draw.choice(sizes)) for _ in range(draw.randint(1, 3))))

    nobody = [offer(NOBODY) for _ in range(draw.choice((0, 0, 1, 2)))]
    offers = [*nobody, *(offer(f"job-{index}") for index in range(draw.randint(1, 6)))]
    ask = Ask((), res(1), ANYWHERE, draw.randint(2, 6))
    assert shrink._on_one_node(room, ask, offers, one_by_one) == best_of_all(room, ask, offers)


def best_of_all(room: Room, ask: Ask, offers: list[Offer]) -> list[Offer] | None:
    rank = {offer.job_uid: place for place, offer in enumerate(offers)}
    plans = []
    for host in sorted(room):
        here = [offer for offer in offers if any(shed.node == host for shed in offer.sheds)]
        plan = shrink._clear(room, ask, here, one_by_one, host) if here else None
        if plan is not None:
            plans.append(plan)
    return min(plans, key=lambda plan: (shrink._removals(plan), [rank[one.job_uid] for one in plan]), default=None)

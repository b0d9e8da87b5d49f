"""Computes the prices at which OASiS would plan a job that comes now; they are shown to people and in the metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from policy.cluster.node import Node
from policy.cluster.resources import Resources
from policy.systems.oasis.arithmetic import Array
from policy.systems.oasis.prices import Ground, Prices, Pricing
from policy.systems.oasis.schedule import Book, Plan, Seen


@dataclass(frozen=True, slots=True)
class Market:
    """The prices of some time slots.

    ``used`` is the amount that the plans take, and ``units`` the price of one unit; both are arrays [time slot, node,
    resource]. ``ground``: the nodes and resources.
    """

    ground: Ground
    used: Array
    units: Array


def market(
    pricing: Pricing,
    nodes: Sequence[tuple[Node, Resources]],
    book: Book,
    known: Sequence[Seen],
    window: tuple[int, int],
    slots: int,
) -> Market | None:
    """Return the prices (equation 22) in the time slots of ``window``; None if there is no node, or no job was ever
    seen.

    known: jobs known in advance, from which the bounds of the prices are computed as well. window: the first time slot,
    and the number of time slots. slots: the number T of time slots from which the bounds are computed.
    """
    plans, seen = tuple(book.plans.values()), (*known, *book.seen.values())
    names = {name for one in seen for request in (one.worker, one.server) for name in request}
    if not nodes or not names:
        return None
    ground = Ground.of(nodes, names | {name for plan in plans for name in _asked(plan)})
    worker, server = (pricing.bounds(ground, seen, role, slots) for role in ground.hosts)
    used = ground.usage(plans, *window)
    return Market(ground, used, Prices(ground, worker, server).units(used))


def prices_now(
    pricing: Pricing, nodes: Sequence[tuple[Node, Resources]], book: Book, known: Sequence[Seen], slot: int, slots: int
) -> Mapping[str, float]:
    """Return the price of one unit of each resource in that time slot, as the mean over the nodes (equation 22).

    It is empty if no job was ever seen. A unit is that of ``Resources``: a millicore, a byte, a piece. slots: the
    number T of time slots from which the bounds of the prices are computed.
    """
    found = market(pricing, nodes, book, known, (slot, 1), slots)
    if found is None:
        return {}
    means = np.mean(found.units[0], axis=0)
    return {
        name: float(mean)
        for name, mean, priced in zip(found.ground.names, means, found.ground.priced, strict=True)
        if priced and math.isfinite(mean)
    }


def _asked(plan: Plan) -> set[str]:
    return {name for request in (plan.work.requests, *(part.requests for part in plan.work.parts)) for name in request}

"""What the resources cost now, for people and metrics: the prices by which OASiS would judge a job of this slot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from policy.cluster.model import Node
from policy.cluster.resources import Resources
from policy.systems.oasis.prices import Ground, Prices, Pricing
from policy.systems.oasis.schedule import Book, Plan, Seen


def prices_now(
    pricing: Pricing, nodes: Sequence[tuple[Node, Resources]], book: Book, known: Sequence[Seen], slot: int, slots: int
) -> Mapping[str, float]:
    """Resource -> the mean over the nodes of one unit's price in that slot (equation 22); empty before any job.

    A unit is that of ``Resources``: a millicore, a byte, a piece. ``slots``: T, for the bounds.
    """
    plans, seen = tuple(book.plans.values()), (*known, *book.seen.values())
    names = {name for one in seen for request in (one.worker, one.server) for name in request}
    if not nodes or not names:
        return {}
    ground = Ground.of(nodes, names | {name for plan in plans for name in _asked(plan)})
    worker, server = (pricing.bounds(ground, seen, role, slots) for role in ground.hosts)
    units = Prices(ground, worker, server).units(ground.usage(plans, slot, 1)[0])
    means = np.mean(units, axis=0)
    return {
        name: float(mean)
        for name, mean, priced in zip(ground.names, means, ground.priced, strict=True)
        if priced and math.isfinite(mean)
    }


def _asked(plan: Plan) -> set[str]:
    return {name for request in (plan.work.requests, *(part.requests for part in plan.work.parts)) for name in request}

"""Check that OASiS's prices never fall as more of a resource is taken (OASiS, equation 22)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from policy.cluster.job import PS, WORKER
from policy.cluster.snapshot import Snapshot
from policy.systems.oasis import Oasis
from policy.systems.oasis.market import Market, market
from policy.systems.oasis.prices import usable
from policy.systems.oasis.schedule import MEMORY, Book

ROUNDING = 1e-9  # Prices may differ by this share of a price because of rounding.


def falling_prices(policy: Oasis, snapshot: Snapshot, now: float) -> Iterator[str]:
    """Yield a sentence for each resource that is cheaper on a node where more of it is taken, from the current time
    slot on.
    """
    book = snapshot.memory.get(MEMORY)
    if not isinstance(book, Book):
        return
    slots = (math.floor(now / policy.slot_seconds), policy.horizon)
    found = market(policy.pricing, usable(snapshot), book, policy.known, slots, policy.horizon)
    if found is not None:
        yield from falls(found)


def falls(found: Market) -> Iterator[str]:
    """Yield a sentence for each resource that is cheaper on a node where more of it is taken.

    ``found`` has the prices of all nodes in some time slots. Nodes are compared only within their pool, the nodes that
    take one role.
    """
    ground = found.ground
    share = np.divide(found.used, ground.capacity, out=np.ones_like(found.used), where=ground.capacity > 0)
    pools = ground.hosts[WORKER] + 2 * ground.hosts[PS].astype(int)
    for pool in np.unique(pools):
        of = pools == pool
        for at, name in enumerate(ground.names):
            taken, price = share[:, of, at].ravel(), found.units[:, of, at].ravel()
            order = np.lexsort((price, taken))
            steps = np.diff(price[order])
            if (steps < -ROUNDING * price[order][:-1]).any():
                yield f"{name}: its price falls as more is taken"

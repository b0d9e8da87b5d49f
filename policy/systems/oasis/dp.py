"""Algorithm 2, exactly: what y workers cost in each slot, and the cheapest way to spread the work over the slots.

The recursion over chunks and deadlines is one table of prefixes in worker-slots: cost(t, n) is the least cost of at
least n worker-slots in the slots up to t, so the best completion slot falls out of a single pass over the slots.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from policy.systems.oasis.prices import Array

Counts = NDArray[np.int64]
MANY = 1e6  # members that a node takes who ask for nothing; finite, for they are added up
LARGEST_TABLE = 6000  # worker-slots; more are planned in blocks of several


@dataclass(frozen=True, slots=True)
class Role:
    """One role of a job in one slot. request: [resource]; open: [node]; counts: replicas beside y workers (-1: no)."""

    name: str
    request: Array
    open: NDArray[np.bool_]
    counts: Counts


@dataclass(frozen=True, slots=True)
class Offer:
    """What one slot offers: ``cost[y]`` (infinite: cannot be), and for each role ``takes[y, node]``."""

    cost: Array
    takes: tuple[Counts, ...]


def offer(free: Array, price: Array, roles: tuple[Role, ...]) -> Offer:
    """COST_t: each role greedily on the cheapest nodes; prices are those before the job.

    free, price: [node, resource]. Where two roles may share a node the first one's members are placed first, which is
    a heuristic; with pools apart it is optimal (Theorem 1).
    """
    size = len(roles[0].counts)
    cost = np.zeros(size)
    takes = []
    left = free[None]
    for number, role in enumerate(roles):
        unit = price @ role.request
        order = np.argsort(unit, kind="stable")
        caps = np.where(role.open, _caps(left, role.request), 0.0)[:, order]
        before = np.cumsum(caps, axis=1) - caps
        counts = role.counts[:, None].astype(float)
        put = np.clip(counts - before, 0.0, caps)
        lacking = (put.sum(axis=1) < role.counts) | (role.counts < 0)
        cost = cost + np.where(lacking, np.inf, put @ unit[order])
        take = np.empty((size, len(order)))
        take[:, order] = put
        takes.append(take.astype(np.int64))
        later = roles[number + 1 :]
        if any((role.open & other.open).any() for other in later):
            left = left - take[:, :, None] * role.request
    return Offer(cost, tuple(takes))


def _caps(left: Array, request: Array) -> Array:
    """How many such members each node takes: [1 or y, node]."""
    asked = request > 0
    if not asked.any():
        return np.full(left.shape[:2], MANY)
    counts: Array = np.floor(left[:, :, asked] / request[asked]).min(axis=2)
    return np.maximum(counts, 0.0)


@dataclass(frozen=True, slots=True)
class Best:
    """The best schedule: workers by slot (relative to the first), its payoff, worth and cost."""

    workers: dict[int, int]
    payoff: float
    worth: float
    cost: float


def best_schedule(costs: Array, work: int, worth: Callable[[int], float], begin: int | None = None) -> Best | None:
    """Find the completion slot with the most worth - cost (27, 28); None where the work does not fit into the slots.

    costs: [slot, y], costs[:, 0] == 0. Ties: the earlier completion, then fewer workers in later slots. A job of more
    than 6,000 worker-slots is planned in blocks: then its cost is an upper bound.
    begin: it holds on without a gap once it runs, which is from this slot on at the latest; None: it may pause.
    """
    block = -(-work // LARGEST_TABLE)
    costs = costs[:, ::block] if block > 1 else costs
    need = -(-work // block)
    slots, most = costs.shape[0], costs.shape[1] - 1
    if need > slots * most:
        return None
    table = np.full(need + 1, np.inf)
    table[0] = 0.0
    choices: list[Counts] = []
    best: tuple[float, int, float] | None = None
    for slot in range(slots):
        if best is not None and worth(slot) <= best[0]:
            break  # no later completion is worth as much, whatever it costs
        before, cost = (table, costs[slot]) if begin is None else _holding(table, costs[slot], fresh=slot <= begin)
        if begin is None and np.isinf(costs[slot, 1:]).all():
            choices.append(np.zeros(need + 1, dtype=np.int64))
        else:
            padded = np.concatenate([np.full(most, before[0]), before])
            found = sliding_window_view(padded, most + 1)[:, ::-1] + cost
            choice = found.argmin(axis=1)
            table = np.take_along_axis(found, choice[:, None], axis=1)[:, 0]
            choices.append(choice)
        payoff = worth(slot) - table[need]
        if math.isfinite(payoff) and (best is None or payoff > best[0]):
            best = (float(payoff), slot, float(table[need]))
    if best is None:
        return None
    payoff, last, cost = best
    return Best(_trace(choices, last, need, block, begin or 0), payoff, worth(last), cost)


def _holding(table: Array, cost: Array, *, fresh: bool) -> tuple[Array, Array]:
    """The same for a job that holds on: none of the slots between its first and its last is without workers."""
    before, some = table.copy(), cost.copy()
    before[0], some[0] = 0.0 if fresh else before[0], np.inf
    return before, some


def most_work(costs: Array, work: int, *, gaps: bool = True) -> int:
    """How much of the work fits into the slots at all, in worker-slots."""
    largest = [int(np.flatnonzero(np.isfinite(row)).max()) for row in costs]
    if not gaps:
        runs = [sum(run) for some, run in groupby(largest, bool) if some]
        return min(work, max(runs, default=0))
    return min(work, sum(largest))


def _trace(choices: list[Counts], last: int, need: int, block: int, begin: int) -> dict[int, int]:
    workers: dict[int, int] = {}
    for slot in range(last, -1, -1):
        if not need and slot < begin:
            break  # a job that holds on has begun in the slot after this one
        count = int(choices[slot][need])
        if count:
            workers[slot] = count * block
            need = max(0, need - count)
    return dict(sorted(workers.items()))

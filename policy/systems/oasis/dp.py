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
class SlotOffer:
    """What one slot offers: ``cost[y]`` (infinite: cannot be), and for each role ``takes[y, node]``."""

    cost: Array
    takes: tuple[Counts, ...]


def offer(free: Array, price: Array, roles: tuple[Role, ...]) -> SlotOffer:
    """Return COST_t: each role placed greedily on the cheapest nodes; prices are those before the job.

    free, price: [node, resource]. Where two roles may share a node the first one's members are placed first, which is a
    heuristic; with pools apart it is optimal (Theorem 1).
    """
    size = len(roles[0].counts)
    cost = np.zeros(size)
    takes = []
    left = free[None]
    for number, role in enumerate(roles):
        unit = price @ role.request
        order = np.argsort(unit, kind="stable")
        caps = np.where(role.open, room_for(left, role.request), 0.0)[:, order]
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
    return SlotOffer(cost, tuple(takes))


def room_for(left: Array, request: Array) -> Array:
    """Return how many such members each node takes: [1 or y, node]."""
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
    if block > 1:
        units, stands = in_blocks(costs, block)
        found = _search(units, -(-work // block), worth, begin)
        if found is not None:
            workers = {slot: int(stands[slot, count]) for slot, count in found.workers.items()}
            return Best(workers, found.payoff, found.worth, found.cost)
    # What blocks do not hold fills nearly every slot, if it fits at all: few sums are left, however large it is.
    return _search(costs, work, worth, begin)


def in_blocks(costs: Array, block: int) -> tuple[Array, Counts]:
    """Return what so many blocks of workers cost in each slot, and how many workers stand for them.

    They are never fewer than the blocks say. Among numbers that fill the blocks, and less than one more, the cheapest
    is taken: a gang of 101 is 50 blocks of 2.
    """
    slots, size = costs.shape
    padded = np.pad(costs, ((0, 0), (0, -size % block)), constant_values=np.inf).reshape(slots, -1, block)
    stands: Counts = padded.argmin(axis=2) + block * np.arange(padded.shape[1])
    return padded.min(axis=2), stands


def _search(costs: Array, need: int, worth: Callable[[int], float], begin: int | None) -> Best | None:
    """Search over the slots, exactly. Of each slot's table only what can lead to the need is kept.

    That is from ``lows``, which the slots to come can still fill up, to ``highs``, all that fits so far.
    """
    most, tops = costs.shape[1] - 1, _tops(costs)
    total = int(tops.sum())
    if need > total:
        return None
    highs = np.minimum(np.cumsum(tops), need)
    lows = np.maximum(np.cumsum(tops) + need - total, 0)
    table, low, high = np.zeros(1), 0, 0
    choices: list[Counts] = []
    best: tuple[float, int, float] | None = None
    for slot in range(costs.shape[0]):
        if best is not None and worth(slot) <= best[0]:
            break  # no later completion is worth as much, whatever it costs
        if begin is not None:
            table, of_slot = _holding(table, costs[slot], fresh=slot <= begin and low == 0)
        else:
            of_slot = costs[slot]
        if begin is None and tops[slot] == 0:
            choices.append(np.zeros(len(table), dtype=np.int64))
        else:
            before, low, high = (low, high), int(lows[slot]), int(highs[slot])
            none = np.full(most + before[0] - low, 0.0 if before[0] else table[0])
            padded = np.concatenate([none, table, np.full(high - before[1], np.inf)])
            found = sliding_window_view(padded, most + 1)[:, ::-1] + of_slot
            choice = found.argmin(axis=1)
            table = np.take_along_axis(found, choice[:, None], axis=1)[:, 0]
            choices.append(choice)
        payoff = worth(slot) - table[-1] if high == need else -math.inf
        if math.isfinite(payoff) and (best is None or payoff > best[0]):
            best = (float(payoff), slot, float(table[-1]))
    if best is None:
        return None
    payoff, last, cost = best
    return Best(_trace(choices, lows, last, need, begin or 0), payoff, worth(last), cost)


def _holding(table: Array, cost: Array, *, fresh: bool) -> tuple[Array, Array]:
    """Search for a job that holds on: none of the slots between its first and its last is without workers."""
    before, some = table.copy(), cost.copy()
    before[0], some[0] = 0.0 if fresh else before[0], np.inf
    return before, some


def most_work(costs: Array, work: int, *, gaps: bool = True) -> int:
    """Return how much of the work fits into the slots at all, in worker-slots."""
    tops: list[int] = _tops(costs).tolist()
    if not gaps:
        runs = [sum(run) for some, run in groupby(tops, bool) if some]
        return min(work, max(runs, default=0))
    return min(work, sum(tops))


def _tops(costs: Array) -> Counts:
    """Return the most workers that each slot takes."""
    tops: Counts = np.where(np.isfinite(costs), np.arange(costs.shape[1]), 0).max(axis=1, initial=0)
    return tops


def _trace(choices: list[Counts], lows: Counts, last: int, need: int, begin: int) -> dict[int, int]:
    workers: dict[int, int] = {}
    for slot in range(last, -1, -1):
        if not need and slot < begin:
            break  # a job that holds on has begun in the slot after this one
        count = int(choices[slot][need - lows[slot]])
        if count:
            workers[slot] = count
            need = max(0, need - count)
    return dict(sorted(workers.items()))

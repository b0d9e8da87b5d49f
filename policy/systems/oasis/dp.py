"""OASiS's Algorithm 2, solved exactly: the best schedule of one job.

First the cost of each number of workers (y) is computed for each time slot, then the cheapest way to spread the job's
work over the time slots.

The paper's recursion over chunks of data and deadlines becomes one table: cost(t, n) is the least cost of at least n
worker-slots (one worker for one time slot) in the time slots up to t. A single pass over the time slots fills the
table, and so finds the best time slot for the job to complete in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from policy.systems.oasis.arithmetic import Array, dot

Counts = NDArray[np.int64]
# MANY is the number of members that fit on a node if they request nothing. It is finite, because infinities cannot be
# added up and compared.
MANY = 1e6
LARGEST_TABLE = 6000  # A job of more than LARGEST_TABLE worker-slots is planned in blocks of several.


@dataclass(frozen=True, slots=True)
class SlotRole:
    """One role of a job in one time slot, as arrays whose dimensions stand in brackets.

    request [resource]: what one member asks for. open [node]: whether the node takes members of the role. counts [y]:
    how many members the role has when the job has y workers; -1 where y workers are impossible.
    """

    name: str
    request: Array
    open: NDArray[np.bool_]
    counts: Counts


@dataclass(frozen=True, slots=True)
class SlotOffer:
    """The price and the placement of each possible number of workers in one time slot.

    ``cost[y]`` is the price of y workers with the members of the other roles that they need; it is infinite if y
    workers are impossible. ``takes`` has an array [y, node] for each role: how many of its members are on the node.
    """

    cost: Array
    takes: tuple[Counts, ...]


def offer(free: Array, price: Array, roles: tuple[SlotRole, ...]) -> SlotOffer:
    """Return COST_t: the cost and placement of each number of workers in one time slot, at the prices before the job.

    free, price: arrays [node, resource]. Each role is placed greedily on its cheapest nodes. If each node takes only
    workers or only ps, the result is optimal (Theorem 1). Where two roles may share a node, the first role's members
    are placed first, which is a heuristic.
    """
    size = len(roles[0].counts)
    cost = np.zeros(size)
    takes = []
    left = free[None]
    for number, role in enumerate(roles):
        unit = dot(price, role.request)
        order = np.argsort(unit, kind="stable")
        caps = np.where(role.open, room_for(left, role.request), 0.0)[:, order]
        before = np.cumsum(caps, axis=1) - caps
        counts = role.counts[:, None].astype(float)
        put = np.clip(counts - before, 0.0, caps)
        lacking = (put.sum(axis=1) < role.counts) | (role.counts < 0)
        cost = cost + np.where(lacking, np.inf, dot(put, unit[order]))
        take = np.empty((size, len(order)))
        take[:, order] = put
        takes.append(take.astype(np.int64))
        later = roles[number + 1 :]
        if any((role.open & other.open).any() for other in later):
            left = left - take[:, :, None] * role.request
    return SlotOffer(cost, tuple(takes))


def room_for(left: Array, request: Array) -> Array:
    """Return how many members with that request fit into the resources ``left`` on each node.

    ``left`` is an array [1 or y, node, resource], and the result is an array [1 or y, node].
    """
    asked = request > 0
    if not asked.any():
        return np.full(left.shape[:2], MANY)
    counts: Array = np.floor(left[:, :, asked] / request[asked]).min(axis=2)
    return np.maximum(counts, 0.0)


@dataclass(frozen=True, slots=True)
class Best:
    """The best schedule that was found for a job.

    workers: the number of workers by time slot, counted from the first time slot that may be planned. worth: the job's
    utility if it completes in the schedule's last time slot. cost: the price of the schedule. payoff: the worth less
    the cost.
    """

    workers: dict[int, int]
    payoff: float
    worth: float
    cost: float


def best_schedule(costs: Array, work: int, worth: Callable[[int], float], begin: int | None = None) -> Best | None:
    """Return the schedule with the largest payoff (27, 28); None if the work does not fit into the time slots.

    costs: the cost of y workers as an array [time slot, y]; 0 workers cost 0. work: the job's worker-slots. worth:
    returns the utility of completing in a time slot. begin: the latest time slot in which a job must start that cannot
    pause once it runs; None: the job may pause. Of equal schedules the one that completes first is taken, then the one
    with fewer workers in later time slots. A job of more than 6,000 worker-slots is planned in blocks of several
    worker-slots, so that its schedule may cost more than the cheapest one.
    """
    block = -(-work // LARGEST_TABLE)
    if block > 1:
        units, stands = in_blocks(costs, block)
        found = _search(units, -(-work // block), worth, begin)
        if found is not None:
            workers = {slot: int(stands[slot, count]) for slot, count in found.workers.items()}
            return Best(workers, found.payoff, found.worth, found.cost)
    # A job that does not fit in blocks must fill nearly every time slot, if it fits at all. An exact search then has
    # few numbers of worker-slots to try, even for a large job.
    return _search(costs, work, worth, begin)


def in_blocks(costs: Array, block: int) -> tuple[Array, Counts]:
    """Return the cost of each number of blocks in each time slot, and the number of workers that it stands for.

    Both are arrays [time slot, number of blocks]. ``block`` is the size of a block in workers. b blocks stand for the
    cheapest number of workers from b * block to (b + 1) * block - 1: for a gang that can only have 101 workers, 50
    blocks of 2 stand for 101 workers.
    """
    slots, size = costs.shape
    padded = np.pad(costs, ((0, 0), (0, -size % block)), constant_values=np.inf).reshape(slots, -1, block)
    stands: Counts = padded.argmin(axis=2) + block * np.arange(padded.shape[1])
    return padded.min(axis=2), stands


def _search(costs: Array, need: int, worth: Callable[[int], float], begin: int | None) -> Best | None:
    """Return the best schedule of ``need`` worker-slots (or blocks) over all time slots; None if they do not fit.

    For each time slot there is a table of the least cost by the number of worker-slots done so far. It only has numbers
    from which ``need`` can still be reached: from ``lows``, below which the later time slots could not make up, to
    ``highs``, the most that fits into the time slots so far.
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
            break  # To complete later is worth no more than the best payoff so far, even if it costs nothing.
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
    """Return a time slot's table and costs for a job that cannot pause: having no workers costs infinitely much.

    table: the least cost by the number of worker-slots done before. cost: the cost by the number of workers. fresh: the
    job may still start in this time slot, so that having done no work before costs nothing.
    """
    before, some = table.copy(), cost.copy()
    before[0], some[0] = 0.0 if fresh else before[0], np.inf
    return before, some


def most_work(costs: Array, work: int, *, gaps: bool = True) -> int:
    """Return how many of the job's worker-slots (one worker for one time slot) fit into the time slots.

    costs: the cost of y workers as an array [time slot, y]; infinite where there is no room for y workers. work: the
    job's worker-slots, which the result does not exceed. gaps: the job may pause; if it may not, only the unbroken run
    of time slots into which most worker-slots fit counts.
    """
    tops: list[int] = _tops(costs).tolist()
    if not gaps:
        runs = [sum(run) for some, run in groupby(tops, bool) if some]
        return min(work, max(runs, default=0))
    return min(work, sum(tops))


def _tops(costs: Array) -> Counts:
    """Return the largest number of workers that fits into each time slot."""
    tops: Counts = np.where(np.isfinite(costs), np.arange(costs.shape[1]), 0).max(axis=1, initial=0)
    return tops


def _trace(choices: list[Counts], lows: Counts, last: int, need: int, begin: int) -> dict[int, int]:
    workers: dict[int, int] = {}
    for slot in range(last, -1, -1):
        if not need and slot < begin:
            break  # A job that cannot pause starts in the time slot after ``slot``, so no earlier one has workers.
        count = int(choices[slot][need - lows[slot]])
        if count:
            workers[slot] = count
            need = max(0, need - count)
    return dict(sorted(workers.items()))

"""OASiS's Algorithm 2 (a job's best schedule) with a switching cost.

Each worker more or fewer than in the time slot before costs the job something. The paper's problem has no such term.
The table of ``dp`` gets another dimension, the workers of the last time slot:
cost(t, n, y) is the least cost of at least n worker-slots in the time slots up to t, the last of them with y workers.
The recursion over the workers of the time slot before is two running minima, so each time slot needs one pass over the
table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from policy.systems.oasis.arithmetic import Array
from policy.systems.oasis.dp import Best, best_schedule, in_blocks

# If the table of one time slot would have more than LARGEST_STATES entries (n times y), workers are planned in blocks,
# which makes the table smaller.
LARGEST_STATES = 100_000


def steady_schedule(
    costs: Array, work: int, worth: Callable[[int], float], begin: int | None, switching: float
) -> Best | None:
    """Return the best schedule as ``best_schedule`` does, with a cost for each change of the number of workers.

    switching: the cost of one worker more or fewer than in the time slot before. The schedule's start and end cost
    nothing; a pause costs as much as its workers that go and those that come back.
    """
    block = _block(work, costs.shape[1])
    units, stands = in_blocks(costs, block) if block > 1 else (costs, None)
    found = _search(units, -(-work // block), worth, begin, switching * block)
    if found is None and stands is not None:
        # A job that does not fit in blocks must fill nearly every time slot. So the search without switching costs is
        # good enough, because there is hardly another schedule to choose.
        plain = best_schedule(costs, work, worth, begin)
        found, stands = (plain.workers if plain is not None else None), None
    if found is None:
        return None
    workers = found if stands is None else {slot: int(stands[slot, count]) for slot, count in found.items()}
    cost = sum(float(costs[slot, count]) for slot, count in workers.items()) + switching * changes(workers)
    worthy = worth(max(workers))
    return Best(workers, worthy - cost, worthy, cost)


def changes(workers: dict[int, int]) -> int:
    """Return by how many workers the number changes in all, from the first to the last time slot of a schedule.

    workers: the number of workers by time slot.
    """
    counts = [workers.get(slot, 0) for slot in range(min(workers), max(workers) + 1)]
    return sum(abs(after - before) for before, after in pairwise(counts))


def _block(work: int, size: int) -> int:
    block = 1
    while -(-work // block) * -(-size // block) > LARGEST_STATES:
        block += 1
    return block


def _search(
    costs: Array, need: int, worth: Callable[[int], float], begin: int | None, switching: float
) -> dict[int, int] | None:
    """Return the number of workers by time slot in the best schedule, or None if the work does not fit.

    Of equal schedules the one that completes first is taken.
    """
    size = costs.shape[1]
    # The array [n, y] says how many worker-slots must be done before a time slot if y workers run in it and n
    # worker-slots are to be done at its end.
    before = np.maximum(np.arange(need + 1)[:, None] - np.arange(size), 0)
    table, tables = np.full((need + 1, size), np.inf), list[Array]()
    best: tuple[float, int] | None = None
    for slot, of_slot in enumerate(costs):
        if best is not None and worth(slot) <= best[0]:
            break  # To complete later is worth no more than the best payoff so far, even if it costs nothing.
        came = _came(table, switching, fresh=begin is None or slot <= begin)
        table = came[before, np.arange(size)] + of_slot
        if begin is not None:
            # A job that cannot pause has no time slot with 0 workers between its first and its last time slot.
            table[:, 0] = np.inf
        tables.append(table)
        payoff = worth(slot) - float(table[need, 1:].min(initial=np.inf))
        if math.isfinite(payoff) and (best is None or payoff > best[0]):
            best = (payoff, slot)
    return None if best is None else _trace(tables, best[1], need, switching, begin)


def _came(table: Array, switching: float, *, fresh: bool) -> Array:
    """Return the least cost of the time slots before the present one, with the cost of changing to its workers.

    The result is an array [n, y]: n worker-slots are done before, and y workers run in the present time slot. table:
    the least cost by worker-slots done and workers in the time slot before. fresh: the job may start in the present
    time slot.
    """
    each = switching * np.arange(table.shape[1])
    fewer = np.minimum.accumulate(table - each, axis=1) + each
    more = np.minimum.accumulate((table + each)[:, ::-1], axis=1)[:, ::-1] - each
    came: Array = np.minimum(fewer, more)
    if fresh:
        came[0] = 0.0  # If no work need be done before, the job starts in this time slot, which costs nothing.
    return came


def _trace(tables: list[Array], last: int, need: int, switching: float, begin: int | None) -> dict[int, int]:
    workers: dict[int, int] = {}
    count = 1 + int(tables[last][need, 1:].argmin())
    for slot in range(last, -1, -1):
        if count:
            workers[slot] = count
        need = max(0, need - count)
        if slot == 0 or (need == 0 and (begin is None or slot <= begin)):
            break  # The schedule begins in this time slot, so no earlier workers are looked for.
        came = tables[slot - 1][need] + switching * np.abs(np.arange(tables[0].shape[1]) - count)
        count = int(came.argmin())
    return dict(sorted(workers.items()))

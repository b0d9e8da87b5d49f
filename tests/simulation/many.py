"""Many seeds, on all cores."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from tests.simulation.faults import KINDS
from tests.simulation.run import Report, Simulation, play
from tests.simulation.scenario import drawn

SEEDS_FOR_ALL_KINDS: Final = 100
MOST_SEEDS: Final = 500  # within which a seeded defect must be caught


def run_seed(seed: int, mutant: str = "") -> Report:
    """Play one seed."""
    if mutant:
        from tests.simulation.mutants import switched_on

        with switched_on(mutant):
            return _played(seed)
    return _played(seed)


def _played(seed: int) -> Report:
    try:
        return play(lambda: Simulation(drawn(seed)))
    except Exception as error:
        found = traceback.format_exc().splitlines()
        return Report(seed, violations=[f"the simulation broke: {error!r}"], story=found)


def seeds_to_catch(mutant: str) -> tuple[str, int, str]:
    """The mutant, the seeds that it took (0: it was not caught), and by what it was caught."""
    for seed in range(1, MOST_SEEDS + 1):
        found = run_seed(seed, mutant).violations
        if found:
            return mutant, seed, found[0]
    return mutant, 0, ""


def run_seeds(seeds: Iterable[int], processes: int = 0, mutant: str = "") -> Iterator[Report]:
    """Play the seeds, in their order, on so many processes (0: one per core)."""
    processes = processes or len(os.sched_getaffinity(0))
    one = partial(run_seed, mutant=mutant)
    if processes == 1:
        yield from map(one, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(one, seeds)


def shortfall(reports: Sequence[Report]) -> str:
    """What was not done often enough for the runs to say anything; empty if nothing."""
    faults = sum((report.faults for report in reports), Counter[str]())
    never = [kind for kind in KINDS if not faults[kind]] if len(reports) >= SEEDS_FOR_ALL_KINDS else []
    if never:
        return f"faults that never happened: {', '.join(never)}"
    return "" if reports and sum(report.compared for report in reports) else "no ledger was compared with a rebuilt one"

"""Seeded defects are caught, and how many seeds it takes; a simulation that finds none of them shows nothing."""

from __future__ import annotations

import multiprocessing
import os

import pytest

from tests.simulation.many import run_seed
from tests.simulation.mutants import MUTANTS

MOST_SEEDS = 500


def seeds_to_catch(name: str) -> tuple[str, int, str]:
    """The mutant, the seeds that it took (0: it was not caught), and by what it was caught."""
    for seed in range(1, MOST_SEEDS + 1):
        found = run_seed(seed, name).violations
        if found:
            return name, seed, found[0]
    return name, 0, ""


@pytest.mark.timeout(900)
def test_every_mutant_is_caught() -> None:
    with multiprocessing.get_context("spawn").Pool(len(os.sched_getaffinity(0))) as pool:
        found = list(pool.imap(seeds_to_catch, MUTANTS, chunksize=1))
    for name, seeds, by in found:
        print(f"{name}: {f'{seeds} seeds, {by[:120]}' if seeds else 'NOT CAUGHT'}")
    assert not [name for name, seeds, _ in found if not seeds]

"""Seeded defects are caught, and how many seeds it takes; a simulation that finds none of them shows nothing."""

from __future__ import annotations

import multiprocessing
import os

import pytest

from tests.simulation.many import seeds_to_catch
from tests.simulation.mutants import MUTANTS


@pytest.mark.soak  # two minutes and more
@pytest.mark.timeout(900)
def test_every_mutant_is_caught() -> None:
    with multiprocessing.get_context("spawn").Pool(len(os.sched_getaffinity(0))) as pool:
        found = list(pool.imap(seeds_to_catch, MUTANTS, chunksize=1))
    for name, seeds, by in found:
        print(f"{name}: {f'{seeds} seeds, {by[:120]}' if seeds else 'NOT CAUGHT'}")
    assert not [name for name, seeds, _ in found if not seeds]

"""Seeded defects are caught, and how many seeds it takes; a simulation that finds none of them shows nothing."""

from __future__ import annotations

import pytest

from tests.simulation.catching import catch
from tests.simulation.mutants import MUTANTS


@pytest.mark.soak
@pytest.mark.timeout(3600)  # all of its seeds, on one slow core
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_caught(mutant: str) -> None:
    found = catch(mutant)
    print(found.row)
    assert found.seeds

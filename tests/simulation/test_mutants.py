"""Tests that seeds catch the seeded defects; test_scenarios.py tests that kept scenarios do.

A seeded defect is a fault put into the code on purpose; a simulation that finds none of them would prove nothing.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulation.catching import CatchingState, stands_for
from tests.simulation.many import state_of_full
from tests.simulation.mutants import MUTANTS, switched_on

DOCS = Path(__file__).parents[2] / "docs"
RULE = re.compile(r"[SL]\d+[ab]?")
ROW = re.compile(r"^\| `([a-z-]+)` \| (.+?) \| (\d+) \| ", re.MULTILINE)
ROWS = ROW.findall((DOCS / "reliability" / "defects.md").read_text())


@pytest.mark.soak
@pytest.mark.timeout(3600)  # All seeds of one defect may take this long on one slow core.
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_caught(mutant: str) -> None:
    """Run seeds until one catches the defect; an interrupted run continues at its seed."""
    found = CatchingState(state_of_full("mutants.jsonl")).catch(mutant, processes=0)
    print(found.row)
    assert found.seeds


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_can_be_switched_on(mutant: str) -> None:
    """The function that the defect replaces still exists, and takes the same arguments."""
    for owner, name, value in MUTANTS[mutant]():
        replaced = getattr(owner, name)
        if callable(replaced) and callable(value) and not isinstance(replaced, type):
            by_place, by_name = arguments(replaced)
            inspect.signature(value).bind(*by_place, **by_name)
    with switched_on(mutant):
        pass


def arguments(function: Callable[..., object]) -> tuple[list[None], dict[str, None]]:
    """Return the arguments that a call may pass: positional and by keyword."""
    found = inspect.signature(function).parameters.values()
    by_name = {one.name: None for one in found if one.kind is one.KEYWORD_ONLY}
    return [None for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)], by_name


def test_the_table_of_defects_has_them_all_and_what_they_stand_for() -> None:
    assert {name: defect for name, defect, _ in ROWS} == {name: stands_for(name) for name in MUTANTS}


def test_the_documentation_says_what_each_rule_is() -> None:
    sources = (file.read_text() for file in Path(__file__).parent.glob("*.py"))
    known = {rule for source in sources for rule in re.findall(r'violated\(\s*"([SL]\d+[ab]?)"', source)}
    explained = re.findall(r"^\| ([SL][\w, ]+) \| ", (DOCS / "reliability.md").read_text(), re.MULTILINE)
    assert len(known) > 15
    assert known <= {rule for row in explained for rule in RULE.findall(row)}

"""Seeded defects are caught, and how many seeds it takes; a simulation that finds none of them shows nothing."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulation.catching import Caught, catch, stands_for
from tests.simulation.many import run_seed
from tests.simulation.mutants import MUTANTS, switched_on

DOCS = Path(__file__).parents[2] / "docs"
RULE = re.compile(r"[SL]\d+[ab]?")
ROW = re.compile(r"^\| `([a-z-]+)` \| (.+?) \| (\d+) \| ", re.MULTILINE)
SOON = 10  # seeds: those that are caught within so many are played by every run of the tests, each at its own
ROWS = ROW.findall((DOCS / "reliability" / "defects.md").read_text())
QUICK = {name: int(seed) for name, _, seed in ROWS if int(seed) <= SOON}


@pytest.mark.soak
@pytest.mark.timeout(3600)  # all of its seeds, on one slow core
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_caught(mutant: str) -> None:
    found = catch(mutant)
    print(found.row)
    assert found.seeds


@pytest.mark.parametrize("mutant", QUICK)
def test_a_mutant_is_caught_at_its_recorded_seed(mutant: str) -> None:
    """A witness that has gone blind shows at once. Where decisions have changed, the seed may be another by now."""
    seed = QUICK[mutant]
    found = run_seed(seed, mutant).violations
    told = f"`python -m tests.simulation.catching --mutant {mutant}` makes its row of docs/reliability/defects.md anew"
    assert found, f"seed {seed} does not catch it any more; {told}"
    assert RULE.match(found[0]), found
    print(Caught(mutant, seed, found[0]).row)


def test_most_defects_are_caught_soon() -> None:
    """Too few rows would make the test above say nothing."""
    assert len(QUICK) > len(MUTANTS) / 2


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_can_be_switched_on(mutant: str) -> None:
    """What it takes the place of is still there, and is still called in that way."""
    for owner, name, value in MUTANTS[mutant]():
        replaced = getattr(owner, name)
        if callable(replaced) and callable(value) and not isinstance(replaced, type):
            by_place, by_name = arguments(replaced)
            inspect.signature(value).bind(*by_place, **by_name)
    with switched_on(mutant):
        pass


def arguments(function: Callable[..., object]) -> tuple[list[None], dict[str, None]]:
    """What a call may give it: by place, and by name."""
    found = inspect.signature(function).parameters.values()
    by_name = {one.name: None for one in found if one.kind is one.KEYWORD_ONLY}
    return [None for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)], by_name


def test_the_table_of_defects_has_them_all_and_what_they_stand_for() -> None:
    assert {name: defect for name, defect, _ in ROWS} == {name: stands_for(name) for name in MUTANTS}


def test_the_documentation_says_what_each_rule_is() -> None:
    sources = (file.read_text() for file in Path(__file__).parent.glob("*.py"))
    known = {rule for source in sources for rule in re.findall(r'violated\(\s*"([SL]\d+[ab]?)"', source)}
    told = re.findall(r"^\| ([SL][\w, ]+) \| ", (DOCS / "reliability.md").read_text(), re.MULTILINE)
    assert len(known) > 15
    assert known <= {rule for row in told for rule in RULE.findall(row)}

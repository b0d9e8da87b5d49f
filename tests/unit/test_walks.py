"""The walks of docs/architecture.md are those that the code takes, followed through a simulated run."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from tests.simulation.kept import read

ROOT = Path(__file__).parents[2]
# in this scenario, without its faults, a job starts and another one is shrunk for the next job
SCENARIO = "one-worker-too-few"
STEP = re.compile(r"^\d+\. `([\w/]+\.py)`, `([\w.]+)`: ", re.MULTILINE)
MOST_FILES = 10
Call = tuple[str, str]  # a file and the qualified name of a function


def walks() -> dict[str, list[Call]]:
    """Return the steps of each walk by its title."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    chapter = page.partition("## Two walks through the code\n")[2].partition("\n## ")[0]
    parts = re.split(r"^\*\*(.+)\*\*$", chapter, flags=re.MULTILINE)[1:]
    return {title: STEP.findall(steps) for title, steps in zip(parts[::2], parts[1::2], strict=True)}


WALKS = walks()


@pytest.fixture(scope="module")
def called() -> list[Call]:
    """Return the calls of a run to any function that a walk names, in order."""
    named = {(str(ROOT / file), name): (file, name) for walk in WALKS.values() for file, name in walk}
    found: list[Call] = []

    def follow(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and (call := named.get((code.co_filename, code.co_qualname))) is not None:
            found.append(call)

    before = sys.getprofile()
    sys.setprofile(follow)
    try:
        report = read(SCENARIO).model_copy(update={"faults": ()}).play(defect="")
    finally:
        sys.setprofile(before)
    assert report.violations == []
    return found


def missed(walk: list[Call], calls: Iterator[Call]) -> Call | None:
    """Return the first step of the walk that does not come after the one before it; None if all do."""
    return next((step for step in walk if step not in calls), None)


@pytest.mark.parametrize("title", WALKS)
def test_the_code_takes_the_walk(title: str, called: list[Call]) -> None:
    assert missed(WALKS[title], iter(called)) is None


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_is_short_and_in_order(title: str, called: list[Call]) -> None:
    walk = WALKS[title]
    assert len(walk) > 5
    assert len({file for file, _ in walk}) <= MOST_FILES
    backwards = list(reversed(walk))
    assert missed(backwards, iter(called[: called.index(walk[-1]) + 1])) is not None


def test_there_are_two_walks() -> None:
    assert list(WALKS) == ["A pod from filter to binding", "A shrink from decision to patch"]

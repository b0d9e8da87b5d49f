"""tests/mutation on a small tree: the lines that its tests execute are recorded, and the tests run the changed code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.mutation import tree as trees
from tests.mutation.__main__ import judged
from tests.mutation.changes import CodeChange
from tests.mutation.executed import Executed
from tests.mutation.recording import SO_FAR, TESTS
from tests.mutation.report import FULL, GATE, NOT_EXECUTED, SURVIVED
from tests.mutation.tree import Tree

pytestmark = pytest.mark.full  # these tests start pytest once for each change

CODE = """LIMIT = 3

def add(a, b):
    return a + b

def most(a, b):
    return max(a, b)

def never():
    return 1

def endless(a):
    while a:
        a -= 1
    return a
"""
TESTS_OF_CODE = """import pytest
from policy import code

def test_add():
    assert code.add(2, 2) == 4

def test_most_says_nothing():
    code.most(1, 2)

@pytest.mark.full
def test_add_more():
    assert code.add(2, 3) == 5

def test_red():
    assert code.add(2, 2) == 5

def test_ends():
    assert code.endless(2) == 0
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """Return a copy of tests/mutation in a folder with one module and its tests."""
    tree = Tree(tmp_path)
    shutil.copytree(trees.ROOT / "tests" / "mutation", tree.path / "tests" / "mutation")
    (tree.path / "pytest.ini").write_text("[pytest]\nmarkers =\n  full\n  soak\n  skew\n")
    for file, text in {
        "policy/__init__.py": "", "policy/code.py": CODE, "extender/__init__.py": "",
        "tests/unit/test_a.py": TESTS_OF_CODE, "tests/unit/test_b.py": "def test_nothing(): pass\n",
    }.items():  # fmt: skip
        (tree.path / file).parent.mkdir(parents=True, exist_ok=True)
        (tree.path / file).write_text(text)
    monkeypatch.setattr(trees, "UNITS", ("tests/unit",))
    return tree


@pytest.fixture
def executed(tree: Tree, tmp_path: Path) -> Executed:
    tree.record(tmp_path / "record.log")
    return Executed(tree.folder, tree.path)


def changed(line: int, before: str, after: str) -> CodeChange:
    lines = CODE.splitlines()
    assert before in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(before, after)
    return CodeChange("policy/code.py", line, line, line == 1, "number", "\n".join(lines) + "\n", "")


CAUGHT = {
    "the gate": (changed(4, "+", "-"), GATE, "tests/unit/test_a.py::test_add", 2),
    "full alone": (changed(4, "+", "*"), FULL, "tests/unit/test_a.py::test_add_more", 2),
    "nobody": (changed(7, "max", "min"), SURVIVED, "", 1),
    "not executed": (changed(10, "1", "2"), NOT_EXECUTED, "", 0),
    "it never ends": (changed(13, "a:", "True:"), GATE, "tests/unit/test_a.py::test_ends", 1),
    "at the import": (changed(1, "3", "3 / 0"), GATE, trees.IMPORT_FAILS, 4),
}


@pytest.mark.parametrize(("change", "caught", "test", "tests"), CAUGHT.values(), ids=CAUGHT)
def test_by_whom_a_change_is_caught(
    tree: Tree, executed: Executed, change: CodeChange, caught: str, test: str, tests: int
) -> None:
    assert executed.failed == ["tests/unit/test_a.py::test_red"]
    assert judged(tree, executed, change) == (caught, test, tests)
    assert (tree.path / change.file).read_text() == CODE


def test_a_stopped_recording_goes_on_with_the_tests_that_it_lacks(
    tree: Tree, tmp_path: Path, executed: Executed
) -> None:
    told = json.loads((tmp_path / TESTS).read_text())
    (tmp_path / TESTS).unlink()
    kept = {name: known | {"seconds": 77.0} for name, known in told.items() if "test_b" in name}
    (tmp_path / SO_FAR).write_text(json.dumps(kept))
    tree.record(tmp_path / "record.log")
    again = json.loads((tmp_path / TESTS).read_text())
    assert again.keys() == told.keys()
    assert [name for name, known in again.items() if known["seconds"] == 77.0] == list(kept)

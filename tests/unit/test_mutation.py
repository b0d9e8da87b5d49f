"""tests/mutation: which small changes to the code are drawn, which tests execute them, and what the report says."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from coverage import CoverageData

from tests.mutation import choosing
from tests.mutation.changes import Changes, CodeChange, meaning
from tests.mutation.executed import Executed, importers
from tests.mutation.recording import FOLDER, LINES, TESTS
from tests.mutation.report import FULL, GATE, NOT_EXECUTED, SURVIVED, MutationResult, reached, share, tables

SOURCE = '''"""A module."""
LIMIT = 3


def most(sizes: list[int], least: int = 0) -> int:
    """The largest."""
    return max(
        size for size in sizes
        if size > least
    )
'''
NO_EFFECT = {
    "a docstring": ('def f():\n    """What it does."""', 'def f():\n    """None."""'),
    "an annotation": ("def f(a: int | None) -> int:\n    b: int = a", "def f(a: int & None) -> str:\n    b: str = a"),
    "the words of a text": ("raise ValueError('no such job')", "raise ValueError('XXno such jobXX')"),
    "what is logged": ("_log.info('started', at=now + 1)", "_log.info('started', at=None)"),
    "the type of a cast": ("a = cast(int, b)", "a = cast(None, b)"),
    "the slots of a dataclass": ("@dataclass(slots=True)\nclass A: ...", "@dataclass(slots=False)\nclass A: ..."),
}
EFFECT = {
    "a name": ("raise KeyError('job')", "raise KeyError('XXjobXX')"),
    "a text that goes away": ("say('no such job')", "say(None)"),
    "the value that is cast": ("a = cast(int, b + 1)", "a = cast(int, b - 1)"),
    "a value with an annotation": ("a: int = 1", "a: int = 2"),
    "a default": ("def f(a: int = 1): ...", "def f(a: int = 2): ..."),
    "whether a dataclass is frozen": (
        "@dataclass(frozen=True)\nclass A: ...",
        "@dataclass(frozen=False)\nclass A: ...",
    ),
    "something else that is named info": ("story.info(now + 1)", "story.info(now - 1)"),
}


@pytest.mark.parametrize(("before", "after"), NO_EFFECT.values(), ids=NO_EFFECT)
def test_a_change_without_effect_is_told(before: str, after: str) -> None:
    assert meaning(before) == meaning(after)


@pytest.mark.parametrize(("before", "after"), EFFECT.values(), ids=EFFECT)
def test_a_change_with_an_effect_counts(before: str, after: str) -> None:
    assert meaning(before) != meaning(after)


@pytest.fixture
def drawn(tmp_path: Path) -> list[CodeChange]:
    """Return up to a hundred changes drawn from the module above."""
    (tmp_path / "sizes.py").write_text(SOURCE)
    changes, chance = Changes(tmp_path, "sizes.py"), random.Random(1)
    return [change for _ in range(100) if (change := changes.draw(chance))]


def test_every_change_is_in_its_line_and_can_run(drawn: list[CodeChange]) -> None:
    before = SOURCE.splitlines()
    for change in drawn:
        after = change.source.splitlines()
        assert before[: change.line - 1] == after[: change.line - 1]
        assert before[change.line - 1] != after[change.line - 1]
        assert f"-{before[change.line - 1]}" in change.diff
        compile(change.source, "sizes.py", "exec")


def test_a_change_knows_its_statement_and_whether_it_runs_at_import(drawn: list[CodeChange]) -> None:
    places = {(change.line, change.statement, change.at_import) for change in drawn}
    assert places == {(2, 2, True), (5, 5, True), (8, 7, False), (9, 7, False)}


def test_the_same_seed_draws_the_same(tmp_path: Path) -> None:
    (tmp_path / "sizes.py").write_text(SOURCE)
    changes = Changes(tmp_path, "sizes.py")
    one, other = (changes.draw(random.Random(7)) for _ in range(2))
    assert one == other


def change(file: str, line: int, statement: int = 0, at_import: bool = False) -> CodeChange:
    return CodeChange(file, line, statement or line, at_import, "number", "", "")


@pytest.fixture
def executed(tmp_path: Path) -> Executed:
    """Return a record of executed lines in which importing policy/a.py runs line 1, and each test runs
    one more line.
    """
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "a.py").write_text("LIMIT = 3\n")
    (tmp_path / "policy" / "b.py").write_text("from policy.a import LIMIT\n")
    data = CoverageData(str(tmp_path / LINES))
    for test, file, line in [
        ("", "a", 1), ("quick", "a", 4), ("slow", "a", 4), ("red", "a", 4), ("other", "b", 2), ("", "c", 1),
    ]:  # fmt: skip
        data.set_context(test)
        data.add_lines({str(tmp_path / "policy" / f"{file}.py"): [line]})
    data.write()
    told = {
        name: {"seconds": 1.0, "full": name == "slow", "passed": name != "red"}
        for name in ("quick", "slow", "red", "other")
    }
    (tmp_path / TESTS).write_text(json.dumps(told))
    return Executed(tmp_path, tmp_path)


def test_the_tests_of_a_line_are_those_that_ran_it_and_passed(executed: Executed) -> None:
    assert set(executed.tests(change("policy/a.py", 4))) == {"quick", "slow"}
    assert executed.failed == ["red"]


def test_a_line_within_a_statement_counts_with_the_first(executed: Executed) -> None:
    assert set(executed.tests(change("policy/a.py", 6, statement=4))) == {"quick", "slow"}


def test_no_test_executes_a_line_that_none_ran(executed: Executed) -> None:
    assert not executed.tests(change("policy/a.py", 9))
    assert not executed.tests(change("policy/a.py", 9, at_import=True))


def test_what_runs_at_import_is_executed_by_the_tests_of_the_file_and_of_those_that_import_it(
    executed: Executed,
) -> None:
    assert set(executed.tests(change("policy/a.py", 1, at_import=True))) == {"quick", "slow", "other"}


def test_importers_are_found_by_module_and_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "policy" / "systems"
    folder.mkdir(parents=True)
    for file, text in {
        "__init__": "",
        "base": "",
        "one": "import policy.systems.base",
        "two": "from policy.systems import base",
    }.items():
        (folder / f"{file}.py").write_text(text)
    assert importers(tmp_path)["policy/systems/base.py"] == {"policy/systems/one.py", "policy/systems/two.py"}


class Item:
    """A stand-in for a pytest item, as far as the recording of times needs it."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.bound = 0.0

    def add_marker(self, mark: pytest.MarkDecorator, append: bool) -> None:
        self.bound = mark.args[0]


def test_the_gate_comes_first_and_then_the_quickest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    chosen = {"b": (2.0, False), "a": (1.0, True), "c": (3.0, False)}
    told = {name: {"seconds": seconds, "full": full} for name, (seconds, full) in chosen.items()}
    (tmp_path / choosing.CHOSEN).write_text(json.dumps(told))
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setattr(pytestconfig.hook, "pytest_deselected", lambda items: None)
    items = [Item(name) for name in "adcb"]
    choosing.pytest_collection_modifyitems(pytestconfig, items)  # type: ignore[arg-type]
    assert [(item.nodeid, item.bound) for item in items] == [("b", 16.0), ("c", 19.0), ("a", 13.0)]


def results(**numbers: int) -> list[MutationResult]:
    caught = {"gate": GATE, "full": FULL, "survived": SURVIVED, "missed": NOT_EXECUTED}
    return [
        MutationResult("abc", 1, 0, "policy/step.py", 3, "number", "-1\n+2", caught[by], "", 1)
        for by, number in numbers.items()
        for _ in range(number)
    ]


def test_the_share_is_the_gates_of_what_all_units_catch() -> None:
    assert share(results(gate=8, full=2, survived=5, missed=3)) == (8, 10)
    assert reached(results(gate=8, full=2, survived=5))
    assert not reached(results(gate=7, full=2, survived=5))


def test_the_tables_have_the_sums_and_the_survivors_differences() -> None:
    said = tables(results(gate=8, full=2, survived=5, missed=3))
    assert "| all | 15 | 8 (80%) | 10 | 5 | 3 |" in said
    assert "| simulator, study, demo | 0 | 0 | 0 | 0 | 0 |" in said
    assert said.count("-1\n+2") == 8

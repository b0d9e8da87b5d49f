"""A failed test of the control plane or the browser is run once more, and the retry is noted; others are not rerun."""

from __future__ import annotations

import json
from pathlib import Path

from tests.commands.retries import retries_since
from tests.unit.commands.nested import pytest_output

CONFTEST = """
from pathlib import Path
from tests.commands.retries import Retries
def pytest_configure(config):
    config.pluginmanager.register(Retries(Path("retries.jsonl")))
"""
FAILS_AT_FIRST = """
from pathlib import Path
def test_fails_at_first():
    tried = Path(__file__).with_suffix(".tried")
    before = tried.exists()
    tried.touch()
    assert before, "the first try fails"
"""


def test_only_tests_that_wait_for_real_parts_are_tried_again(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for folder in ("tests/e2e", "tests/browser", "tests/unit"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / f"test_{folder[6:]}.py").write_text(FAILS_AT_FIRST)
    printed = pytest_output(tmp_path, "-n", "2", "-p", "no:cacheprovider", "tests")
    assert "1 failed, 2 passed, 2 rerun" in printed
    assert "tests/e2e/test_e2e.py::test_fails_at_first: AssertionError: the first try fails" in printed
    told = [json.loads(line) for line in (tmp_path / "retries.jsonl").read_text().splitlines()]
    assert sorted(one["test"].partition("::")[0] for one in told) == [
        "tests/browser/test_browser.py", "tests/e2e/test_e2e.py",
    ]  # fmt: skip
    assert retries_since(min(one["at"] for one in told), tmp_path / "retries.jsonl") == 2
    assert retries_since(max(one["at"] for one in told) + 1, tmp_path / "retries.jsonl") == 0

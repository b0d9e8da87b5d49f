"""A test of the control plane or the browser is tried once more and told; no other test is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.commands.places import CHECKOUT
from tests.commands.retries import retries_since

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
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "2",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir",
        ".",
        "tests",
    ]
    given = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True, check=False)
    assert "1 failed, 2 passed, 2 rerun" in done.stdout
    assert "tests/e2e/test_e2e.py::test_fails_at_first: AssertionError: the first try fails" in done.stdout
    told = [json.loads(line) for line in (tmp_path / "retries.jsonl").read_text().splitlines()]
    assert sorted(one["test"].partition("::")[0] for one in told) == [
        "tests/browser/test_browser.py", "tests/e2e/test_e2e.py",
    ]  # fmt: skip
    assert retries_since(min(one["at"] for one in told), tmp_path / "retries.jsonl") == 2
    assert retries_since(max(one["at"] for one in told) + 1, tmp_path / "retries.jsonl") == 0

"""A stopped `make full` is resumed at the step where it stopped, if the files of the checkout have not changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.config.settingsfile import load_settings
from tests.commands.fullstate import STATE, FullState
from tests.unit.commands.nested import pytest_output

CONFTEST = "from tests.conftest import *  # the plugins of this project"
TESTS = """
import os
def test_passes(): pass
def test_fails_at_first(): assert "MENDED" in os.environ
"""


def test_the_state_of_another_commit_is_deleted(tmp_path: Path) -> None:
    first = FullState.opened(tmp_path, "commit-1")
    first.passed("tests/test_a.py::test_a")
    first.finish("checks")
    again = FullState.opened(tmp_path, "commit-1")
    assert again.left_out() == {"tests/test_a.py::test_a"}
    assert again.done() == {"checks"}
    other = FullState.opened(tmp_path, "commit-2")
    assert not other.left_out()
    assert not other.done()
    assert not first.folder.exists()


def test_a_run_that_goes_on_leaves_out_what_passed_and_runs_what_did_not(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_two.py").write_text(TESTS)
    state = FullState.opened(tmp_path / "state", "commit")
    first = _pytest(tmp_path, state)
    assert "1 failed, 1 passed" in first
    FullState.opened(tmp_path / "state", "commit")
    second = _pytest(tmp_path, state, MENDED="yes")
    assert "1 passed in" in second
    assert "1 tests passed before this run went on" in second


def _pytest(folder: Path, state: FullState, **environment: str) -> str:
    return pytest_output(folder, "-n", "1", ".", **{STATE: str(state.folder)}, **environment)


def test_a_service_that_a_test_of_the_full_run_starts_takes_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = load_settings()
    monkeypatch.setenv(STATE, "/some/folder")
    assert load_settings() == expected

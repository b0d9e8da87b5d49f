"""A pytest plugin that records which lines each test executes, its duration, and whether `make full` alone runs it.

An interrupted run continues with the test files that it has not finished.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import coverage
import pytest

FOLDER: Final = "MUTATION_FOLDER"  # The environment variable of this name has the folder of the recorded files.
LINES: Final = "lines.sqlite"
TESTS: Final = "tests.json"
SO_FAR: Final = "tests-so-far.json"
CODE: Final = ("policy", "extender", "lab")


class Recorder:
    """Records coverage with the test's name as context; lines that run at import have no name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._so_far = folder / SO_FAR
        self._failed = set[str]()
        self._seconds: dict[str, float] = defaultdict(float)
        self._coverage = coverage.Coverage(data_file=str(folder / LINES), source=CODE, config_file=False)
        self._tests: dict[str, dict[str, float]] = {}
        if self._so_far.exists():
            self._tests = json.loads(self._so_far.read_text())
            self._coverage.load()
        self._coverage.start()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid not in self._tests]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        result = yield
        self._coverage.switch_context("")
        self._tests[item.nodeid] = {
            "seconds": self._seconds[item.nodeid],
            "full": item.get_closest_marker("full") is not None,
            "passed": item.nodeid not in self._failed,
        }
        if nextitem is None or nextitem.path != item.path:
            self._coverage.save()
            self._so_far.write_text(json.dumps(self._tests))
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._coverage.stop()
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            self._so_far.rename(self._folder / TESTS)


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start recording before the first conftest.py imports the code."""
    early_config.pluginmanager.register(Recorder(Path(os.environ[FOLDER])))

"""A pytest plugin: it writes down which lines each test runs, how long the test takes, and its markers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import coverage
import pytest

FOLDER: Final = "MUTATION_FOLDER"  # the variable that names the folder of both files
LINES: Final = "lines.sqlite"
TESTS: Final = "tests.json"
CODE: Final = ("policy", "extender")


class Recorder:
    """Coverage gets the test's name as its context; what runs while modules are imported has no name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tests: dict[str, dict[str, object]] = {}
        self._failed = set[str]()
        self._coverage = coverage.Coverage(data_file=str(folder / LINES), source=CODE, config_file=False)
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        began = time.perf_counter()
        result = yield
        self._tests[item.nodeid] = {
            "seconds": time.perf_counter() - began,
            "full": item.get_closest_marker("full") is not None,
        }
        self._coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._coverage.stop()
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return  # it was stopped, and knows of some tests only
        self._coverage.save()
        for name, told in self._tests.items():
            told["passed"] = name not in self._failed
        (self._folder / TESTS).write_text(json.dumps(self._tests))


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin before the first conftest.py imports the code."""
    early_config.pluginmanager.register(Recorder(Path(os.environ[FOLDER])))

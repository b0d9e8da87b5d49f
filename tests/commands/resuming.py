"""A pytest plugin for `make full` that leaves out tests which passed before the run was interrupted."""

from __future__ import annotations

import pytest

from tests.commands.fullstate import FullState


class Resuming:
    """Leaves out tests that an earlier run has passed, and records those that pass now.

    ``controls`` says whether this process assigns tests to the others; only such a process records.
    """

    def __init__(self, state: FullState, controls: bool) -> None:
        self._state = state
        self._left_out = state.left_out()
        self._controls = controls
        self._called = set[str]()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        passed = [item for item in items if item.nodeid in self._left_out]
        if passed:
            config.hook.pytest_deselected(items=passed)
            items[:] = [item for item in items if item.nodeid not in self._left_out]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not self._controls or report.outcome != "passed":
            return
        if report.when == "call":
            self._called.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid in self._called:
            self._state.passed(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._left_out:
            terminalreporter.write_line(f"{len(self._left_out)} tests passed before this run went on")

"""A pytest plugin that prints each failure when it happens, because the end of a run may be an hour away."""

from __future__ import annotations

import pytest

from tests.commands.retries import why


class Failures:
    """Prints the name and the message of each test that fails; the whole report follows at the end of the run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome in ("failed", "rerun"):
            printer: pytest.TerminalReporter = self._config.pluginmanager.getplugin("terminalreporter")
            printer.write_line(f"\n{report.outcome}: {report.nodeid} ({report.when}): {why(report)}")

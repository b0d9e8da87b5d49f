"""Which tests run beside which: `make test` has three processes (pytest-xdist), and a group stays in one."""

from __future__ import annotations

import os
from collections.abc import Iterable

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

REAL_TIME = ("tests/browser/", "tests/e2e/", "tests/fuzz/")  # they start processes and measure: one after another
SEEDS = "tests/simulation/test_seeds.py"
# The same examples at every run, and no clock that judges them.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.load_profile("fixed")
COUNTED = "counted"  # a property of a test: what it came to, said at the end of the run


class Groups(LoadScopeScheduling):  # type: ignore[misc] # xdist ships no types
    """The tests in real time are one group; of the others each file is one."""

    def _split_scope(self, nodeid: str) -> str:
        return "real time" if nodeid.startswith(REAL_TIME) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Groups:
    """Return who gives the tests out."""
    return Groups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest groups first."""
    items.sort(key=lambda item: (not item.nodeid.startswith(REAL_TIME), not item.nodeid.startswith(SEEDS)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the tests in real time go first where all three want a core."""
    beside = "PYTEST_XDIST_WORKER" in os.environ and not item.nodeid.startswith(REAL_TIME)
    if beside and os.nice(0) == 0:
        os.nice(10)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the tests counted."""
    ended: Iterable[pytest.TestReport] = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    for report in ended:
        for name, value in report.user_properties:
            if name == COUNTED:
                terminalreporter.write_line(f"{report.nodeid}: {value}")

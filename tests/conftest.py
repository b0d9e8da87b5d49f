"""Which tests run beside which: `make test` has three processes (pytest-xdist), and a group stays in one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
REAL_TIME = ("browser", "e2e", "fuzz")  # they start processes, wait for them and measure them: one after another
SEEDS = Path("simulation", "test_seeds.py")
COUNTED = "counted"  # a property of a test: what it came to, said at the end of the run


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest groups first: the tests in real time, the seeds, then a group for each file."""
    items.sort(key=lambda item: (_group(item) != "real-time", item.path != HERE / SEEDS))
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the tests counted."""
    ended: Iterable[pytest.TestReport] = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    for report in ended:
        for name, value in report.user_properties:
            if name == COUNTED:
                terminalreporter.write_line(f"{report.nodeid}: {value}")


def _group(item: pytest.Item) -> str:
    folder = item.path.relative_to(HERE)
    return "real-time" if folder.parts[0] in REAL_TIME else folder.as_posix()

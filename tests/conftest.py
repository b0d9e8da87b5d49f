"""How a run of the tests is spread over processes, retried and resumed; what tests count is printed at its end."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.commands.fullstate import STATE, FullState
from tests.commands.resuming import Resuming
from tests.commands.retries import Retries
from tests.commands.spreading import Spreading, longest_first

# The same examples at every run, and no clock that judges them.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.load_profile("fixed")
COUNTED = "counted"  # the name under which a test records what it counted


def pytest_configure(config: pytest.Config) -> None:
    """Switch retries on, and resuming where `make full` asks for it."""
    config.pluginmanager.register(Retries())
    if folder := os.environ.get(STATE):
        controls = not hasattr(config, "workerinput")
        config.pluginmanager.register(Resuming(FullState(Path(folder)), controls))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Spreading:
    """Return who hands the tests out to the processes."""
    return Spreading(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first."""
    longest_first(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the tests counted."""
    ended: Iterable[pytest.TestReport] = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    for report in ended:
        for name, value in report.user_properties:
            if name == COUNTED:
                terminalreporter.write_line(f"{report.nodeid}: {value}")


@pytest.fixture(scope="module", autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Collect what the tests of a module leave behind in that module.

    A socket that nobody closed is told when it is collected; otherwise that would be in the midst of any later test.
    """
    yield
    gc.collect()

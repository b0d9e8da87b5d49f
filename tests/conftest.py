"""Configure a test run: how tests are spread over processes, retried and resumed, and what is printed at its end."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.commands.failures import Failures
from tests.commands.fullstate import STATE, FullState
from tests.commands.resuming import Resuming
from tests.commands.retries import Retries
from tests.commands.spreading import Spreading, longest_first

# Hypothesis uses the same examples in every run, and no deadlines.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.load_profile("fixed")
COUNTED = "counted"  # A test records its counts in the junit property of this name.


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugins for retries and printed failures, and for resuming if `make full` asks for it."""
    # Only a process without "workerinput" assigns the tests to the others.
    controls = not hasattr(config, "workerinput")
    config.pluginmanager.register(Retries())
    if controls:
        config.pluginmanager.register(Failures(config))
    if folder := os.environ.get(STATE):
        config.pluginmanager.register(Resuming(FullState(Path(folder)), controls))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Spreading:
    """Return the scheduler that assigns tests to processes."""
    return Spreading(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without garbage collections, which would take a quarter of the time and find little."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests so that the seeds of the simulation, which take long, run first."""
    longest_first(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts that tests recorded, such as numbers of faults."""
    ended: Iterable[pytest.TestReport] = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    for report in ended:
        for name, value in report.user_properties:
            if name == COUNTED:
                terminalreporter.write_line(f"{report.nodeid}: {value}")


@pytest.fixture(scope="module", autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Collect garbage after each module.

    A socket that was not closed causes a warning when it is collected. Without this fixture, the warning would appear
    in some later test.
    """
    # Frozen objects are not collected. Otherwise each collection would walk through all imported objects, for a quarter
    # of the time of quick tests.
    gc.freeze()
    yield
    gc.collect()

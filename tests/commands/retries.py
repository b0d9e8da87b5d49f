"""Tests of the real control plane and of the browser are retried once on failure, and every retry is reported.

No other test is retried: a unit test, a property or a seed that fails has a cause in this checkout.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Final

import pytest

from tests.commands.places import RETRIES, head

TRIED_AGAIN: Final = ("tests/browser/", "tests/e2e/")


class Retries:
    """A pytest plugin that marks the tests to be retried, prints each retry at the end of the run, and records it in a
    file.
    """

    def __init__(self, file: Path = RETRIES) -> None:
        self._file = file

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if item.nodeid.startswith(TRIED_AGAIN):
                item.add_marker(pytest.mark.flaky(reruns=1))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        retried = [(report.nodeid, why(report)) for report in terminalreporter.getreports("rerun")]
        # Each process of xdist writes a summary of its own tests, too; these summaries must not count the retries
        # again.
        counts = not hasattr(terminalreporter.config, "workerinput")
        if not retried or not counts:
            return
        terminalreporter.section(f"{len(retried)} tried again, with the first failure of each", sep="-")
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a") as file:
            for test, failure in retried:
                terminalreporter.write_line(f"{test}: {failure}")
                file.write(json.dumps({"at": time.time(), "head": head(), "test": test, "failure": failure}) + "\n")


def why(report: pytest.TestReport) -> str:
    """Return the message of a failure as one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    return " ".join(text.split())[:300]


def retries_since(when: float, file: Path = RETRIES) -> int:
    """Return how many retries the file has since that time, in seconds since the epoch."""
    lines = file.read_text().splitlines() if file.exists() else []
    return sum(json.loads(line)["at"] >= when for line in lines)

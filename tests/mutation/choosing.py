"""A pytest plugin that runs the tests that a file names: those of `make test` first, and the fastest first.

The names come from a file in the folder MUTATION_FOLDER, and the failed test is written there.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import pytest

import policy
from tests.mutation.recording import FOLDER

CHOSEN: Final = "chosen.json"
FAILED: Final = "failed.json"
TIMES: Final = 3  # A test may take this many times as long as on the unchanged code, and so many seconds more.
SECONDS: Final = 10


def most_seconds(seconds: float) -> float:
    """Return how many seconds a test may take that took ``seconds`` on the unchanged code."""
    return TIMES * seconds + SECONDS


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep only the chosen tests, sort them, and set the time limit of each."""
    if not Path(policy.__file__ or "").is_relative_to(config.rootpath):
        raise pytest.UsageError(f"the tests would run {policy.__file__}, and not the changed code in {config.rootpath}")
    chosen = json.loads((Path(os.environ[FOLDER]) / CHOSEN).read_text())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
    items[:] = [item for item in items if item.nodeid in chosen]
    items.sort(key=lambda item: (chosen[item.nodeid]["full"], chosen[item.nodeid]["seconds"]))
    for item in items:
        item.add_marker(pytest.mark.timeout(most_seconds(chosen[item.nodeid]["seconds"])), append=False)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the name of a failed test to the file FAILED."""
    if report.failed:
        (Path(os.environ[FOLDER]) / FAILED).write_text(json.dumps(report.nodeid))

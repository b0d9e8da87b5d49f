"""Assign tests to the processes of a run.

Tests of the real control plane and of the browser wait more than they compute, so several processes run one such file
each at the same time. Two processes run the other tests, and none of those that wait.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

WAITING: Final = ("tests/browser/", "tests/e2e/", "tests/fuzz/")
# Tests in these folders are assigned one by one, because each takes long and shares nothing with the others of its
# file.
SINGLY: Final = ("tests/simulation/",)
COMPUTING_PROCESSES: Final = 2


def waits(group: str) -> bool:
    """Tell whether the tests of a group (a file) wait more than they compute."""
    return group.startswith(WAITING)


class Spreading(LoadScopeScheduling):  # type: ignore[misc] # xdist ships no types
    """Assigns the tests to processes by whole files, so that a module's fixtures are made only once."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        # xdist would start with the files of most tests, but the number of tests says little about how long a file
        # takes.
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(SINGLY) else nodeid.partition("::")[0]

    def _reschedule(self, node: Any) -> None:
        """Give a process that has run all its tests another group, or end it if none is left for it."""
        if node.shutting_down:
            return
        if self._next_for(node) is None:
            node.shutdown()
        elif self._pending_of(self.assigned_work[node]) <= 2:
            self._assign_work_unit(node)

    def _assign_work_unit(self, node: Any) -> None:
        chosen = self._next_for(node)
        if chosen is None:
            node.shutdown()
            return
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)

    def _next_for(self, node: Any) -> str | None:
        """Return the name of the next group of tests for the process, or None.

        A process for tests that wait prefers a group of such tests.
        """
        if self.numnodes <= COMPUTING_PROCESSES:
            return next(iter(self.workqueue), None)
        computes = int(node.gateway.id.removeprefix("gw")) % self.numnodes >= self.numnodes - COMPUTING_PROCESSES
        groups = [group for group in self.workqueue if not (computes and waits(group))]
        return next((group for group in groups if waits(group)), groups[0] if groups else None)


def longest_first(items: list[pytest.Item]) -> None:
    """Put the simulation's seeds, each of which takes long, before the other computing tests, so that none starts
    last.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(SINGLY))

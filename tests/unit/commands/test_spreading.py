"""Two processes run the tests that compute and none that wait; the other processes run those that wait first."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.commands.spreading import Spreading

COLLECTED = [
    *(f"tests/unit/test_{name}.py::test_{k}" for name in "abcd" for k in range(4)),
    *(f"tests/e2e/test_{name}.py::test_{k}" for name in "xyz" for k in range(4)),
    *(f"tests/simulation/test_seeds.py::test_seed[{k}]" for k in range(2)),
]


@dataclass(eq=False)
class Process:
    """A stand-in for a test process: it runs each assigned test at once, and keeps their names in ``taken``."""

    name: str
    taken: list[str] = field(default_factory=list)
    shutting_down: bool = False
    workerinput: dict[str, Any] = field(default_factory=dict)

    @property
    def gateway(self) -> SimpleNamespace:
        return SimpleNamespace(id=self.name)

    def send_runtest_some(self, indices: list[int]) -> None:
        self.taken += [COLLECTED[index] for index in indices]

    def shutdown(self) -> None:
        self.shutting_down = True


def spread(count: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Return the tests that each process takes, by process, when all tests take equally long."""
    monkeypatch.setattr("xdist.scheduler.loadscope.parse_tx_spec_config", lambda config: ["popen"] * count)
    config: Any = SimpleNamespace(option=SimpleNamespace(loadscopereorder=True), get_verbosity=lambda: 0)
    spreading = Spreading(config)
    processes = [Process(f"gw{k}") for k in range(count)]
    for one in processes:
        spreading.add_node(one)
        spreading.add_node_collection(one, COLLECTED)
    spreading.schedule()
    done = dict.fromkeys((one.name for one in processes), 0)
    while any(done[one.name] < len(one.taken) for one in processes):
        for one in processes:
            if done[one.name] < len(one.taken):
                done[one.name] += 1
                spreading.mark_test_complete(one, COLLECTED.index(one.taken[done[one.name] - 1]))
    assert all(one.shutting_down for one in processes)
    return {one.name: one.taken for one in processes}


@pytest.mark.parametrize("count", [1, 2, 3, 6, 20])
def test_every_test_is_run_once_and_the_files_that_wait_stay_whole(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = spread(count, monkeypatch)
    assert sorted(test for one in taken.values() for test in one) == sorted(COLLECTED)
    for name in "xyz":
        assert sum(any(f"test_{name}.py" in test for test in one) for one in taken.values()) == 1


def test_two_of_six_processes_take_nothing_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = spread(6, monkeypatch)
    assert not [test for name in ("gw4", "gw5") for test in taken[name] if test.startswith("tests/e2e")]
    assert all(taken[name][0].startswith("tests/e2e") for name in ("gw0", "gw1", "gw2"))

"""Tests that the papers' experiments decide what digests.json says, and tests of the digests; test_seeds.py compares
the decisions of the seeds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.cluster.actions import Admit, Bind, Migrate, Reject, Released, Remember, Resize
from policy.cluster.job import Slot
from policy.cluster.reasons import Reason
from tests.simulation import digests
from tests.simulation.decisions import EVERY, Decisions, first_difference, marks
from tests.simulation.many import run_seed
from tests.simulation.scenario import POLICIES

SHORT = ("paper kod2-figure-4 1000", "paper drs-equal 1000", "paper dragon-table-1 1000")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", SHORT)
def test_the_decisions_are_those_of_the_file(name: str) -> None:
    _compare([name])


@pytest.mark.full
@pytest.mark.timeout(3 * 3600)
def test_the_decisions_of_all_experiments_are_those_of_the_file() -> None:
    _compare(digests.names_of_papers())


def _compare(names: list[str]) -> None:
    if found := next(digests.differences(names), ""):
        pytest.fail(f"{found}\nwhere that is meant: {digests.UPDATE}", pytrace=False)


def test_the_file_has_a_hundred_seeds_of_each_policy() -> None:
    seeds = [int(name.split()[1]) for name in digests.written() if name.startswith("seed ")]
    assert sorted(seeds) == list(digests.SEEDS)
    assert len(digests.SEEDS) == 100 * len(POLICIES)


def test_a_decision_is_told_by_time_uid_nodes_and_size_alone() -> None:
    first, second = Slot("worker", 0), Slot("worker", 1)
    made = Decisions()
    made.step(2.5, (Admit("a", 2, {second: "n2", first: "n1"}), Resize("b", 3, {}, "a"), Migrate("c", {first: "n3"})))
    made.step(3.0, (Bind("u", "team", "pod", "n1", "plan", first), Reject("d", Reason.NO_ROOM, "why"),
                    Released("a", "plan", Reason.NO_ROOM), Remember("key", 1)))  # fmt: skip
    assert made.lines == [
        "2.500000 a n1,n2 2/", "2.500000 b - 3/", "2.500000 c n3 1", "3.000000 u n1 1", "3.000000 d - 0",
        "3.000000 a - 0",
    ]  # fmt: skip


@pytest.mark.parametrize("at", [0, EVERY - 1, EVERY, 39])
def test_a_difference_is_found_to_sixteen_decisions(at: int) -> None:
    before = [f"{number}" for number in range(40)]
    now = [*before[:at], "other", *before[at + 1 :]]
    found = first_difference(marks(now), marks(before))
    assert found is not None
    assert at in found
    assert "other" in digests.difference("seed 1", now, marks(before))
    assert not digests.difference("seed 1", before, marks(before))


def test_a_decision_that_is_missing_at_the_end_is_found() -> None:
    lines = [f"{number}" for number in range(EVERY)]
    assert "seed 1 differs first" in digests.difference("seed 1", lines[:-1], marks(lines))


def test_a_stopped_run_goes_on_from_its_state(tmp_path: Path) -> None:
    state = tmp_path / "state.jsonl"
    state.write_text('["seed 1", ["3:abc"]]\n["seed 2", ["4')
    assert digests.measured(["seed 1"], state) == {"seed 1": ("3:abc",)}
    found = digests.measured(["paper kod2-figure-4 1000"], state)
    assert digests.measured(list(found), state) == found
    assert len(state.read_text().splitlines()) == 2


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = {"seed 1": ("ab", "17:cd"), "seed 2": ("1:ef",)}
    digests.write(found, tmp_path / "digests.json")
    assert digests.written(tmp_path / "digests.json") == found


def test_a_run_is_compared_with_what_its_seed_decided_before() -> None:
    report = run_seed(1)
    name, other = "seed 1", ("0:other",)
    assert report.marks == marks(digests.decisions_of(1))
    assert not digests.difference_of_run(report, {name: report.marks})
    assert not digests.difference_of_run(report, {"seed 2": other})
    assert "seed 1 differs first among its lines 1 to 16" in digests.difference_of_run(report, {name: other})

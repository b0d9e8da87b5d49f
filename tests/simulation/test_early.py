"""Seeds with ``barrier.commit: first``: no rule is broken, gangs are bound early, and its seeded defects are caught."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.simulation.early import DEFECTS, condition_left_false, early, misreported, run_early
from tests.simulation.mutants import put
from tests.simulation.run import SeedReport
from tests.simulation.scenario import POLICIES, drawn

GATE = range(1, 13)  # `make test` runs these seeds, two of each policy.
BLOCK = 6
MANY = range(13, 601)
# In six seeds, at least this many members without a bind call of their own are bound; there are 100 and more.
LEAST_EARLY = 20


def play(seeds: range) -> tuple[list[SeedReport], int]:
    """Play the seeds, and fail at the first violation."""
    reports, unasked = list[SeedReport](), 0
    for seed in seeds:
        report, early_ones = run_early(seed)
        if report.failure:
            pytest.fail("\n".join([f"early {report.line}", *report.run_log[-400:]]), pytrace=False)
        reports.append(report)
        unasked += early_ones
    return reports, unasked


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", GATE[::BLOCK])
def test_no_early_seed_breaks_an_invariant(first: int) -> None:
    reports, unasked = play(range(first, first + BLOCK))
    assert {report.policy for report in reports} == set(POLICIES)
    assert unasked >= LEAST_EARLY


@pytest.mark.full
@pytest.mark.timeout(5400)
def test_no_early_seed_of_many_breaks_an_invariant() -> None:
    assert play(MANY)[1] > LEAST_EARLY * len(MANY) // BLOCK


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_seeded_defect_of_early_bindings_is_caught(defect: str) -> None:
    found = next(report for seed in GATE if (report := run_early(seed, defect)[0]).violations)
    assert found.violations[0].startswith(("S1: ", "S7: "))


@pytest.mark.parametrize("defect", [False, True], ids=["as it is", "the condition is left"])
def test_a_wrong_condition_of_a_bound_pod_is_set_right(defect: bool) -> None:
    with ExitStack() as stack:
        for owner, name, value in condition_left_false() if defect else ():
            stack.enter_context(put(owner, name, value))
        found = misreported()
    assert found.gangs == 1
    assert found.violations[:1] == (
        ["L11: default/gang-worker-0 is bound, and PodScheduled is False"] if defect else []
    )


def test_the_other_settings_and_the_jobs_are_those_of_the_seed() -> None:
    made, plain = early(5), drawn(5)
    assert (made.settings.barrier.commit, plain.settings.barrier.commit) == ("first", "all")
    assert made.settings.kod2 == plain.settings.kod2
    assert [job.name for job in made.trace.jobs] == [job.name for job in plain.trace.jobs]
    assert {bool(job.volumes) for job in made.trace.jobs} == {True, False}

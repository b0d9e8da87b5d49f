"""Hints on standard error name what a rebalancer lacks in a trace: reports, or jobs that may be migrated."""

import json

import pytest

from lab.study.comparecommand import plan_of
from lab.study.hints import hints
from tests.unit.study.asking import kohort

REPORTS, JOBS = "no job reports (set sim.report_seconds=30)", "no job may be moved (set migratable=true, a parameter"


def told(policies: list[str], traces: list[str], *given: str, pods: bool = False) -> list[str]:
    return hints(plan_of(policies, traces, 0, 1, list(given), pods))


@pytest.mark.parametrize(
    ("policy", "trace", "lacks"),
    [
        ("specon", "kod2,jobs=2", [REPORTS, JOBS]),
        ("drs+specon", "kod2,jobs=2,migratable=true", [REPORTS]),
        ("specon", "kod2,jobs=2,sim.report_seconds=30", [JOBS]),
        ("specon", "kod2,jobs=2,sim.report_seconds=30,migratable=true", []),
        ("guests", "kod2,jobs=2", [JOBS]),
        ("kod2+guests", "kod2,jobs=2,migratable=true", []),
        ("specon", "specon-mixed", []),
        ("specon", "specon-mixed,sim.report_seconds=none", [REPORTS]),
        ("kod2", "kod2,jobs=2", []),
    ],
)
def test_what_is_lacking_is_told_with_what_to_set(policy: str, trace: str, lacks: list[str]) -> None:
    found = told([policy], [trace])
    assert len(found) == bool(lacks)
    for line in found:
        assert line.startswith(f"{policy} moves nothing on {trace}: ")
        assert [one for one in (REPORTS, JOBS) if one in line] == lacks


def test_traces_that_lack_the_same_are_in_one_line() -> None:
    found = told(["specon", "kod2"], ["kod2,jobs=2", "kod2,jobs=3", "specon-mixed"], "sim.report_seconds=30")
    assert [line.partition(": ")[0] for line in found] == ["specon moves nothing on kod2,jobs=2, kod2,jobs=3"]


def test_nobody_reports_pod_by_pod() -> None:
    (line,) = told(["specon"], ["kod2,jobs=2,migratable=true"], pods=True)
    assert line.endswith("no job reports pod by pod (leave --pods out)")


def test_the_line_is_on_standard_error() -> None:
    found = kohort("simulate", "--policy", "specon", "--trace", "kod2,jobs=2", "--json", "-")
    assert found.exit_code == 0
    assert json.loads(found.stdout)["lines"]
    (line,) = [line for line in found.stderr.splitlines() if line.startswith("kohort: warning: specon moves nothing")]
    assert line.endswith("a parameter of the trace)")

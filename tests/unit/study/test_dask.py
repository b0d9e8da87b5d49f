"""``--scheduler``: the same command on a Dask cluster of worker processes gives equal rows."""

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from extender.cli import commands

distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("default::DeprecationWarning")]


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        yield cluster.scheduler_address


def kohort(*arguments: str) -> Result:
    return CliRunner().invoke(commands.app, list(arguments))


COMPARE = (
    "compare",
    "--policy",
    "kod2",
    "--policy",
    "kod2,gate=strict",
    "--trace",
    "kod2",
    "--seeds",
    "4",
    "--json",
    "-",
)


def test_a_comparison_is_equal(scheduler: str) -> None:
    there, here = kohort(*COMPARE, "--scheduler", scheduler), kohort(*COMPARE, "--workers", "1")
    assert there.exit_code == 0, there.output
    assert json.loads(there.output) == json.loads(here.output)


def test_an_experiment_is_equal(scheduler: str) -> None:
    paper = ("paper", "kod2-figure-8", "--seeds", "2", "--json", "-")
    there, here = kohort(*paper, "--scheduler", scheduler), kohort(*paper, "--workers", "1")
    assert json.loads(there.output) == json.loads(here.output)


def test_no_scheduler_is_told() -> None:
    result = kohort(*COMPARE, "--scheduler", "tcp://127.0.0.1:1")
    assert result.exit_code == 2
    assert "kohort: --scheduler: no Dask scheduler answers at 'tcp://127.0.0.1:1'" in result.output


def test_both_ways_at_once_are_refused() -> None:
    result = kohort(*COMPARE, "--scheduler", "tcp://127.0.0.1:1", "--workers", "2")
    assert result.exit_code == 2
    assert result.output.startswith("kohort: --workers and --scheduler: give one of them")

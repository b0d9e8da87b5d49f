"""Step times by placement: measured ones, those interpolated between them, and public tables if they are there."""

from __future__ import annotations

import csv
import os
from dataclasses import replace
from pathlib import Path

import pytest

from lab.sim.fluid.speedmodels import RunningGang
from lab.sim.fluid.step_times import Measured, StepTimes, step_times
from lab.sim.traces.reading import TraceError, numbered
from tests.unit.sim.worlds import spec

# Public data is not shipped; KOHORT_TRACES names its folder, else it lies beside the checkout.
REAL = Path(os.environ.get("KOHORT_TRACES", Path(__file__).parents[4] / "shared" / "data")) / "step_times"
ROWS: list[tuple[str, float, float]] = [
    ("1", 10, 1.0),
    ("1", 20, 1.5),
    ("1", 40, 2.5),
    ("2", 20, 1.6),
    ("4", 20, 2.0),
    ("11", 20, 3.0),
    ("12", 20, 4.0),
    ("21", 20, 5.0),
    ("22", 20, 5.5),
    ("44", 20, 6.5),
]


def table(rows: list[tuple[str, float, float]] | None = None) -> StepTimes:
    named = ({"placement": p, "local_bsz": b, "step_time": t} for p, b, t in rows or ROWS)
    return step_times(numbered(named, "small.csv"))


def rate(*nodes: str, batch: float = 20.0) -> float:
    job = replace(spec(model="m"), local_batch=batch)
    return Measured({"m": table()}).rates({"j": RunningGang(job, nodes, ())}, {})["j"]


def test_a_measured_placement_is_as_measured() -> None:
    assert rate("a") == 1.0
    assert rate("a", "a") == pytest.approx(2 * 1.5 / 1.6)
    assert rate("a", "b") == pytest.approx(2 * 1.5 / 3.0)


def test_a_job_is_read_off_at_its_own_batch() -> None:
    rows = [("1", 10.0, 1.0), ("1", 20.0, 1.5), ("2", 10.0, 2.0), ("2", 20.0, 1.6)]
    table_of = Measured({"m": table(rows)})
    jobs = {
        f"{batch}": RunningGang(replace(spec(model="m"), local_batch=batch), ("a", "a"), ()) for batch in (10, 15, 20)
    }
    found = table_of.rates(jobs, {})
    assert found == pytest.approx({"10": 2 * 1.0 / 2.0, "15": 2 * 1.25 / 1.8, "20": 2 * 1.5 / 1.6})


def test_placements_that_differ_in_order_are_averaged() -> None:
    assert rate("a", "b", "b") == rate("a", "a", "b") == pytest.approx(3 * 1.5 / 4.5)


def test_between_placements_of_as_many_nodes_the_line_counts() -> None:
    assert table().step((3,), 20) == pytest.approx(1.8)
    assert table().step((3, 3), 20) == pytest.approx(6.0)


def test_beyond_the_table_the_nearest_counts() -> None:
    assert table().step((8,), 20) == 2.0
    # six workers over three nodes get the table's row of two nodes
    assert table().step((2, 2, 2), 20) == pytest.approx(6.0)


@pytest.mark.parametrize(("batch", "seconds"), [(5, 1.0), (10, 1.0), (15, 1.25), (30, 2.0), (90, 2.5)])
def test_between_batches_the_line_counts(batch: float, seconds: float) -> None:
    assert table().step((1,), batch) == pytest.approx(seconds)


def test_the_middle_batch_is_taken_where_none_is_named() -> None:
    speeds, gang = Measured({"m": table()}), RunningGang(spec(model="m"), ("a", "a"), ())
    assert speeds.rates({"j": gang}, {})["j"] == rate("a", "a", batch=20.0)


def test_a_model_without_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="model is 'x', must be one of m"):
        Measured({"m": table()}).rates({"j": RunningGang(spec(model="x"), ("a",), ())}, {})


def test_every_faulty_row_is_named() -> None:
    wrong = [*ROWS, ("1x", 10, 1.0), ("10", 10, 1.0), ("11", 0, 1.0), ("11", 10, -1.0)]
    with pytest.raises(TraceError) as told:
        table(wrong)
    assert [fault.split(": ")[:2] for fault in told.value.faults] == [
        ["small.csv, row 11", "placement"],
        ["small.csv, row 12", "placement"],
        ["small.csv, row 13", "local_bsz"],
        ["small.csv, row 14", "step_time"],
    ]


def test_a_table_without_one_worker_alone_is_refused() -> None:
    with pytest.raises(TraceError, match="no row has the value '1'"):
        table([("2", 10, 1.0)])


@pytest.mark.skipif(not REAL.exists(), reason="the public step times are not on this machine")
@pytest.mark.parametrize("model", ["bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"])
def test_the_public_tables_are_read_and_spreading_never_helps_much(model: str) -> None:
    with (REAL / f"{model}.csv").open() as file:
        found = step_times(numbered(csv.DictReader(file), f"{model}.csv"))
    batch = found.middle_batch
    assert found.step((1,), batch) <= found.step((4,), batch) * 1.05 <= found.step((4, 4), batch) * 1.1
    assert found.step((9, 9), batch) > 0

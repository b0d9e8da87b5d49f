"""The log of test runs is read as it was written, and its table has each run and the median duration by load."""

from pathlib import Path

from tests.commands.runs import LoggedRun, note, noted, table


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    log = tmp_path / "kept" / "runs.jsonl"
    assert noted(log) == []
    runs = [LoggedRun("test", "a1", 1_000.0, 480.0, busy, code=0, retries=0) for busy in (0, 2)]
    for run in runs:
        note(run, log)
    assert noted(log) == runs


def test_the_table_has_each_run_and_the_median_by_load() -> None:
    runs = [
        LoggedRun("test", "a1", 0.0, 480.0, busy=0, code=0, retries=0),
        LoggedRun("test", "a1", 600.0, 540.0, busy=0, code=1, retries=2),
        LoggedRun("test", "a1", 1_200.0, 900.0, busy=2, code=0, retries=1),
    ]
    lines = table(runs).splitlines()
    assert lines[2:5] == [
        "| 1970-01-01 00:00 | a1 | 0 | 8.0 | green | 0 |",
        "| 1970-01-01 00:10 | a1 | 0 | 9.0 | red (1) | 2 |",
        "| 1970-01-01 00:20 | a1 | 2 | 15.0 | green | 1 |",
    ]
    assert [line for line in lines[5:] if line] == [
        "2 runs beside 0 busy loops: median 8.5 minutes, most 9.0",
        "1 runs beside 2 busy loops: median 15.0 minutes, most 15.0",
        "2 of 3 green, 3 retries",
    ]

"""The demo as a whole, faster still: the real app, controller and client on the embedded cluster."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from extender import demo, demo_view
from extender.clock import Clock
from policy.sim.objects import Change
from policy.sim.run import simulate
from policy.sim.traces import kod2
from policy.systems import make_policy

SPEED = 120.0
ROW = {"name", "jobs", "finished", "mean_jct_seconds", "makespan_seconds", "utilisation"}


@pytest.mark.slow
async def test_kohort_finishes_all_jobs_and_never_promises_a_node_twice() -> None:
    clock = Clock(SPEED)
    faults: list[str] = []
    async with demo.kohort_side(clock, 1) as side:
        cluster, observe = side.observer.cluster, side.observer.cluster.bridge.observe

        def look(now: float, changes: list[Change]) -> None:
            faults.extend(cluster.world.overcommitted())
            if observe is not None:
                observe(now, changes)

        cluster.bridge.observe = look
        await side.observer.run()
        result = side.observer.result()
    assert faults == []
    assert (result.finished, result.never_finished) == (10, ())
    # The same decisions in virtual time, where nothing takes longer than it should.
    assert result.mean_jct_seconds < 2 * simulate(kod2(1), make_policy("kod2")).mean_jct_seconds


@pytest.mark.slow
def test_the_table_is_written_and_the_default_scheduler_is_left_half_placed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo.run(tmp_path / "demo.json", speed=SPEED, live=False)
    written = json.loads((tmp_path / "demo.json").read_text())
    ours, plain = written["policies"]
    assert (set(ours), set(plain)) == (ROW, ROW)
    assert (ours["name"], ours["jobs"], ours["finished"]) == ("kod2", 10, 10)
    assert (plain["name"], plain["jobs"]) == ("fifo-pod", 10)
    assert plain["finished"] < 10
    assert ours["mean_jct_seconds"] < plain["mean_jct_seconds"]
    shown = capsys.readouterr().out
    assert "is stuck half-placed" in shown
    assert ">= " in shown


def test_a_file_that_cannot_be_written_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        demo.run(tmp_path / "missing" / "demo.json", speed=SPEED, live=False)


@pytest.mark.parametrize("width", [200, 80])
async def test_a_frame_shows_every_job_and_node_at_any_width(width: int) -> None:
    clock = Clock(SPEED)
    async with demo.plain_side(clock, 6) as side:
        cluster = side.observer.cluster
        for spec in cluster.trace.jobs:
            cluster.submit(spec)
        to = Console(width=width, record=True, file=StringIO())
        to.print(demo_view.frame([side], SPEED, width))
        shown = to.export_text()
    assert [name for name in (job.name for job in cluster.trace.jobs) if name not in shown] == []
    assert [name for name in cluster.world.store.nodes if name not in shown] == []


def test_real_delays_do_not_shrink_with_time() -> None:
    fast, slow = demo.settings_for(80), demo.settings_for(1)
    assert fast.barrier.window_seconds / 80 >= 1
    assert slow.barrier.window_seconds == 8

"""The whole demo at a higher speed: the real app, controller and client on the embedded cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from extender.cli import commands
from extender.clock import Clock
from lab.demo import sides as demo
from lab.demo import view as demo_view
from lab.demo.view import DemoSide
from lab.embedded.embeddedcluster import LOOPBACK
from lab.embedded.observer import RunEnding
from lab.embedded.paced import LoopCaller, paced
from lab.sim.objects import WorldChange
from lab.sim.report import JobOutcome, RunResult
from lab.sim.traces import kod2
from lab.virtual.podrun import simulate
from policy.systems import make_policy
from tests.builders import World, job, members

SPEED = 120.0
ROW = {"name", "jobs", "finished", "mean_jct_seconds", "makespan_seconds", "utilisation"}


async def ended(side: DemoSide, ask: LoopCaller) -> RunEnding:
    while not await ask(lambda: side.observer.ended):  # noqa: ASYNC110 - an event of another loop
        await asyncio.sleep(0.01)
    return await ask(side.observer.ending)


def watched(side: DemoSide, faults: list[str]) -> None:
    """Add a fault to ``faults`` whenever a node of this side's cluster is overcommitted."""
    cluster, observe = side.observer.cluster, side.observer.cluster.bridge.observe

    def look(now: float, changes: list[WorldChange]) -> None:
        faults.extend(cluster.world.overcommitted())
        if observe is not None:
            observe(now, changes)

    cluster.bridge.observe = look


def as_simulated(seed: int, jct: float, makespan: float) -> bool:
    """Return whether mean JCT and makespan equal the simulator's, so that time spent on HTTP and decisions did not
    count.
    """
    simulated = simulate(kod2(seed), make_policy("kod2"))
    expected = (simulated.mean_jct_seconds, simulated.makespan_seconds)
    return (jct, makespan) == pytest.approx(expected, rel=1e-5)


async def test_kohort_finishes_all_jobs_as_in_the_simulator_and_never_promises_a_node_twice() -> None:
    faults: list[str] = []
    # faster than any machine can run, so the real work is always late
    async with paced(20_000, partial(demo.kohort_side, seed=1)) as (side, ask):
        await ask(partial(watched, side, faults))
        result = (await ended(side, ask)).result
    assert faults == []
    assert (result.finished, result.never_finished) == (10, ())
    # The simulator runs an event loop of its own, so it needs a thread of its own.
    assert await asyncio.to_thread(as_simulated, 1, result.mean_jct_seconds, result.makespan_seconds)


@pytest.mark.full
def test_the_table_is_written_and_the_default_scheduler_is_left_half_placed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo.run(tmp_path / "demo.json", speed=SPEED, live=False)
    written = json.loads((tmp_path / "demo.json").read_text())
    ours, plain = written["policies"]
    assert (set(ours), set(plain)) == (ROW, ROW)
    assert (ours["name"], ours["jobs"], ours["finished"]) == ("kod2", 10, 10)
    assert (plain["name"], plain["jobs"], plain["finished"]) == ("fifo-pod", 10, 5)
    assert ours["mean_jct_seconds"] < plain["mean_jct_seconds"]
    # In this seed job-0 ends two seconds before job-4 comes, so a small delay would change the mean JCT by a tenth.
    assert as_simulated(demo.SEED, ours["mean_jct_seconds"], ours["makespan_seconds"])
    assert capsys.readouterr().out.count("is stuck half-placed") >= 2


async def plain_run(seed: int, speed: float) -> RunEnding:
    async with paced(speed, partial(demo.plain_side, seed=seed)) as (side, ask):
        return await ended(side, ask)


@pytest.mark.full
@pytest.mark.parametrize(("seed", "finished"), [(2, 5), (6, 5), (7, 10)])
async def test_the_default_scheduler_ends_the_same_way_at_any_speed(seed: int, finished: int) -> None:
    fast, slower = await plain_run(seed, 20_000), await plain_run(seed, 2_000)
    assert fast == slower
    assert fast.result.finished == finished
    assert (fast.stood_still is None) == (finished == 10)


def test_what_never_finished_is_told_and_figures_are_marked_as_bounds() -> None:
    done = JobOutcome("done", arrival=0, started=1, ended=60, finished=True)
    lost = JobOutcome("lost", arrival=0, started=None, ended=3600, finished=False)
    plain = RunEnding(RunResult("fifo-pod", (done, lost), 3600, 0.25, 0.5, 3600), (("lost", 3, 7),), 100)
    ours = RunEnding(RunResult("kod2", (done,), 60, 0.5, 0.5, 3600))
    to = Console(width=120, record=True, file=StringIO())
    demo_view.print_table([ours, plain], 3600, to)
    lines = to.export_text().splitlines()
    assert [line.split() for line in lines[2:4]] == [
        ["kod2", "1", "1", "1:00", "1:00", "50%", "0"],
        ["fifo-pod", "2", "1", ">=", "30:30", ">=", "1:00:00", "25%", "1"],
    ]
    assert "fifo-pod: never finished: lost" in lines
    assert "fifo-pod: lost is stuck half-placed: 3 of 7 pods hold room, none computes" in lines
    assert "fifo-pod: nothing moved after 1:40 at the latest" in lines


def test_a_file_that_cannot_be_written_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        demo.run(tmp_path / "missing" / "demo.json", speed=SPEED, live=False)


def test_a_port_that_is_taken_is_told_before_anything_runs() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = str(taken.getsockname()[1])
        told = CliRunner().invoke(commands.app, ["demo", "--port", port])
    assert told.exit_code == 1
    wanted = f"--port {port}: port {port} of 127.0.0.1 is used by another process; choose a free port, or 0"
    assert wanted in told.stderr


def test_where_nobody_asks_for_a_port_and_the_usual_one_is_taken_another_will_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # another process may use the port already, which serves the test as well
            held.enter_context(socket.create_server((LOOPBACK, 8900)))
        assert demo._usual_port() == 0
    assert "port 8900 of 127.0.0.1 is used by another process: Kohort uses another free port" in capsys.readouterr().out


@pytest.mark.parametrize("width", [200, 80])
async def test_a_frame_shows_every_job_and_node_at_any_width(width: int) -> None:
    clock = Clock(SPEED)
    async with demo.plain_side(clock, 6) as side:
        cluster = side.observer.cluster
        for spec in cluster.trace.jobs:
            cluster.submit(spec)
        to = Console(width=width, record=True, file=StringIO())
        to.print(await demo_view.frame([side], SPEED, width))
        shown = to.export_text()
    assert [name for name in (job.name for job in cluster.trace.jobs) if name not in shown] == []
    assert [name for name in cluster.world.store.nodes if name not in shown] == []


async def test_what_a_task_of_a_side_fails_with_is_told() -> None:
    async def watch() -> None:
        async with paced(SPEED, failing) as (_, ask):
            while True:
                await ask(lambda: None)

    with pytest.raises(ExceptionGroup) as failed:
        await watch()
    assert failed.group_contains(OSError, match="no more nodes")


@asynccontextmanager
async def failing(clock: Clock) -> AsyncIterator[None]:
    async def part() -> None:
        await clock.sleep(1)
        raise OSError("no more nodes")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(part())
        yield


def not_handled(number: int, _: object) -> None:
    raise AssertionError(f"nobody but this test handles signal {number}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_demo_in_good_order(number: signal.Signals) -> None:
    async def shown() -> None:
        demo._end_on_signals()
        signal.raise_signal(number)
        for _ in range(10):  # ten turns of the event loop, so that the signal's callback runs
            await asyncio.sleep(0)

    before = signal.signal(number, not_handled)
    try:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(shown())
    finally:
        signal.signal(number, before)


async def test_a_thread_beside_a_paced_loop_may_ask_for_its_time() -> None:
    async with paced(SPEED, asked_beside) as (times, _):
        before, beside, after = times
    assert before <= beside <= after < before + 60


async def test_the_thread_of_a_paced_loop_does_not_keep_an_ended_process_alive() -> None:
    async with paced(SPEED, its_thread) as (thread, _):
        assert thread is not threading.current_thread()
        assert thread.daemon


@asynccontextmanager
async def its_thread(_: Clock) -> AsyncIterator[threading.Thread]:
    yield threading.current_thread()


@asynccontextmanager
async def asked_beside(clock: Clock) -> AsyncIterator[tuple[float, float, float]]:
    yield clock.now(), await asyncio.to_thread(clock.now), clock.now()


def test_a_gang_with_a_node_for_every_member_is_not_half_placed() -> None:
    world = World().nodes("n1")
    one = job("a").ps().workers(2).done()
    world.submit(one)
    world.see(*members(one))
    gang = world.gang("a")
    assert gang.nodes
    assert demo_view.has_room(one, gang)
    assert not demo_view.has_room(one, replace(gang, nodes=dict(list(gang.nodes.items())[:1])))

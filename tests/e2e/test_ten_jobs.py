"""Tests of starvation, and of ten jobs that the default kube-scheduler deadlocks or scatters, and Kohort does not."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.gangs import own_namespace, submit
from tests.e2e.observer import ClusterObserver
from tests.e2e.tfjobs import TFJob
from tests.e2e.trainer import Trainer, finished
from tests.e2e.waiting import until

pytestmark = pytest.mark.alone
WINDOW = 8.0
TEN = 10
REPEATS = 3


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield three empty nodes of ten cores, as in KOD2's experiments."""
    with ControlPlane.start(workdir=tmp_path_factory.mktemp("tenjobs"), controller_manager=True) as started:
        started.start_scheduler()
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    started = start_kohort(plane, {"kod2": {"cooldown_seconds": 5}})
    yield started
    started.stop()


# Sizes of the ten jobs, each as (cores of a worker, number of workers); a ps has one core, and nodes have ten.
LARGE = ((3, 6), (2, 6), (3, 5), (1, 6), (2, 5), (3, 6), (3, 4), (2, 6), (1, 5), (3, 5))
NODE_SIZED = ((1, 4), (2, 4), (3, 3), (2, 3), (1, 6), (3, 2), (2, 4), (1, 5), (2, 4), (1, 8))


def ten_jobs(namespace: str, scheduler: str, sizes: tuple[tuple[int, int], ...]) -> list[TFJob]:
    """Return ten jobs of one ps and several workers, a small version of KOD2's experiment."""
    return [
        TFJob(namespace, f"job-{n}", workers=most, least=1 + n % 2, most=most, worker_cpu=str(cpu), scheduler=scheduler)
        for n, (cpu, most) in enumerate(sizes)
    ]


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of ten jobs under one scheduler: finished jobs, and bound members of jobs that are half bound.

    Also the longest time half bound in seconds, and the number of ps-worker pairs on different nodes.
    """

    finished: int
    stuck: dict[str, int]
    partial_seconds: float
    cross_pairs: int


def run_ten(
    plane: ControlPlane,
    name: str,
    scheduler: str,
    sizes: tuple[tuple[int, int], ...],
    *,
    computes: float,
    limit: float,
) -> Run:
    """Submit ten jobs, one per second, and wait for their end, for at most ``limit`` seconds.

    Each job computes for ``computes`` seconds once all its members run.
    """
    with (
        own_namespace(plane, name) as namespace,
        ClusterObserver(plane, namespace) as observer,
        Trainer(plane, namespace, seconds=computes),
    ):
        jobs = ten_jobs(namespace, scheduler, sizes)
        for job in jobs:
            submit(plane, job)
            time.sleep(1)
        deadline = time.monotonic() + limit
        while len(finished(plane, namespace)) < TEN and time.monotonic() < deadline:
            time.sleep(0.5)
        done = finished(plane, namespace)
        bound = {job.name: len(observer.bound_now(job.name)) for job in jobs if job.name not in done}
    stuck = {job.name: bound[job.name] for job in jobs if 0 < bound.get(job.name, 0) < job.ps + job.workers}
    longest = max(observer.partial_seconds(job.name, job.ps + (job.least or 0)) for job in jobs)
    run = Run(len(done), stuck, longest, observer.cross_node_pairs(observer.jobs()))
    print(f"{name}: {run}")
    return run


def test_ten_jobs_finish_whole_where_the_plain_scheduler_deadlocks(plane: ControlPlane, kohort: Kohort) -> None:
    ours = run_ten(plane, "large-kohort", "kohort", LARGE, computes=8, limit=240)
    plain = run_ten(plane, "large-plain", "default-scheduler", LARGE, computes=8, limit=25)
    assert ours.finished == TEN
    assert ours.partial_seconds <= WINDOW
    # Under the default scheduler, half bound jobs hold each other's room, and none of them can ever start.
    assert plain.finished < TEN
    assert len(plain.stuck) >= 2


@pytest.mark.timeout(900)
def test_ps_and_workers_are_together_where_the_plain_scheduler_scatters_them(
    plane: ControlPlane, kohort: Kohort
) -> None:
    ratios = []
    for repeat in range(REPEATS):
        ours = run_ten(plane, f"small-kohort-{repeat}", "kohort", NODE_SIZED, computes=4, limit=240)
        plain = run_ten(plane, f"small-plain-{repeat}", "default-scheduler", NODE_SIZED, computes=4, limit=15)
        assert ours.finished == TEN
        ratios.append(ours.cross_pairs / plain.cross_pairs)
    print(f"cross-node ps-worker pairs, kohort to plain: {ratios}, median {statistics.median(ratios):.2f}")
    assert statistics.median(ratios) <= 0.2


STARVE = 15.0


@pytest.fixture
def impatient(plane: ControlPlane, kohort: Kohort) -> Iterator[None]:
    """Replace the module's Kohort by one with a starvation limit of 15 s for the test."""
    kohort.stop()
    started = start_kohort(plane, {"kod2": {"cooldown_seconds": 5, "starve_limit_seconds": STARVE}}, name="impatient")
    yield
    started.stop()
    for part in (kohort.extender, kohort.controller, kohort.scheduler):
        part.start()
    kohort.wait_ready()


@pytest.mark.parametrize("kind", ["a light job under heavy ones", "a large gang under small ones"])
def test_nobody_starves(plane: ControlPlane, kohort: Kohort, impatient: None, space: str, kind: str) -> None:
    """Jobs that come before the waiting job keep arriving and take all room; it still starts soon after STARVELIMIT."""
    run = 5.0
    light = "light" in kind
    victim = TFJob(space, "waits", workers=2 if light else 24, utility="0.001" if light else "1")
    with ClusterObserver(plane, space) as observer, Trainer(plane, space, seconds=run):
        stream = [TFJob(space, f"s-{n}", workers=8 if light else 2, utility="100" if light else "1") for n in range(40)]
        for job in stream[:4]:
            submit(plane, job)
        until(lambda: len(observer.bound_now("s-0")) > 0, "the stream runs")
        submit(plane, victim)
        began, sent = time.monotonic(), 4
        while len(observer.bound_now("waits")) < victim.workers + 1:
            waited = time.monotonic() - began
            assert waited < STARVE + run + 12, f"waits for {waited:.0f} s"
            if sent < len(stream) and sent < 4 + waited * (1.0 if light else 2.0):
                submit(plane, stream[sent])
                sent += 1
            time.sleep(0.1)
        print(
            f"{kind}: started after {time.monotonic() - began:.1f} s (STARVELIMIT {STARVE:.0f} s, runs of {run:.0f} s)"
        )

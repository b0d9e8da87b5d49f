"""The main job (issue "The main job, for real", a to c): whole, together, shrunk for a heavier job, grown back."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.gangs import empty, submit, until
from tests.e2e.observer import Observer
from tests.e2e.tfjobs import TFJOBS, TFJob
from tests.e2e.trainer import Trainer

WINDOW = 8.0
TEN = 10
REPEATS = 3
Json = dict[str, Any]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this file's own: three empty nodes of KOD2's shape."""
    with ControlPlane.start(workdir=tmp_path_factory.mktemp("mainjob"), controller_manager=True) as started:
        started.start_scheduler()
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    started = start_kohort(plane, {"kod2": {"cooldown_seconds": 5}})
    yield started
    started.stop()


def finished(plane: ControlPlane, namespace: str) -> set[str]:
    jobs = plane.api.get(TFJOBS.format(namespace=namespace))["items"]
    return {
        job["metadata"]["name"]
        for job in jobs
        if any(c["type"] == "Succeeded" and c["status"] == "True" for c in job.get("status", {}).get("conditions", []))
    }


def explained(kohort: Kohort, job: TFJob) -> Json:
    """What ``kohort explain`` says."""
    answer: Json = kohort.get(f"/v1/explain/{job.namespace}/{job.name}")
    return answer


def is_bound(observer: Observer, job: TFJob) -> bool:
    """Whether all members are bound at this moment."""
    return len(observer.bound_now(job.name)) == job.ps + job.workers


def workers_of(plane: ControlPlane, job: TFJob) -> int:
    return int(plane.api.get(job.path)["spec"]["tfReplicaSpecs"]["Worker"]["replicas"])


# Cores of a worker, and workers; a ps has one core. Nodes have ten.
LARGE = ((3, 6), (2, 6), (3, 5), (1, 6), (2, 5), (3, 6), (3, 4), (2, 6), (1, 5), (3, 5))
NODE_SIZED = ((1, 4), (2, 4), (3, 3), (2, 3), (1, 6), (3, 2), (2, 4), (1, 5), (2, 4), (1, 8))


def ten_jobs(namespace: str, scheduler: str, sizes: tuple[tuple[int, int], ...]) -> list[TFJob]:
    """KOD2's experiment in small: ten jobs of one ps and several workers of different size."""
    return [
        TFJob(namespace, f"job-{n}", workers=most, least=1 + n % 2, most=most, worker_cpu=str(cpu), scheduler=scheduler)
        for n, (cpu, most) in enumerate(sizes)
    ]


@dataclass(frozen=True, slots=True)
class Run:
    """What the observer saw of ten jobs under one scheduler."""

    finished: int
    stuck: dict[str, int]
    partial_seconds: float
    cross_pairs: int


def run_ten(
    plane: ControlPlane,
    namespace: str,
    scheduler: str,
    sizes: tuple[tuple[int, int], ...],
    *,
    computes: float,
    limit: float,
) -> Run:
    """One every second; each computes for ``computes`` seconds once it is whole. Ends with the last."""
    jobs = ten_jobs(namespace, scheduler, sizes)
    plane.kubectl("create", "namespace", namespace)
    with Observer(plane, namespace) as observer, Trainer(plane, namespace, seconds=computes):
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
    print(f"{namespace}: {run}")
    empty(plane, namespace)
    return run


@pytest.mark.timeout(400)
def test_ten_jobs_finish_whole_where_the_plain_scheduler_deadlocks(plane: ControlPlane, kohort: Kohort) -> None:
    ours = run_ten(plane, "large-kohort", "kohort", LARGE, computes=8, limit=240)
    plain = run_ten(plane, "large-plain", "default-scheduler", LARGE, computes=8, limit=25)
    assert ours.finished == TEN
    assert ours.partial_seconds <= WINDOW
    # The same submission under the plain scheduler: jobs that hold room, and none of them can ever start.
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


def test_pods_that_a_finished_job_keeps_are_shown_as_room_held(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    """With cleanPodPolicy None, the operator's default: the ps runs on after success, and the room is not free."""
    job = TFJob(space, "keeps", workers=1, ps_cpu="2", clean="None")
    with Trainer(plane, space, seconds=1):
        submit(plane, job)
        until(lambda: finished(plane, space) == {"keeps"}, "the job finished", 40)
    until(lambda: explained(kohort, job)["state"] == "completed", "the ledger saw it end", 10)
    text = str(explained(kohort, job))
    print(text)
    assert "cleanPodPolicy" in text
    assert "keeps-ps-0" in str(kohort.get("/v1/nodes"))


def test_one_node_takes_the_whole_gang(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    with Observer(plane, space) as observer:
        for n in range(3):
            submit(plane, TFJob(space, f"one-{n}", workers=4, worker_cpu="2"))
        until(lambda: all(len(observer.bound_now(f"one-{n}")) == 5 for n in range(3)), "all bound", 30)
        for n in range(3):
            assert len({s.node for s in observer.bound_now(f"one-{n}")}) == 1


def test_a_heavier_job_takes_room_and_gives_it_back(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    with Observer(plane, space) as observer:
        light = [
            submit(plane, TFJob(space, f"light-{n}", workers=8, least=2, most=8, worker_cpu="1")) for n in range(3)
        ]
        until(lambda: all(len(observer.bound_now(job.name)) == 9 for job in light), "the light jobs full", 40)
        heavy = submit(plane, TFJob(space, "heavy", workers=8, least=8, most=8, worker_cpu="1", utility="100"))
        took = until(lambda: len(observer.bound_now("heavy")) == 9, "the heavy job bound", 40)
        left = {job.name: workers_of(plane, job) for job in light}
        print(f"heavy job bound {took:.1f} s after its creation; light jobs at {left}")
        assert sum(left.values()) < 24
        assert min(left.values()) >= 2
        assert all(observer.deleted(job.name, "ps") == 0 for job in light)
        plane.api.delete(heavy.path)
        until(lambda: all(len(observer.bound_now(job.name, "worker")) == 8 for job in light), "grown back", 60)


def test_one_node_takes_the_whole_gang_on_mixed_nodes(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    """A node of 20 cores, two of 6, two of 10 cordoned: each gang goes to one node that takes all of it."""
    plane.kubectl("cordon", "node-1", "node-2")
    added = [*plane.add_nodes(NodeShape(count=1, cpu="20"), "big"), *plane.add_nodes(NodeShape(2, "6"), "small")]
    try:
        with Observer(plane, space) as observer:
            for name, cpu, workers in (("wide", "3", 6), ("middle", "2", 4), ("slim", "1", 4)):
                job = submit(plane, TFJob(space, name, workers=workers, worker_cpu=cpu))
                until(partial(is_bound, observer, job), f"{name} bound", 30)
            nodes = {name: {s.node for s in observer.bound_now(name)} for name in ("wide", "middle", "slim")}
        assert nodes == {"wide": {"big-0"}, "middle": {"node-0"}, "slim": nodes["slim"]}
        assert len(nodes["slim"]) == 1
        assert nodes["slim"] <= {"small-0", "small-1"}
    finally:
        empty(plane, space)
        plane.kubectl("delete", "node", *added)
        plane.kubectl("uncordon", "node-1", "node-2")


STARVE = 15.0


@pytest.fixture
def impatient(plane: ControlPlane, kohort: Kohort) -> Iterator[None]:
    """STARVELIMIT of a few seconds, in a Kohort of this test's own."""
    kohort.stop()
    started = start_kohort(plane, {"kod2": {"cooldown_seconds": 5, "starve_limit_seconds": STARVE}}, name="impatient")
    yield
    started.stop()
    for part in (kohort.extender, kohort.controller, kohort.scheduler):
        part.start()
    kohort.wait_ready()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", ["a light job under heavy ones", "a large gang under small ones"])
def test_nobody_starves(plane: ControlPlane, kohort: Kohort, impatient: None, space: str, kind: str) -> None:
    """A stream of jobs that come first fills every gap; the one that waits starts by STARVELIMIT and one run more."""
    run = 5.0
    light = "light" in kind
    victim = TFJob(space, "waits", workers=2 if light else 24, utility="0.001" if light else "1")
    with Observer(plane, space) as observer, Trainer(plane, space, seconds=run):
        stream = [TFJob(space, f"s-{n}", workers=8 if light else 2, utility="100" if light else "1") for n in range(40)]
        for job in stream[:4]:
            submit(plane, job)
        until(lambda: len(observer.bound_now("s-0")) > 0, "the stream runs", 30)
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

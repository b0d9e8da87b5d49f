"""The main job (issue "The main job, for real", a to c): whole, together, shrunk for a heavier job, grown back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.observer import Observer
from tests.e2e.tfjobs import TFJOBS, TFJob
from tests.e2e.trainer import Trainer

WINDOW = 8.0
TEN = 10
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


@pytest.fixture
def space(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own; afterwards it is emptied, so that the next test finds empty nodes."""
    name = request.node.name.replace("_", "-")[:50].strip("-")
    plane.kubectl("create", "namespace", name)
    yield name
    plane.kubectl("delete", "tfjobs,pods", "--all", "-n", name, "--wait=true", "--timeout=60s")


def until(look: Callable[[], bool], what: str, limit: float = 60) -> float:
    """Wait for ``look()``; return the seconds it took."""
    began = time.monotonic()
    while not look():
        assert time.monotonic() - began < limit, f"not {what} within {limit} s"
        time.sleep(0.1)
    return time.monotonic() - began


def finished(plane: ControlPlane, namespace: str) -> set[str]:
    jobs = plane.api.get(TFJOBS.format(namespace=namespace))["items"]
    return {
        job["metadata"]["name"]
        for job in jobs
        if any(c["type"] == "Succeeded" and c["status"] == "True" for c in job.get("status", {}).get("conditions", []))
    }


def workers_of(plane: ControlPlane, job: TFJob) -> int:
    return int(plane.api.get(job.path)["spec"]["tfReplicaSpecs"]["Worker"]["replicas"])


def submit(plane: ControlPlane, job: TFJob) -> TFJob:
    plane.api.create(TFJOBS.format(namespace=job.namespace), job.manifest())
    return job


def ten_jobs(namespace: str, scheduler: str) -> list[TFJob]:
    """KOD2's experiment in small: ten jobs of one ps and several workers of different size."""
    sizes = [(1, 4), (2, 4), (3, 4), (2, 5), (1, 6), (3, 4), (2, 4), (1, 5), (2, 6), (3, 5)]
    return [
        TFJob(namespace, f"job-{n}", workers=most, least=1 + n % 2, most=most, worker_cpu=str(cpu), scheduler=scheduler)
        for n, (cpu, most) in enumerate(sizes)
    ]


def run_ten(plane: ControlPlane, namespace: str, scheduler: str, limit: float) -> tuple[Observer, set[str]]:
    jobs = ten_jobs(namespace, scheduler)
    with Observer(plane, namespace) as observer, Trainer(plane, namespace, seconds=5):
        for job in jobs:
            submit(plane, job)
            time.sleep(1)
        deadline = time.monotonic() + limit
        while len(finished(plane, namespace)) < TEN and time.monotonic() < deadline:
            time.sleep(0.5)
    return observer, finished(plane, namespace)


@pytest.mark.timeout(300)
def test_ten_jobs_all_finish_and_none_is_ever_partly_bound(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    observer, done = run_ten(plane, space, "kohort", limit=150)
    partial = {job.name: observer.partial_seconds(job.name, 1 + (job.least or 0)) for job in ten_jobs(space, "kohort")}
    print(f"kohort: {len(done)} of {TEN} finished; longest partly bound {max(partial.values()):.2f} s; "
          f"cross-node pairs {observer.cross_node_pairs(observer.jobs())}")  # fmt: skip
    assert len(done) == TEN
    assert max(partial.values()) <= WINDOW, partial


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

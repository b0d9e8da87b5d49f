"""Tests that a gang is bound whole, gives workers to a heavier job, and grows back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.gangs import empty, submit
from tests.e2e.observer import ClusterObserver
from tests.e2e.tfjobs import TFJob
from tests.e2e.trainer import Trainer, finished
from tests.e2e.waiting import until

Json = dict[str, Any]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield a control plane with three empty nodes of ten cores, as in KOD2's experiments."""
    with ControlPlane.start(workdir=tmp_path_factory.mktemp("mainjob"), controller_manager=True) as started:
        started.start_scheduler()
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    started = start_kohort(plane, {"kod2": {"cooldown_seconds": 5}})
    yield started
    started.stop()


def explained(kohort: Kohort, job: TFJob) -> Json:
    """Return the answer of ``kohort explain``."""
    answer: Json = kohort.get(f"/v1/explain/{job.namespace}/{job.name}")
    return answer


def is_bound(observer: ClusterObserver, job: TFJob) -> bool:
    """Tell whether all members are bound now."""
    return len(observer.bound_now(job.name)) == job.ps + job.workers


def workers_of(plane: ControlPlane, job: TFJob) -> int:
    return int(plane.api.get(job.path)["spec"]["tfReplicaSpecs"]["Worker"]["replicas"])


@pytest.mark.full
def test_pods_that_a_finished_job_keeps_are_shown_as_room_held(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    """With cleanPodPolicy None, the ps runs on after the job has succeeded, and REST names it and the policy."""
    job = TFJob(space, "keeps", workers=1, ps_cpu="2", clean="None")
    with Trainer(plane, space, seconds=1):
        submit(plane, job)
        until(lambda: finished(plane, space) == {"keeps"}, "the job finished")
    until(lambda: explained(kohort, job)["state"] == "completed", "the ledger saw it end")
    text = str(explained(kohort, job))
    print(text)
    assert "cleanPodPolicy" in text
    assert "keeps-ps-0" in str(kohort.get("/v1/nodes"))


def test_one_node_takes_the_whole_gang(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    with ClusterObserver(plane, space) as observer:
        for n in range(3):
            submit(plane, TFJob(space, f"one-{n}", workers=4, worker_cpu="2"))
        until(lambda: all(len(observer.bound_now(f"one-{n}")) == 5 for n in range(3)), "all bound")
        for n in range(3):
            assert len({s.node for s in observer.bound_now(f"one-{n}")}) == 1


def test_a_heavier_job_takes_room_and_gives_it_back(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    with ClusterObserver(plane, space) as observer:
        light = [
            submit(plane, TFJob(space, f"light-{n}", workers=8, least=2, most=8, worker_cpu="1")) for n in range(3)
        ]
        until(lambda: all(len(observer.bound_now(job.name)) == 9 for job in light), "the light jobs full")
        heavy = submit(plane, TFJob(space, "heavy", workers=8, least=8, most=8, worker_cpu="1", utility="100"))
        took = until(lambda: len(observer.bound_now("heavy")) == 9, "the heavy job bound")
        left = {job.name: workers_of(plane, job) for job in light}
        print(f"heavy job bound {took:.1f} s after its creation; light jobs at {left}")
        assert sum(left.values()) < 24
        assert min(left.values()) >= 2
        assert all(observer.deleted(job.name, "ps") == 0 for job in light)
        plane.api.delete(heavy.path)
        until(lambda: all(len(observer.bound_now(job.name, "worker")) == 8 for job in light), "grown back")


@pytest.mark.full
def test_one_node_takes_the_whole_gang_on_mixed_nodes(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    """The usable nodes have 20, 10, 6 and 6 cores; each of three gangs of different size gets one node for itself."""
    plane.kubectl("cordon", "node-1", "node-2")
    added = [*plane.add_nodes(NodeShape(count=1, cpu="20"), "big"), *plane.add_nodes(NodeShape(2, "6"), "small")]
    try:
        with ClusterObserver(plane, space) as observer:
            for name, cpu, workers in (("wide", "3", 6), ("middle", "2", 4), ("slim", "1", 4)):
                job = submit(plane, TFJob(space, name, workers=workers, worker_cpu=cpu))
                until(partial(is_bound, observer, job), f"{name} bound")
            nodes = {name: {s.node for s in observer.bound_now(name)} for name in ("wide", "middle", "slim")}
        assert nodes == {"wide": {"big-0"}, "middle": {"node-0"}, "slim": nodes["slim"]}
        assert len(nodes["slim"]) == 1
        assert nodes["slim"] <= {"small-0", "small-1"}
    finally:
        empty(plane, space)
        plane.kubectl("delete", "node", *added)
        plane.kubectl("uncordon", "node-1", "node-2")

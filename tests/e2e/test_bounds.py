"""A job that states one bound only: the other is what it asked for at first, also after Kohort has resized it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.gangs import until
from tests.e2e.observer import Observer
from tests.e2e.tfjobs import TFJOBS, TFJob

MAX_WORKERS = "kohort.dev/max-workers"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this file's own: three empty nodes of ten cores."""
    with ControlPlane.start(workdir=tmp_path_factory.mktemp("bounds"), controller_manager=True) as started:
        started.start_scheduler()
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    started = start_kohort(plane, {"kod2": {"cooldown_seconds": 3}})
    yield started
    started.stop()


def submit(plane: ControlPlane, job: TFJob) -> TFJob:
    plane.api.create(TFJOBS.format(namespace=job.namespace), job.manifest())
    return job


def test_a_job_with_a_minimum_only_shrinks_and_grows_back_to_what_it_asked_for(
    plane: ControlPlane, kohort: Kohort
) -> None:
    plane.kubectl("create", "namespace", "one-bound")
    with Observer(plane, "one-bound") as observer:
        light = submit(plane, TFJob("one-bound", "light", workers=20, least=2))
        until(lambda: len(observer.bound_now("light")) == 21, "the light job whole")
        heavy = submit(plane, TFJob("one-bound", "heavy", workers=18, utility="100"))
        until(lambda: len(observer.bound_now("heavy")) == 19, "the heavier job bound")
        shrunk = plane.api.get(light.path)
        assert 2 <= shrunk["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] < 20
        assert shrunk["metadata"]["annotations"][MAX_WORKERS] == "20"
        plane.api.delete(heavy.path)
        until(lambda: len(observer.bound_now("light")) == 21, "grown back")
    assert plane.api.get(light.path)["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 20


def test_a_job_that_asks_for_fewer_workers_than_its_minimum_is_given_them(plane: ControlPlane, kohort: Kohort) -> None:
    plane.kubectl("create", "namespace", "too-few")
    with Observer(plane, "too-few") as observer:
        submit(plane, TFJob("too-few", "few", workers=1, least=3, most=3))
        until(lambda: len(observer.bound_now("few")) == 4, "the job bound at its minimum")

"""Tests of bounds that users set, of their edits of a running job, and of the Events that they get."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.asking import job_view, nodes_of, reason
from tests.e2e.gangs import failed, submit
from tests.e2e.observer import ClusterObserver
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

MAX_WORKERS = "kohort.dev/max-workers"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield a control plane with three empty nodes of ten cores."""
    with ControlPlane.start(workdir=tmp_path_factory.mktemp("bounds"), controller_manager=True) as started:
        started.start_scheduler()
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    started = start_kohort(plane, {"kod2": {"cooldown_seconds": 3}})
    yield started
    started.stop()


def told(plane: ControlPlane, job: TFJob) -> set[str]:
    """Return the notes of the Events about edits of the job."""
    events = plane.api.get(f"/apis/events.k8s.io/v1/namespaces/{job.namespace}/events")["items"]
    return {e["note"] for e in events if (e["regarding"]["name"], e["reason"]) == (job.name, "Edited")}


def has(kohort: Kohort, observer: ClusterObserver, job: TFJob, workers: int) -> bool:
    """Tell whether bound workers, Kohort's target and the object's replicas are all equal to ``workers``.

    Only then does Kohort recognise the next edit of the replicas as an edit.
    """
    view = job_view(kohort, job)
    return len(observer.bound_now(job.name, "worker")) == view.get("workers") == view.get("replicas") == workers


def edit_replicas(plane: ControlPlane, job: TFJob, workers: int) -> None:
    plane.api.patch(job.path, {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": workers}}}})


def test_a_job_with_a_minimum_only_shrinks_and_grows_back_to_what_it_asked_for(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    with ClusterObserver(plane, space) as observer:
        light = submit(plane, TFJob(space, "light", workers=20, least=2))
        until(lambda: len(observer.bound_now("light")) == 21, "the light job whole")
        heavy = submit(plane, TFJob(space, "heavy", workers=18, utility="100"))
        until(lambda: len(observer.bound_now("heavy")) == 19, "the heavier job bound")
        shrunk = plane.api.get(light.path)
        assert 2 <= shrunk["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] < 20
        assert shrunk["metadata"]["annotations"][MAX_WORKERS] == "20"
        plane.api.delete(heavy.path)
        until(lambda: len(observer.bound_now("light")) == 21, "grown back")
    assert plane.api.get(light.path)["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 20


def test_a_job_that_asks_for_fewer_workers_than_its_minimum_is_given_them(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    with ClusterObserver(plane, space) as observer:
        submit(plane, TFJob(space, "few", workers=1, least=3, most=3))
        until(lambda: len(observer.bound_now("few")) == 4, "the job bound at its minimum")


def test_what_a_person_sets_on_a_running_job_is_respected_or_set_back_and_told(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    """A user's lower number of workers and lower maximum are respected.

    A higher number of workers is set back, because only the policy grows a job.
    """
    # The job is small enough to run beside the other tests' jobs.
    job = TFJob(space, "train", workers=2, least=1, most=6, worker_cpu="100m", ps_cpu="100m")
    with ClusterObserver(plane, space) as observer:
        submit(plane, job)
        until(lambda: has(kohort, observer, job, 6), "grown to its maximum")

        edit_replicas(plane, job, 5)
        until(lambda: "somebody has changed workers from 6 to 5: the change stays" in told(plane, job), "an Event")
        until(lambda: observer.deleted("train", "worker") == 1, "one worker gone")

        plane.api.patch(job.path, {"metadata": {"annotations": {MAX_WORKERS: "4"}}})
        until(lambda: "somebody has changed max-workers from 6 to 4: the change stays" in told(plane, job), "an Event")
        until(lambda: has(kohort, observer, job, 4), "at its new maximum")

        edit_replicas(plane, job, 5)
        set_back = "somebody has changed workers from 4 to 5: it is set back, since only the policy adds workers"
        until(lambda: set_back in told(plane, job), "an Event")
        until(lambda: has(kohort, observer, job, 4), "set back")
        assert observer.deleted("train", "ps") == 0


def test_the_room_of_a_ps_that_a_person_takes_out_is_the_next_jobs(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    """A user lowers the number of ps; the operator deletes one ps, and the next job gets its room."""
    first = TFJob(space, "first", ps=3, workers=1, ps_cpu="8", worker_cpu="100m")
    second = TFJob(space, "second", ps=1, workers=1, ps_cpu="8", worker_cpu="100m")
    with ClusterObserver(plane, space) as observer:
        submit(plane, first)
        until(lambda: len(observer.bound_now("first")) == 4, "the first job whole")
        submit(plane, second)
        until(lambda: reason(kohort, second), "the second one waits")
        plane.api.patch(first.path, {"spec": {"tfReplicaSpecs": {"PS": {"replicas": 2}}}})
        until(lambda: len(observer.bound_now("second")) == 2, "the second job whole")
        if failed(plane, first):
            pytest.skip(
                "the operator has taken the ps that went for a failure of the job, which it may (docs/jobkinds.md)"
            )
        assert len(observer.bound_now("first")) == 3
        assert job_view(kohort, first)["state"] == "running"


def test_decisions_are_events_on_the_job(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    job = submit(plane, TFJob(space, "told", workers=2))
    until(lambda: len(nodes_of(plane, space, job.name)) == 3, "bound")

    def events() -> list[str]:
        found = plane.api.get(f"/apis/events.k8s.io/v1/namespaces/{space}/events")["items"]
        return [item["reason"] for item in found if item["regarding"]["kind"] == "TFJob" and "kohort" in
                item["reportingController"]]  # fmt: skip

    until(lambda: sorted(events()) == ["Bound", "Planned"], "told", seen=events)

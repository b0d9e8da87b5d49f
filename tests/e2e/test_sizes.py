"""Tests of gangs with 1, 5, 100 and 1,000 members, and of one that is larger than the settings admit."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import job_view, nodes_of, pods, reason
from tests.e2e.gangs import create_pod, fresh_kohort, lone_pod, no_operator, operator_pods, submit, window
from tests.e2e.observer import ClusterObserver
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

WINDOW = 30.0
CREATORS = 8  # So many requests at once are as fast as the API server takes them.


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield twelve large nodes, with room for 1,200 pods."""
    shape = NodeShape(count=12, cpu="110", memory="512Gi", gpu=0)
    with ControlPlane.start(shape, workdir=tmp_path_factory.mktemp("sizes"), controller_manager=True) as started:
        yield started


@pytest.fixture(scope="class")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    """Yield a Kohort whose barrier window is long enough for 1,000 members even on a slow and busy machine."""
    with fresh_kohort(plane, window(WINDOW), "wide") as started:
        yield started


def say(members: int, seconds: float) -> None:
    print(f"{members} members bound {seconds:.2f} s after the last was created: {members / seconds:.0f} pods/s")


def test_the_largest_gang_is_said_at_the_start_and_a_larger_one_waits(plane: ControlPlane, space: str) -> None:
    """A window of 8 s at 2 pods/s admits 16 members and not 17; the log of the start says so."""
    kohort_settings = window(8, pods_per_second=2)
    with fresh_kohort(plane, kohort_settings, "narrow") as kohort, ClusterObserver(plane, space) as observer:
        log = kohort.extender.log.read_text()
        assert '"largest_gang":16' in log.replace(" ", "") or "has 16 members" in log
        large = submit(plane, TFJob(space, "large", workers=16))
        small = submit(plane, TFJob(space, "small", workers=15))
        until(lambda: len(observer.bound_now(small.name)) == 16, "the gang of 16 bound")
        until(lambda: len(pods(plane, space, large.name)) == 17, "all pods of the larger one created")
        until(lambda: reason(kohort, large) == "GangExceedsWindow", "the reason said")
        assert (
            job_view(kohort, large)["waits"]["detail"]
            == "it has 17 members, and the largest gang that can be bound has 16"
        )
        until(lambda: _told(plane, space, large.name, 17), "the reason on every pod")
        assert observer.most_bound(large.name) == observer.most_bound(large.name, "ps") == 0


def _told(plane: ControlPlane, namespace: str, job: str, members: int) -> bool:
    """Tell whether the job has all its pods and each is gated, or says that the gang is too large for the barrier."""
    text = "the gang has more members than kube-scheduler can schedule while the barrier holds their binds"
    found = [pod["status"].get("conditions", []) for pod in pods(plane, namespace, job)]
    told = [any(text in c.get("message", "") or c["reason"] == "SchedulingGated" for c in seen) for seen in found]
    return len(told) == members and all(told)


class TestWide:
    """Tests with one Kohort whose settings admit gangs of a thousand members."""

    def test_a_lone_pod_is_a_gang_of_one(self, plane: ControlPlane, kohort: Kohort, space: str) -> None:
        create_pod(plane, space, lone_pod("alone"))
        say(1, until(lambda: nodes_of(plane, space), "bound"))
        until(lambda: job_view(kohort, TFJob(space, "alone")).get("state") == "running", "known as running")

    @pytest.mark.parametrize("members", [5, 100])
    def test_a_gang_from_the_operator_binds_whole(
        self, plane: ControlPlane, kohort: Kohort, space: str, members: int
    ) -> None:
        with ClusterObserver(plane, space) as observer:
            job = submit(plane, TFJob(space, "gang", workers=members - 1))
            until(lambda: len(pods(plane, space)) == members, "created")
            say(members, until(lambda: len(observer.bound_now(job.name)) == members, "bound"))
            assert observer.partial_seconds(job.name, members) <= WINDOW
        until(lambda: job_view(kohort, job).get("state") == "running", "known as running")
        assert len({s.node for s in observer.bound_now(job.name)}) == (1 if members <= 110 else 10)

    @pytest.mark.alone
    def test_a_thousand_members_bind_whole(self, plane: ControlPlane, kohort: Kohort, space: str) -> None:
        """The test creates the pods itself, because the training operator would take 50 s.

        This test is the last, because the operator creates a Service for each pod as soon as it is back.
        """
        job = TFJob(space, "gang", workers=999, memory="64Mi")
        with ClusterObserver(plane, space) as observer, no_operator(plane):
            submit(plane, job)
            with ThreadPoolExecutor(CREATORS) as creators:
                list(creators.map(lambda pod: create_pod(plane, space, pod), operator_pods(plane, job)))
            say(1000, until(lambda: len(observer.bound_now(job.name)) == 1000, "bound", 200))
            partial = observer.partial_seconds(job.name, 1000)
            print(f"partly bound for {partial:.1f} s")
            assert partial <= WINDOW
            until(lambda: job_view(kohort, job).get("state") == "running", "known as running")

"""Tests of one kube-scheduler with a plain profile and Kohort's: pods of the plain profile are not affected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import Kohort
from tests.controlplane.ports import free_ports
from tests.e2e.asking import metric, nodes_of, pods
from tests.e2e.gangs import create_pod, failed, fresh_kohort, lone_pod, on_node, own_namespace, submit
from tests.e2e.observer import ClusterObserver
from tests.e2e.recorder import Recorder, recorded
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

Json = dict[str, Any]
WINDOW = 8.0
SIZES = {"small": 8, "middle": 12, "large": 20}
PLAIN = "default-scheduler"
CORES = ["2", "3", "1", "5", "2", "4", "1"]
SETTLED = 5
HIGH = "tests-high"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield three nodes of different size, so that scores seldom tie."""
    directory = tmp_path_factory.mktemp("profiles")
    with ControlPlane.start(nodes=None, workdir=directory, controller_manager=True) as started:
        for name, cores in SIZES.items():
            started.add_nodes(NodeShape(count=1, cpu=str(cores), memory="64Gi", gpu=0), name)
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        started.apply({**priority, "metadata": {"name": HIGH}, "value": 1_000_000})
        yield started


@pytest.fixture(scope="module")
def without(plane: ControlPlane) -> list[str]:
    """Return the nodes on which a default kube-scheduler without an extender places the plain pods."""
    scheduler = plane.start_scheduler(name="stock")
    with own_namespace(plane, "without") as name:
        placed = place_plain(plane, name)
    scheduler.stop()
    return placed


@pytest.fixture(scope="module")
def both(plane: ControlPlane, without: list[str]) -> Iterator[tuple[Kohort, Recorder]]:
    """Yield Kohort and a record of its calls, with one kube-scheduler that has both profiles and uses no Lease."""
    port = free_ports(1)[0]
    settings = {"lease": {"identity": "*"}, "server": {"port": port}}
    with fresh_kohort(plane, settings, "both") as kohort:
        kohort.scheduler.stop()
        config = yaml.safe_load((plane.workdir / "both-scheduler.yaml").read_text())
        config["leaderElection"] = {"leaderElect": False}
        config["profiles"].insert(0, {"schedulerName": PLAIN})
        path = plane.workdir / "two-profiles.yaml"
        path.write_text(yaml.safe_dump(config))
        with recorded(kohort, port) as recorder:
            kohort.scheduler = plane.start_scheduler(path, "two-profiles")
            yield kohort, recorder


def place_plain(plane: ControlPlane, namespace: str) -> list[str]:
    """Create the pods of the plain profile one after the other; return their nodes in this order."""
    for number, cores in enumerate(CORES):
        create_pod(plane, namespace, lone_pod(f"plain-{number}", cpu=cores, scheduler=PLAIN))
        until(lambda: len(nodes_of(plane, namespace)) == number + 1, f"plain-{number} bound")  # noqa: B023
    placed = nodes_of(plane, namespace)
    return [placed[f"plain-{number}"] for number in range(len(CORES))]


def test_plain_pods_go_where_they_would_go_without_us(
    plane: ControlPlane, without: list[str], both: tuple[Kohort, Recorder], space: str
) -> None:
    _, recorder = both
    assert len(set(without[:SETTLED])) > 1  # Pods that all go to one node would prove nothing.
    # From the sixth pod on, two nodes score the same, and kube-scheduler chooses between them at random.
    assert place_plain(plane, space)[:SETTLED] == without[:SETTLED]
    for number in range(len(CORES)):
        for call in recorder.of("filter", f"plain-{number}"):
            assert sorted(call.answered["NodeNames"]) == sorted(call.asked["NodeNames"])
            assert call.answered["FailedNodes"] == call.answered["FailedAndUnresolvableNodes"] == {}
        for call in recorder.of("prioritize", f"plain-{number}"):
            assert {score["Score"] for score in call.answered} == {0}
            assert len(call.answered) == len(call.asked["NodeNames"])
        assert [call.answered for call in recorder.of("bind", f"plain-{number}")] == [{"Error": ""}]
        notes = plane.api.get(f"/api/v1/namespaces/{space}/pods/plain-{number}")["metadata"].get("annotations", {})
        assert not any(key.startswith("kohort.dev/") for key in notes)


def test_gangs_and_plain_pods_share_the_process(plane: ControlPlane, both: tuple[Kohort, Recorder], space: str) -> None:
    with ClusterObserver(plane, space) as observer:
        jobs = [submit(plane, TFJob(space, f"gang-{n}", workers=4)) for n in range(2)]
        for number in range(8):
            create_pod(plane, space, lone_pod(f"plain-{number}", scheduler=PLAIN))
        until(lambda: len(nodes_of(plane, space)) == 18, "all bound")
        assert max(observer.partial_seconds(job.name, 5) for job in jobs) <= WINDOW
        assert all(len({seen.node for seen in observer.bound_now(job.name)}) == 1 for job in jobs)


def high(name: str, cores: str, **spec: Any) -> Json:
    return lone_pod(name, cpu=cores, scheduler=PLAIN, priorityClassName=HIGH, **spec)


def test_nobody_preempts_a_part_of_a_rigid_gang(plane: ControlPlane, both: tuple[Kohort, Recorder], space: str) -> None:
    """A rigid gang fills the cluster; without Kohort, the pod of high priority would preempt one of its workers."""
    kohort, recorder = both
    with ClusterObserver(plane, space) as observer:
        job = submit(plane, TFJob(space, "gang", workers=9, worker_cpu="4", ps_cpu="4"))
        until(lambda: len(observer.bound_now(job.name)) == 10, "the gang bound")
        create_pod(plane, space, high("wants", "3"))
        until(lambda: recorder.of("preempt", "wants"), "asked about preemption")
        assert all(call.answered["NodeNameToMetaVictims"] == {} for call in recorder.of("preempt", "wants"))
        assert any(call.asked["NodeNameToMetaVictims"] for call in recorder.of("preempt", "wants"))
        assert metric(kohort.health, "kohort_verb_requests_total", verb="preempt") >= 1
        until(lambda: _unschedulable(plane, space) == {"wants"}, "told that it has to wait")
        assert len(observer.bound_now(job.name)) == 10
        assert observer.deleted(job.name, "worker") == observer.deleted(job.name, "ps") == 0


def test_a_plain_pod_is_preempted_where_a_gang_would_be_broken(
    plane: ControlPlane, both: tuple[Kohort, Recorder], space: str
) -> None:
    """kube-scheduler would rather preempt a smaller member of the gang; Kohort allows only the plain pod."""
    _, recorder = both

    def asked() -> str:
        return str([(call.asked, call.answered) for call in recorder.of("preempt", "wants")])

    with ClusterObserver(plane, space) as observer:
        create_pod(plane, space, lone_pod("victim", cpu="8", scheduler=PLAIN, **on_node("small-0")))
        until(lambda: nodes_of(plane, space).get("victim"), "the plain pod bound")
        job = submit(plane, TFJob(space, "gang", workers=7, worker_cpu="4", ps_cpu="4"))
        until(lambda: len(observer.bound_now(job.name)) == 8, "the gang bound")
        create_pod(plane, space, high("wants", "3"))
        until(lambda: nodes_of(plane, space).get("wants") == "small-0", "bound in the plain pod's place", seen=asked)
        assert "victim" not in nodes_of(plane, space)
        assert observer.deleted(job.name, "worker") == observer.deleted(job.name, "ps") == 0


def test_workers_above_the_minimum_may_be_preempted_and_no_more(
    plane: ControlPlane, both: tuple[Kohort, Recorder], space: str
) -> None:
    """An elastic gang of a ps and nine workers with four cores each fills 40 cores, and its minimum is five workers.

    A pod of eight cores and high priority may preempt two workers.
    """
    with ClusterObserver(plane, space) as observer:
        sizes = TFJob(space, "gang", workers=9, least=5, most=9, worker_cpu="4", ps_cpu="4")
        job = submit(plane, sizes, dynamic=True)
        until(lambda: len(observer.bound_now(job.name)) == 10, "the gang bound")
        create_pod(plane, space, high("wants", "8"))
        until(lambda: nodes_of(plane, space).get("wants"), "bound in the place of two workers")
        assert observer.deleted(job.name, "ps") == 0
        # kube-scheduler preempts two workers; if Kohort then shrinks the job, the operator deletes the two highest.
        assert 2 <= observer.deleted(job.name, "worker") <= 4
        assert observer.partial_seconds(job.name, 6) <= WINDOW
        assert len(observer.bound_now(job.name)) >= 6
        assert not failed(plane, job)


def test_no_worker_is_preempted_whose_end_would_fail_its_job(
    plane: ControlPlane, both: tuple[Kohort, Recorder], space: str
) -> None:
    """Without enableDynamicWorker, a deleted worker fails the job, so Kohort lets kube-scheduler preempt none."""
    _, recorder = both
    with ClusterObserver(plane, space) as observer:
        job = submit(plane, TFJob(space, "gang", workers=9, least=5, most=9, worker_cpu="4", ps_cpu="4"), dynamic=False)
        until(lambda: len(observer.bound_now(job.name)) == 10, "the gang bound")
        create_pod(plane, space, high("protected", "8"))
        until(lambda: recorder.of("preempt", "protected"), "asked about preemption")
        assert all(call.answered["NodeNameToMetaVictims"] == {} for call in recorder.of("preempt", "protected"))


def _unschedulable(plane: ControlPlane, namespace: str) -> set[str]:
    return {
        pod["metadata"]["name"]
        for pod in pods(plane, namespace)
        for condition in pod["status"].get("conditions", ())
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable"
    }

"""Jobs of the real training operator: whole, shrunk for a heavier job, grown back, and never in trouble meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.controlplane import ControlPlane, ControlPlaneError, NodeShape
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.background import Background
from tests.e2e.gangs import until
from tests.e2e.tfjobs import TFJob

Json = dict[str, Any]
FREE_CORES = 7  # a master or launcher and six workers
STOP_SECONDS = "1"  # a worker takes so long to go: the operator sees it terminate, as on a real cluster


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One node that holds a job of six workers and nothing else."""
    shape = NodeShape(count=1, cpu=str(FREE_CORES))
    with ControlPlane.start(shape, workdir=tmp_path_factory.mktemp("jobkinds"), controller_manager=True) as started:
        started.start_scheduler()
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    started = start_kohort(plane, {"kod2": {"cooldown_seconds": 1}})
    yield started
    started.stop()


@pytest.fixture
def space(plane: ControlPlane, space: str) -> Iterator[str]:
    yield space
    plane.kubectl("delete", "pytorchjobs,mpijobs", "--all", "-n", space)


def replica(replicas: int, container: str) -> Json:
    requests = {"cpu": "1", "memory": "1Gi"}
    return {
        "replicas": replicas,
        "restartPolicy": "OnFailure",
        "template": {
            "metadata": {"annotations": {"demo.kohort.dev/stop-seconds": STOP_SECONDS}},
            "spec": {
                "schedulerName": "kohort",
                "containers": [{"name": container, "image": "none", "command": ["train"],
                                "resources": {"requests": requests}}],
            },
        },
    }  # fmt: skip


def pytorchjob(namespace: str) -> Json:
    """Asks for two workers and may have six, by its own elasticPolicy."""
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {
            "runPolicy": {"cleanPodPolicy": "Running"},
            "elasticPolicy": {"minReplicas": 2, "maxReplicas": 6, "rdzvBackend": "c10d"},
            "pytorchReplicaSpecs": {"Master": replica(1, "pytorch"), "Worker": replica(2, "pytorch")},
        },
    }


def mpijob(namespace: str) -> Json:
    """Asks for two workers and may have six, by annotations."""
    notes = {"kohort.dev/min-workers": "2", "kohort.dev/max-workers": "6"}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {"name": "train", "namespace": namespace, "annotations": notes},
        "spec": {
            "slotsPerWorker": 1,
            "runPolicy": {"cleanPodPolicy": "Running"},
            "mpiReplicaSpecs": {"Launcher": replica(1, "mpi"), "Worker": replica(2, "mpi")},
        },
    }


def tfjob(namespace: str) -> Json:
    """Asks for two workers and may have six, by annotations."""
    return TFJob(namespace, "train", workers=2, least=2, most=6, memory="1Gi").manifest()


KINDS = {
    "tf": (tfjob, "tfjobs", "tfReplicaSpecs", "train-ps-0"),
    "pytorch": (pytorchjob, "pytorchjobs", "pytorchReplicaSpecs", "train-master-0"),
    "mpi": (mpijob, "mpijobs", "mpiReplicaSpecs", "train-launcher"),
}


class Watched:
    """One job as the API shows it."""

    def __init__(self, plane: ControlPlane, namespace: str, plural: str, roles: str) -> None:
        self._plane, self._namespace, self._roles = plane, namespace, roles
        self.path = f"/apis/kubeflow.org/v1/namespaces/{namespace}/{plural}"

    def running(self) -> dict[str, str]:
        """Name and uid of every pod of the job that runs."""
        pods = self._plane.api.get(f"/api/v1/namespaces/{self._namespace}/pods")["items"]
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in pods
            if pod["metadata"]["name"].startswith("train-") and pod["status"].get("phase") == "Running"
            and not pod["metadata"].get("deletionTimestamp")
        }  # fmt: skip

    def workers(self) -> list[int]:
        """Indices of the workers that run."""
        return sorted(int(name.rpartition("-")[2]) for name in self.running() if "-worker-" in name)

    def conditions(self) -> set[str]:
        found = self._plane.api.get(f"{self.path}/train").get("status", {}).get("conditions") or []
        return {one["type"] for one in found if one["status"] == "True"}


@dataclass(slots=True)
class Health(Background):
    """Every condition that the operator has said of a job, several times a second."""

    job: Watched
    said: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Until the end."""
        while not self.stopped.wait(0.1):
            with suppress(ControlPlaneError):  # not there yet
                self.said |= self.job.conditions()


@pytest.mark.parametrize("kind", KINDS)
def test_two_six_three_six_workers_and_the_operator_stays_content(
    plane: ControlPlane, kohort: Kohort, space: str, kind: str
) -> None:
    make, plural, roles, first = KINDS[kind]
    job = Watched(plane, space, plural, roles)
    plane.api.create(job.path, make(space))
    with Health(job) as health:
        until(lambda: job.workers() == list(range(6)), "six workers", 40)
        rigid = job.running()[first]
        lowest = {name: uid for name, uid in job.running().items() if name in {f"train-worker-{n}" for n in range(3)}}

        rival = TFJob(space, "rival", workers=2, ps=1, utility="50")
        plane.api.create(f"/apis/kubeflow.org/v1/namespaces/{space}/tfjobs", rival.manifest())
        until(lambda: bound(plane, space, "rival-") == 3, "the heavier job bound", 40)
        assert job.workers() == [0, 1, 2]
        assert job.running()[first] == rigid
        assert lowest.items() <= job.running().items()
        assert "Running" in job.conditions()

        plane.api.delete(rival.path)
        until(lambda: job.workers() == list(range(6)), "six workers again", 60)
        assert job.running()[first] == rigid
        until(lambda: "Running" in health.said, "looked at", 10)
    assert health.said & {"Failed", "Succeeded", "Restarting", "Suspended"} == set()


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_two_six_three_six_with_the_operator_restarted_in_the_middle(
    plane: ControlPlane, kohort: Kohort, space: str, kind: str
) -> None:
    """Killed and started again while workers are taken, and again while they are given back."""
    make, plural, roles, first = KINDS[kind]
    job, operator = Watched(plane, space, plural, roles), plane.processes["training-operator"]
    plane.api.create(job.path, make(space))
    with Health(job) as health:
        until(lambda: job.workers() == list(range(6)), "six workers", 60)
        before = job.running()

        rival = TFJob(space, "rival", workers=2, ps=1, utility="50")
        plane.api.create(f"/apis/kubeflow.org/v1/namespaces/{space}/tfjobs", rival.manifest())
        until(lambda: len(job.workers()) < 6, "the first worker taken", 40)
        operator.crash()
        time.sleep(3)
        operator.restart()
        until(lambda: bound(plane, space, "rival-") == 3, "the heavier job bound", 90)
        left = job.running()
        assert job.workers() == [0, 1, 2]
        assert left.items() <= before.items()

        plane.api.delete(rival.path)
        until(lambda: len(job.workers()) > len(left) - 1, "the first worker given back", 60)
        operator.crash()
        time.sleep(3)
        operator.restart()
        until(lambda: job.workers() == list(range(6)), "six workers again", 90)
        assert job.running()[first] == before[first]
    assert health.said & {"Failed", "Succeeded"} == set()


def bound(plane: ControlPlane, namespace: str, prefix: str) -> int:
    pods = plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return sum(1 for pod in pods if pod["metadata"]["name"].startswith(prefix) and pod["spec"].get("nodeName"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_gang_that_does_not_fit_whole_gets_nothing(
    plane: ControlPlane, kohort: Kohort, space: str, kind: str
) -> None:
    make, plural, roles, _ = KINDS[kind]
    filler = TFJob(space, "filler", workers=4, ps=1)
    plane.api.create(f"/apis/kubeflow.org/v1/namespaces/{space}/tfjobs", filler.manifest())
    until(lambda: bound(plane, space, "filler-") == 5, "the filler bound", 40)
    job = Watched(plane, space, plural, roles)
    plane.api.create(job.path, make(space))
    told = f"/v1/explain/{space}/train"
    until(lambda: waits(kohort, told) == "WaitingForRoom", "told why it waits", 30)
    time.sleep(2)
    assert bound(plane, space, "train-") == 0
    plane.api.delete(filler.path)
    until(lambda: len(job.workers()) >= 2, "started once there is room", 40)


def waits(kohort: Kohort, path: str) -> str:
    try:
        return str((kohort.get(path).get("waits") or {}).get("reason", ""))
    except Exception:  # the job is not known yet
        return ""

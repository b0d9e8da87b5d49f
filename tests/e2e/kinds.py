"""A job of every elastic kind, named ``train``: it has two to six workers of one core each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.controlplane import ControlPlane, ControlPlaneError, NodeShape
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.background import Background
from tests.e2e.tfjobs import TFJOBS, TFJob

Json = dict[str, Any]
NAME, LEAST, MOST = "train", 2, 6
CORES = 7  # The only node has cores for six workers, and for a rigid member or another pod.
SLOT = "kohort.dev/slot"
BOUNDS = {"kohort.dev/min-workers": str(LEAST), "kohort.dev/max-workers": str(MOST)}
# Workers take a second to terminate, so that their controller sees terminating pods, as on a real cluster.
STOPS = {"demo.kohort.dev/stop-seconds": "1"}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job; ``spec(workers)`` returns the spec of a job with that number of workers.

    ``rigid`` is the slot of the rigid member, or "". ``bounds`` tells whether annotations hold the least and most
    workers; a PyTorchJob has them in its spec.
    """

    api: str
    plural: str
    spec: Callable[[int], Json]
    rigid: str = ""
    bounds: bool = True

    @property
    def operator(self) -> bool:
        return self.api.startswith("kubeflow.org/")

    def path(self, space: str) -> str:
        """Return the path of jobs of that kind."""
        return f"/apis/{self.api}/namespaces/{space}/{self.plural}"

    def slots(self, workers: int) -> set[str]:
        """Return the slots of the rigid member, if any, and of the first ``workers`` workers."""
        return {f"worker-{index}" for index in range(workers)} | ({self.rigid} if self.rigid else set())


def template(container: str = "train") -> Json:
    """Return a pod template that requests one core, with a container of this name."""
    requests = {"cpu": "1", "memory": "1Gi"}
    one = {"name": container, "image": "none", "command": ["train"], "resources": {"requests": requests}}
    return {
        "metadata": {"labels": {"app": NAME}, "annotations": dict(STOPS)},
        "spec": {"schedulerName": "kohort", "containers": [one]},
    }


def roles(container: str, **counts: int) -> Json:
    """Return replica specs as the training operator's kinds have them."""
    return {
        role: {"replicas": count, "restartPolicy": "OnFailure", "template": template(container)}
        for role, count in counts.items()
    }


def tfjob(workers: int) -> Json:
    return {
        "enableDynamicWorker": True,
        "runPolicy": {"cleanPodPolicy": "Running"},
        "tfReplicaSpecs": roles("tensorflow", PS=1, Worker=workers),
    }


def pytorchjob(workers: int) -> Json:
    """Return a PyTorchJob's spec, with the bounds in its elasticPolicy."""
    return {
        "runPolicy": {"cleanPodPolicy": "Running"},
        "elasticPolicy": {"minReplicas": LEAST, "maxReplicas": MOST, "rdzvBackend": "c10d"},
        "pytorchReplicaSpecs": roles("pytorch", Master=1, Worker=workers),
    }


def mpijob(workers: int) -> Json:
    return {
        "slotsPerWorker": 1,
        "runPolicy": {"cleanPodPolicy": "Running"},
        "mpiReplicaSpecs": roles("mpi", Launcher=1, Worker=workers),
    }


def indexed_job(workers: int) -> Json:
    body = template()
    body["spec"]["restartPolicy"] = "Never"
    return {"parallelism": workers, "completions": workers, "completionMode": "Indexed", "template": body}


def stateful_set(workers: int) -> Json:
    selector = {"matchLabels": {"app": NAME}}
    kind = {"serviceName": NAME, "podManagementPolicy": "Parallel"}
    return {"replicas": workers, "selector": selector, "template": template(), **kind}


def deployment(workers: int) -> Json:
    selector = {"matchLabels": {"app": NAME}}
    return {"replicas": workers, "selector": selector, "template": template(), "strategy": {"type": "Recreate"}}


KINDS = {
    "TFJob": Kind("kubeflow.org/v1", "tfjobs", tfjob, "ps-0"),
    "PyTorchJob": Kind("kubeflow.org/v1", "pytorchjobs", pytorchjob, "master-0", bounds=False),
    "MPIJob": Kind("kubeflow.org/v1", "mpijobs", mpijob, "launcher-0"),
    "Job": Kind("batch/v1", "jobs", indexed_job),
    "StatefulSet": Kind("apps/v1", "statefulsets", stateful_set),
    "Deployment": Kind("apps/v1", "deployments", deployment),
}


@contextmanager
def one_node(folder: Path) -> Iterator[ControlPlane]:
    """Yield a control plane with one node of seven cores, which a job of six workers almost fills."""
    with ControlPlane.start(NodeShape(count=1, cpu=str(CORES)), workdir=folder, controller_manager=True) as started:
        started.start_scheduler()
        yield started


@contextmanager
def quick_kohort(plane: ControlPlane) -> Iterator[Kohort]:
    """Yield a Kohort with a cool-down of a second."""
    started = start_kohort(plane, {"kod2": {"cooldown_seconds": 1}})
    try:
        yield started
    finally:
        started.stop()


def create(plane: ControlPlane, space: str, kind: str, *, elastic: bool = True) -> str:
    """Create the job, and return its path."""
    one = KINDS[kind]
    notes = BOUNDS if elastic and one.bounds else {}
    meta = {"name": NAME, "namespace": space, "annotations": notes}
    plane.api.create(one.path(space), {"apiVersion": one.api, "kind": kind, "metadata": meta, "spec": one.spec(LEAST)})
    return f"{one.path(space)}/{NAME}"


def rival(plane: ControlPlane, space: str, workers: int = 2) -> TFJob:
    """Create a heavier job with a ps and workers of one core."""
    made = TFJob(space, "rival", workers=workers, ps=1, utility="50")
    plane.api.create(TFJOBS.format(namespace=space), made.manifest())
    return made


def clear(plane: ControlPlane, space: str) -> None:
    """Delete all jobs that would keep creating pods."""
    kinds = ",".join(one.plural for one in KINDS.values())
    plane.kubectl("delete", kinds, "--all", "-n", space, "--wait=true", "--timeout=120s")


def pods(plane: ControlPlane, space: str, prefix: str = NAME) -> list[Json]:
    """Return the pods of one job, terminating ones included."""
    found = plane.api.get(f"/api/v1/namespaces/{space}/pods")["items"]
    return [pod for pod in found if pod["metadata"]["name"].startswith(f"{prefix}-")]


def bound(plane: ControlPlane, space: str, prefix: str = NAME) -> int:
    """Return how many of the job's pods have a node."""
    return sum(1 for pod in pods(plane, space, prefix) if pod["spec"].get("nodeName"))


def running(plane: ControlPlane, space: str) -> dict[str, str]:
    """Return the UID of each running, not terminating pod of the job by its slot, which the binding noted."""
    return {
        pod["metadata"]["annotations"][SLOT]: pod["metadata"]["uid"]
        for pod in pods(plane, space)
        if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
    }


def waits(kohort: Kohort, space: str) -> str:
    """Return the code of the reason for which the job ``train`` waits, or "" if it does not wait."""
    known = [job for job in kohort.get("/v1/jobs")["jobs"] if (job["namespace"], job["name"]) == (space, NAME)]
    return str((known[0]["waits"] or {}).get("reason", "")) if known else ""


@dataclass(slots=True)
class Health(Background):
    """A thread that collects in ``said`` the type of every true condition of the job, read ten times a second."""

    plane: ControlPlane
    path: str
    said: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Read the job's conditions until the context ends."""
        while not self.stopped.wait(0.1):
            with suppress(ControlPlaneError):  # The job may not exist yet.
                found = self.plane.api.get(self.path).get("status", {}).get("conditions") or []
                self.said |= {one["type"] for one in found if one["status"] == "True"}

"""Kubernetes' own kinds by the real controller manager: Indexed Jobs, StatefulSets, Deployments; groups of pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.definitions import COSCHEDULING, DEFINITIONS, VOLCANO, definition, group_definition
from tests.controlplane.kohort import Kohort, start_kohort
from tests.controlplane.training import DEFINITIONS_PATH
from tests.e2e.gangs import never, until
from tests.e2e.jobsets import JOBSET, child
from tests.e2e.tfjobs import TFJOBS, TFJob

Json = dict[str, Any]
CORES = 7
BOUNDS = {"kohort.dev/min-workers": "2", "kohort.dev/max-workers": "6"}
SLOT = "kohort.dev/slot"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    shape = NodeShape(count=1, cpu=str(CORES))
    with ControlPlane.start(shape, workdir=tmp_path_factory.mktemp("ownkinds"), controller_manager=True) as started:
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
    plane.kubectl("delete", "jobs,statefulsets,deployments", "--all", "-n", space, "--wait=true", "--timeout=60s")


def template(cpu: str = "1", **labels: str) -> Json:
    container = {"name": "train", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {
        "metadata": {"labels": {"app": "train", **labels}, "annotations": {"demo.kohort.dev/stop-seconds": "1"}},
        "spec": {"schedulerName": "kohort", "containers": [container]},
    }


def job(workers: int = 2) -> Json:
    body = template()
    body["spec"]["restartPolicy"] = "Never"
    return {"parallelism": workers, "completions": workers, "completionMode": "Indexed", "template": body}


def stateful_set(workers: int = 2) -> Json:
    selector = {"matchLabels": {"app": "train"}}
    kind = {"serviceName": "train", "podManagementPolicy": "Parallel"}
    return {"replicas": workers, "selector": selector, "template": template(), **kind}


def deployment(workers: int = 2) -> Json:
    selector = {"matchLabels": {"app": "train"}}
    return {"replicas": workers, "selector": selector, "template": template(), "strategy": {"type": "Recreate"}}


OWN = {
    "Job": ("batch/v1", "jobs", job),
    "StatefulSet": ("apps/v1", "statefulsets", stateful_set),
    "Deployment": ("apps/v1", "deployments", deployment),
}


def create(plane: ControlPlane, space: str, kind: str, name: str = "train", notes: Json | None = None) -> str:
    version, plural, spec = OWN[kind]
    path = f"/apis/{version}/namespaces/{space}/{plural}"
    meta = {"name": name, "namespace": space, "annotations": BOUNDS if notes is None else notes}
    plane.api.create(path, {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec()})
    return f"{path}/{name}"


def pods(plane: ControlPlane, space: str) -> list[Json]:
    found: list[Json] = plane.api.get(f"/api/v1/namespaces/{space}/pods")["items"]
    return found


def running(plane: ControlPlane, space: str, prefix: str = "train") -> dict[str, str]:
    """Slot, as the binding wrote it, and uid of every pod that runs and stays."""
    return {
        pod["metadata"]["annotations"][SLOT]: pod["metadata"]["uid"]
        for pod in pods(plane, space)
        if pod["metadata"]["name"].startswith(prefix) and pod["status"].get("phase") == "Running"
        and not pod["metadata"].get("deletionTimestamp")
    }  # fmt: skip


def bound(plane: ControlPlane, space: str, prefix: str) -> int:
    named = (pod for pod in pods(plane, space) if pod["metadata"]["name"].startswith(prefix))
    return sum(1 for pod in named if pod["spec"].get("nodeName"))


def slots(count: int) -> set[str]:
    return {f"worker-{index}" for index in range(count)}


def rival(plane: ControlPlane, space: str, workers: int = 2) -> TFJob:
    made = TFJob(space, "rival", workers=workers, ps=1, utility="50")
    plane.api.create(TFJOBS.format(namespace=space), made.manifest())
    return made


@pytest.mark.parametrize("kind", OWN)
def test_two_six_four_six_workers_and_the_highest_go_first(
    plane: ControlPlane, kohort: Kohort, space: str, kind: str
) -> None:
    create(plane, space, kind)
    until(lambda: running(plane, space).keys() == slots(6), "six workers", 40)
    before = running(plane, space)

    heavy = rival(plane, space)
    until(lambda: bound(plane, space, "rival-") == 3, "the heavier job bound", 40)
    left = running(plane, space)
    assert left.items() <= before.items()
    assert left.keys() == slots(4)

    plane.api.delete(heavy.path)
    until(lambda: len(running(plane, space)) == 6, "six workers again", 60)
    assert left.items() <= running(plane, space).items()


@pytest.mark.parametrize("kind", OWN)
def test_a_gang_that_does_not_fit_whole_gets_nothing(
    plane: ControlPlane, kohort: Kohort, space: str, kind: str
) -> None:
    filler = TFJob(space, "filler", workers=5, ps=1)
    plane.api.create(TFJOBS.format(namespace=space), filler.manifest())
    until(lambda: bound(plane, space, "filler-") == 6, "the filler bound", 40)
    create(plane, space, kind)
    until(
        lambda: len([p for p in pods(plane, space) if p["metadata"]["name"].startswith("train")]) == 2, "its pods", 30
    )
    never(lambda: bound(plane, space, "train"), "a part of the gang bound", 3)
    plane.api.delete(filler.path)
    until(lambda: len(running(plane, space)) >= 2, "started once there is room", 40)


def test_a_pod_of_a_deployment_that_is_deleted_comes_back_in_its_place(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    create(plane, space, "Deployment", notes={})
    until(lambda: running(plane, space).keys() == slots(2), "two workers", 40)
    victim = next(pod for pod in pods(plane, space) if pod["metadata"]["annotations"][SLOT] == "worker-0")
    plane.api.delete(f"/api/v1/namespaces/{space}/pods/{victim['metadata']['name']}")
    until(lambda: victim["metadata"]["uid"] not in running(plane, space).values(), "gone", 20)
    until(lambda: running(plane, space).keys() == slots(2), "two workers again", 40)


def test_an_indexed_job_ends_and_gives_its_room_to_the_next(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    first = create(plane, space, "Job", notes={})
    until(lambda: running(plane, space).keys() == slots(2), "two workers", 40)
    rival(plane, space, workers=6)
    never(lambda: bound(plane, space, "rival-"), "the next one bound beside it", 2)
    for pod in pods(plane, space):
        if pod["metadata"]["name"].startswith("train"):
            path = f"/api/v1/namespaces/{space}/pods/{pod['metadata']['name']}/status"
            plane.api.patch(path, {"status": {"phase": "Succeeded"}}, "merge-patch")
    until(lambda: ended(plane, first), "complete", 40)
    until(lambda: bound(plane, space, "rival-") == 7, "the next one bound", 40)


def ended(plane: ControlPlane, path: str) -> bool:
    found = plane.api.get(path)["status"].get("conditions") or []
    return any(one["type"] == "Complete" and one["status"] == "True" for one in found)


# -- groups --------------------------------------------------------------------------------------


GROUPED: dict[str, tuple[str, Json]] = {
    "coscheduling": (COSCHEDULING, {"labels": {"scheduling.x-k8s.io/pod-group": "train"}}),
    "volcano": (VOLCANO, {"annotations": {"scheduling.k8s.io/group-name": "train"}}),
}


def member(space: str, index: int, meta: Json) -> Json:
    body = {"apiVersion": "v1", "kind": "Pod", **template()}
    body["metadata"] = {"name": f"train-{index}", "namespace": space, **meta}
    return body


@pytest.mark.parametrize("kind", GROUPED)
def test_a_group_starts_whole_once_its_definition_is_there(
    plane: ControlPlane, kohort: Kohort, space: str, kind: str
) -> None:
    version, meta = GROUPED[kind]
    path = f"/api/v1/namespaces/{space}/pods"
    for index in range(3):
        plane.api.create(path, member(space, index, meta))
    never(lambda: bound(plane, space, "train-"), "a pod bound whose group nobody knows", 2)

    plane.apply(group_definition(version))
    groups = f"/apis/{version}/namespaces/{space}/podgroups"
    until(lambda: plane.api.ok(groups), "the definition served", 20)
    plane.api.create(
        groups,
        {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "train"}, "spec": {"minMember": 4}},
    )
    until(lambda: waits(kohort, space) == "WaitingForPods", "the group seen", 30)
    assert bound(plane, space, "train-") == 0
    plane.api.create(path, member(space, 3, meta))
    until(lambda: bound(plane, space, "train-") == 4, "the whole group bound", 30)
    plane.api.create(path, member(space, 4, meta))
    until(lambda: bound(plane, space, "train-") == 5, "one beyond the minimum bound", 30)


def waits(kohort: Kohort, space: str) -> str:
    try:
        return str((kohort.get(f"/v1/explain/{space}/train").get("waits") or {}).get("reason", ""))
    except Exception:  # the group is not known yet
        return ""


# -- sets of jobs --------------------------------------------------------------------------------

TRAINJOB = "trainer.kubeflow.org/v1alpha1"
TRAINJOBS = f"/apis/{TRAINJOB}/namespaces/{{space}}/trainjobs"


@pytest.fixture(scope="module")
def sets(plane: ControlPlane) -> str:
    """The path of JobSets, by their own definition and that of TrainJobs; their controllers do not run."""
    for one in DEFINITIONS:
        plane.api.create(DEFINITIONS_PATH, definition(one))
    path = f"/apis/{JOBSET}/namespaces/{{space}}/jobsets"
    for kind in (path, TRAINJOBS):
        until(lambda served=kind: plane.api.ok(served.format(space="default")), f"{kind} served", 30)  # type: ignore[misc]
    return path


def create_set(plane: ControlPlane, path: str, owners: list[Json]) -> Json:
    roles = {"driver": 1, "workers": 3}
    jobs = [{"name": role, "replicas": 1, "template": {"spec": job(workers)}} for role, workers in roles.items()]
    meta = {"name": "train", "ownerReferences": owners}
    body = {"apiVersion": JOBSET, "kind": "JobSet", "metadata": meta, "spec": {"replicatedJobs": jobs}}
    plane.api.create(path, body)
    return plane.api.get(f"{path}/train")


def train_job(plane: ControlPlane, space: str) -> list[Json]:
    """A TrainJob, as the owner of the set that its controller would make of it."""
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 3}}
    body = {"apiVersion": TRAINJOB, "kind": "TrainJob", "metadata": {"name": "train"}, "spec": spec}
    plane.api.create(TRAINJOBS.format(space=space), body)
    uid = plane.api.get(f"{TRAINJOBS.format(space=space)}/train")["metadata"]["uid"]
    return [{"apiVersion": TRAINJOB, "kind": "TrainJob", "name": "train", "uid": uid, "controller": True}]


@pytest.mark.parametrize("kind", ["JobSet", "TrainJob"])
def test_a_set_of_jobs_starts_whole_and_is_never_resized(
    plane: ControlPlane, kohort: Kohort, space: str, sets: str, kind: str
) -> None:
    """Its controller refuses other counts (JobSet 0.8.2: spec.replicatedJobs is immutable)."""
    path = sets.format(space=space)
    owner = create_set(plane, path, train_job(plane, space) if kind == "TrainJob" else [])
    until(lambda: waits(kohort, space) == "WaitingForPods", "the set seen", 30)
    children = f"/apis/batch/v1/namespaces/{space}/jobs"
    plane.api.create(children, child(owner, "workers"))
    never(lambda: bound(plane, space, "train-"), "the workers bound without their driver", 3)
    plane.api.create(children, child(owner, "driver"))
    want = {"driver-0-0", "workers-0-0", "workers-0-1", "workers-0-2"}
    until(lambda: running(plane, space).keys() == want, "the whole set", 30)
    rival(plane, space, workers=3)
    never(lambda: running(plane, space).keys() != want, "a member taken for a heavier job", 3)
    assert plane.api.get(f"{path}/train")["spec"] == owner["spec"]

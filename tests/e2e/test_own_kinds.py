"""Tests of Kubernetes' own job kinds with the real controller manager, of pod groups, and of JobSets and TrainJobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.definitions import COSCHEDULING, DEFINITIONS, VOLCANO, definition, group_definition
from tests.controlplane.kohort import Kohort
from tests.controlplane.training import DEFINITIONS_PATH
from tests.e2e import kinds
from tests.e2e.jobsets import JOBSET, child
from tests.e2e.kinds import SLOT, bound, create, indexed_job, pods, rival, running, template, waits
from tests.e2e.waiting import never, until

pytestmark = pytest.mark.full
Json = dict[str, Any]
TWO = {"worker-0", "worker-1"}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with kinds.one_node(tmp_path_factory.mktemp("ownkinds")) as started:
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    with kinds.quick_kohort(plane) as started:
        yield started


@pytest.fixture
def space(plane: ControlPlane, space: str) -> Iterator[str]:
    yield space
    kinds.clear(plane, space)


def test_a_pod_of_a_deployment_that_is_deleted_comes_back_in_its_place(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    create(plane, space, "Deployment", elastic=False)
    until(lambda: running(plane, space).keys() == TWO, "two workers")
    victim = next(pod for pod in pods(plane, space) if pod["metadata"]["annotations"][SLOT] == "worker-0")
    plane.api.delete(f"/api/v1/namespaces/{space}/pods/{victim['metadata']['name']}")
    until(lambda: victim["metadata"]["uid"] not in running(plane, space).values(), "gone")
    until(lambda: running(plane, space).keys() == TWO, "two workers again")


def test_an_indexed_job_ends_and_gives_its_room_to_the_next(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    first = create(plane, space, "Job", elastic=False)
    until(lambda: running(plane, space).keys() == TWO, "two workers")
    rival(plane, space, workers=6)
    never(lambda: bound(plane, space, "rival"), "the next one bound beside it", 2)
    for pod in pods(plane, space):
        path = f"/api/v1/namespaces/{space}/pods/{pod['metadata']['name']}/status"
        plane.api.patch(path, {"status": {"phase": "Succeeded"}}, "merge-patch")
    until(lambda: ended(plane, first), "complete")
    until(lambda: bound(plane, space, "rival") == 7, "the next one bound")


def ended(plane: ControlPlane, path: str) -> bool:
    found = plane.api.get(path)["status"].get("conditions") or []
    return any(one["type"] == "Complete" and one["status"] == "True" for one in found)


# -- The test below is about pod groups. ---------------------------------------------------------


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
    never(lambda: bound(plane, space), "a pod bound whose group nobody knows", 2)

    plane.apply(group_definition(version))
    groups = f"/apis/{version}/namespaces/{space}/podgroups"
    until(lambda: plane.api.ok(groups), "the definition served")
    plane.api.create(
        groups,
        {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "train"}, "spec": {"minMember": 4}},
    )
    until(lambda: waits(kohort, space) == "WaitingForPods", "the group seen")
    assert bound(plane, space) == 0
    plane.api.create(path, member(space, 3, meta))
    until(lambda: bound(plane, space) == 4, "the whole group bound")
    plane.api.create(path, member(space, 4, meta))
    until(lambda: bound(plane, space) == 5, "one beyond the minimum bound")


# -- The test below is about JobSets and TrainJobs. ----------------------------------------------

TRAINJOB = "trainer.kubeflow.org/v1alpha1"
TRAINJOBS = f"/apis/{TRAINJOB}/namespaces/{{space}}/trainjobs"


@pytest.fixture(scope="module")
def sets(plane: ControlPlane) -> str:
    """Create the definitions of JobSet and TrainJob, whose controllers do not run; return the path of JobSets."""
    for one in DEFINITIONS:
        plane.api.create(DEFINITIONS_PATH, definition(one))
    path = f"/apis/{JOBSET}/namespaces/{{space}}/jobsets"
    for kind in (path, TRAINJOBS):
        until(lambda served=kind: plane.api.ok(served.format(space="default")), f"{kind} served")  # type: ignore[misc]
    return path


def create_set(plane: ControlPlane, path: str, owners: list[Json]) -> Json:
    roles = {"driver": 1, "workers": 3}
    jobs = [
        {"name": role, "replicas": 1, "template": {"spec": indexed_job(workers)}} for role, workers in roles.items()
    ]
    meta = {"name": "train", "ownerReferences": owners}
    body = {"apiVersion": JOBSET, "kind": "JobSet", "metadata": meta, "spec": {"replicatedJobs": jobs}}
    plane.api.create(path, body)
    return plane.api.get(f"{path}/train")


def train_job(plane: ControlPlane, space: str) -> list[Json]:
    """Create a TrainJob; return the owner references of the JobSet that its controller would create for it."""
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 3}}
    body = {"apiVersion": TRAINJOB, "kind": "TrainJob", "metadata": {"name": "train"}, "spec": spec}
    plane.api.create(TRAINJOBS.format(space=space), body)
    uid = plane.api.get(f"{TRAINJOBS.format(space=space)}/train")["metadata"]["uid"]
    return [{"apiVersion": TRAINJOB, "kind": "TrainJob", "name": "train", "uid": uid, "controller": True}]


@pytest.mark.parametrize("kind", ["JobSet", "TrainJob"])
def test_a_set_of_jobs_starts_whole_and_is_never_resized(
    plane: ControlPlane, kohort: Kohort, space: str, sets: str, kind: str
) -> None:
    """A JobSet is rigid, because its controller refuses other numbers of pods.

    In JobSet 0.8.2 spec.replicatedJobs is immutable.
    """
    path = sets.format(space=space)
    owner = create_set(plane, path, train_job(plane, space) if kind == "TrainJob" else [])
    until(lambda: waits(kohort, space) == "WaitingForPods", "the set seen")
    children = f"/apis/batch/v1/namespaces/{space}/jobs"
    plane.api.create(children, child(owner, "workers"))
    never(lambda: bound(plane, space), "the workers bound without their driver", 3)
    plane.api.create(children, child(owner, "driver"))
    want = {"driver-0-0", "workers-0-0", "workers-0-1", "workers-0-2"}
    until(lambda: running(plane, space).keys() == want, "the whole set")
    rival(plane, space, workers=3)
    never(lambda: running(plane, space).keys() != want, "a member taken for a heavier job", 3)
    assert plane.api.get(f"{path}/train")["spec"] == owner["spec"]

"""The rows of the table of job kinds turn PyTorchJobs and MPIJobs into jobs, and their pods into members."""

import copy
from typing import Any

import pytest

from extender.kube.api import MPIJOBS, PYTORCHJOBS, Resource
from extender.kube.translate import Translator
from policy.cluster.events import JobSeen, PodSeen
from policy.cluster.job import Job, Slot
from policy.cluster.pod import Pod
from tests.unit.test_translate import replica

Json = dict[str, Any]
OURS = Translator("kohort")


def made(kind: str, spec: Json, **notes: str) -> Json:
    meta = {
        "name": "train", "namespace": "team", "uid": "j1", "resourceVersion": "7",
        "creationTimestamp": "2026-11-21T09:00:00Z",
        "annotations": {f"kohort.dev/{name.replace('_', '-')}": value for name, value in notes.items()},
    }  # fmt: skip
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": meta, "spec": spec}


def pytorch(workers: int | None = 3, elastic: Json | None = None, **notes: str) -> Json:
    roles = {"Master": replica(1), "Worker": replica(workers)}
    return made("PyTorchJob", {"pytorchReplicaSpecs": roles} | ({"elasticPolicy": elastic} if elastic else {}), **notes)


def mpi(workers: int | None = 3, clean: str = "", **notes: str) -> Json:
    roles = {"Launcher": replica(1), "Worker": replica(workers)}
    return made("MPIJob", {"mpiReplicaSpecs": roles} | ({"cleanPodPolicy": clean} if clean else {}), **notes)


def seen(resource: Resource, item: Json) -> Job:
    (event,) = OURS.events(resource, {"type": "ADDED", "object": copy.deepcopy(item)})
    assert isinstance(event, JobSeen)
    return event.job


def bounds(job: Job) -> tuple[int, int, bool]:
    assert job.invalid == ""
    return job.min_workers, job.max_workers, job.elastic


def test_roles_of_a_pytorchjob() -> None:
    job = seen(PYTORCHJOBS, pytorch())
    assert {role.name: role.replicas for role in job.roles} == {"master": 1, "worker": 3}
    assert bounds(job) == (3, 3, False)


BOUNDS: dict[str, tuple[Json, tuple[int, int, bool]]] = {
    "its own policy": (pytorch(3, {"minReplicas": 2, "maxReplicas": 6}), (2, 6, True)),
    "the lower bound alone is both, as the operator takes it": (pytorch(3, {"minReplicas": 2}), (2, 2, True)),
    "the upper bound alone": (pytorch(3, {"maxReplicas": 5}), (5, 5, True)),
    "a policy without bounds": (pytorch(3, {"rdzvBackend": "c10d"}), (3, 3, False)),
    "annotations come first": (
        pytorch(3, {"minReplicas": 2, "maxReplicas": 6}, min_workers="1", max_workers="4"),
        (1, 4, True),
    ),
    "one annotation beside the policy": (
        pytorch(3, {"minReplicas": 2, "maxReplicas": 6}, max_workers="4"),
        (2, 4, True),
    ),
}


@pytest.mark.parametrize(("item", "want"), BOUNDS.values(), ids=BOUNDS.keys())
def test_bounds_of_a_pytorchjob(item: Json, want: tuple[int, int, bool]) -> None:
    assert bounds(seen(PYTORCHJOBS, item)) == want


def test_a_pytorchjob_without_elastic_policy_keeps_its_workers_and_says_why() -> None:
    job = seen(PYTORCHJOBS, pytorch(3, min_workers="1", max_workers="5"))
    assert bounds(job) == (3, 3, False)
    assert "spec.elasticPolicy is not set" in job.note


def test_where_a_horizontal_pod_autoscaler_sets_the_workers_kohort_does_not() -> None:
    policy = {"minReplicas": 1, "maxReplicas": 6, "metrics": [{"type": "Resource"}]}
    job = seen(PYTORCHJOBS, pytorch(3, policy))
    assert bounds(job) == (3, 3, False)
    assert "elasticPolicy.metrics" in job.note


WRONG: dict[str, tuple[Json, str]] = {
    "no worker at least": (pytorch(3, {"minReplicas": 0, "maxReplicas": 2}), "spec.elasticPolicy.minReplicas: 0"),
    "a maximum below": (pytorch(3, {"minReplicas": 4, "maxReplicas": 2}), "spec.elasticPolicy.maxReplicas: 2"),
    "a text": (pytorch(3, {"minReplicas": "two"}), "spec.elasticPolicy.minReplicas: 'two'"),
    "a list for a policy": (pytorch(3, [1]), "spec.elasticPolicy: [1]"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("item", "told"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_policy_is_refused_by_field(item: Json, told: str) -> None:
    assert seen(PYTORCHJOBS, item).invalid.startswith(told)


def test_an_mpijob_is_elastic_by_its_bounds_and_its_launcher_is_not_one_of_them() -> None:
    job = seen(MPIJOBS, mpi(3, min_workers="2", max_workers="6"))
    assert {role.name: role.replicas for role in job.rigid} == {"launcher": 1}
    assert bounds(job) == (2, 6, True)
    assert job.size == 3


def test_an_mpijob_that_asks_for_no_workers_has_none_and_may_say_so() -> None:
    assert bounds(seen(MPIJOBS, mpi(None, min_workers="1", max_workers="2"))) == (1, 2, True)
    assert "Worker.replicas: 0" in seen(MPIJOBS, mpi(None)).invalid


@pytest.mark.parametrize(("clean", "keeps"), [("", True), ("None", True), ("Running", False), ("All", False)])
def test_an_mpijob_states_its_clean_pod_policy_outside_the_run_policy_too(clean: str, keeps: bool) -> None:
    assert seen(MPIJOBS, mpi(clean=clean)).keeps_pods is keeps


def member(kind: str, name: str, **labels: str) -> Pod:
    item = {
        "metadata": {
            "name": name, "namespace": "team", "uid": f"u-{name}",
            "labels": {f"training.kubeflow.org/replica-{key}": value for key, value in labels.items()},
            "ownerReferences": [
                {"apiVersion": "kubeflow.org/v1", "kind": kind, "name": "train", "uid": "j1", "controller": True}
            ],
        },
        "spec": replica()["template"]["spec"],
    }  # fmt: skip
    (event,) = OURS.pod_events(item)
    assert isinstance(event, PodSeen)
    return event.pod


def test_the_launcher_has_no_index() -> None:
    assert member("MPIJob", "train-launcher", type="launcher").slot == Slot("launcher", 0)
    assert member("MPIJob", "other-launcher", type="launcher").slot is None
    assert member("MPIJob", "train-worker-1", type="worker", index="1").slot == Slot("worker", 1)


def test_a_role_with_indices_needs_one() -> None:
    assert member("PyTorchJob", "train-master-0", type="master", index="0").slot == Slot("master", 0)
    assert member("PyTorchJob", "train-master", type="master").slot is None

"""POST /v1/what-if: a manifest and changes of nodes become an answer, and a wrong question is told what is wrong."""

import copy
from typing import Any

import pytest

from policy.cluster.events import Led
from tests.unit.test_rest import CLUSTER, Service, running

POD = {
    "spec": {
        "schedulerName": "kohort",
        "containers": [{"name": "tensorflow", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
    }
}
TFJOB: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"name": "new", "namespace": "team"},
    "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 3, "template": POD}}},
}


async def ask(service: Service, status: int = 200, **question: Any) -> Any:
    answer = await service.client.post("/v1/what-if", json=question)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_a_manifest_is_answered_with_where_its_members_would_go() -> None:
    service = running()
    found = await ask(service, job=TFJOB)
    (new,) = found["jobs"]
    assert (new["name"], new["before"], new["after"]["state"], new["after"]["workers"]) == ("new", None, "planned", 3)
    assert sum(new["after"]["nodes"].values()) == 3
    assert not any(job.name == "new" for job in service.ledger.snapshot.jobs.values())


async def test_a_job_that_would_wait_is_told_its_place_and_who_is_ahead_as_the_queue_has_them() -> None:
    service = running()
    (queued,) = (await service.ask("/queue"))["jobs"]
    large = {"workers": 50, "requests": {"cpu": "1"}, "namespace": "team"}
    big, new = (await ask(service, shape=large))["jobs"]
    assert (queued["name"], queued["position"], new["name"], big["name"]) == ("big", 1, "what-if", "big")
    assert (new["before"], new["after"]["position"], new["after"]["ahead"]) == (None, 1, "")
    assert (big["before"]["position"], big["after"]["position"], big["after"]["ahead"]) == (1, 2, "team/what-if")
    (starts,) = (await ask(service, add_nodes=[{"like": "n1", "count": 2}]))["jobs"]
    assert (starts["before"]["position"], starts["after"]["position"], starts["after"]["ahead"]) == (1, None, "")


async def test_a_shape_is_answered_as_its_manifest_is() -> None:
    shape = {"workers": 3, "requests": {"cpu": "1", "memory": "1Gi"}, "namespace": "team"}
    found, said = await ask(running(), shape=shape), await ask(running(), job=TFJOB)
    (by_shape,), (by_manifest,) = found["jobs"], said["jobs"]
    assert by_shape["after"]["nodes"] == by_manifest["after"]["nodes"]
    assert (by_shape["name"], by_shape["namespace"]) == ("what-if", "team")


async def test_a_name_that_the_api_server_would_make_is_made_up() -> None:
    unnamed = changed("metadata", {"generateName": "sweep-", "namespace": "team"})
    (new,) = (await ask(running(), job=unnamed))["jobs"]
    assert new["name"] == "sweep-what-if"


async def test_a_shape_has_bounds_and_ps() -> None:
    shape = {"workers": 60, "ps": 1, "min_workers": 1, "max_workers": 80, "utility": 9, "requests": {"cpu": "1"}}
    assert (await ask(running(), shape=shape))["jobs"][-1]["after"]["state"] == "planned", "its minimum is enough"
    rigid = {"workers": 60, "requests": {"cpu": "1"}}
    found = (await ask(running(), shape=rigid))["jobs"][-1]
    assert found["after"]["waits"]["reason"] == "GangExceedsCluster"


async def test_where_no_number_of_nodes_is_given_one_is_added() -> None:
    shape = {"workers": 60, "requests": {"cpu": "1"}, "namespace": "team"}
    one, two, unsaid = [
        (await ask(running(), shape=shape, add_nodes=[{"like": "n1", **count}]))["jobs"]
        for count in ({"count": 1}, {"count": 2}, {})
    ]
    assert unsaid == one != two


async def test_nodes_that_come_and_go() -> None:
    service = running()
    found = await ask(service, add_nodes=[{"like": "n1", "count": 2}])
    assert [(job["name"], job["after"]["state"]) for job in found["jobs"]] == [("big", "planned")]
    gone = await ask(service, job=TFJOB, remove_nodes=["n1"], cordon=["n2"])
    assert {job["name"]: job["after"]["waits"]["reason"] for job in gone["jobs"]} == {
        "a": "NodesClosed",
        "big": "GangExceedsCluster",  # listed because its place in the queue is further back
        "new": "NodesClosed",
    }


async def test_a_replica_that_follows_answers_as_if_it_led() -> None:
    service = running()
    service.step(Led(False))
    assert (await ask(service, job=TFJOB))["jobs"][-1]["after"]["state"] == "planned"


async def test_nothing_is_said_before_the_ledger_knows_the_cluster() -> None:
    """Before the first list a node that exists would be reported as unknown."""
    answer = await Service(*CLUSTER).client.post("/v1/what-if", json={"cordon": ["n1"]})
    assert answer.status_code == 503
    assert "ask again in a moment" in answer.json()["detail"]


def changed(path: str, value: object) -> dict[str, Any]:
    job = copy.deepcopy(TFJOB)
    *parents, last = path.split(".")
    inner: Any = job
    for parent in parents:
        inner = inner[parent]
    inner[last] = value
    return job


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "a kind that is not known": ({"job": changed("kind", "Pipeline")}, "job.kind", "one of"),
    "a version that is not read": (
        {"job": changed("apiVersion", "kubeflow.org/v1beta1")},
        "job.apiVersion",
        "kubeflow.org/v1 for a TFJob",
    ),
    "a kind of another group": (
        {"job": {**TFJOB, "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}},
        "job.apiVersion",
        "batch/v1 for a Job",
    ),
    "a version of MPIJob that has other fields": (
        {"job": {**TFJOB, "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob"}},
        "job.apiVersion",
        "kubeflow.org/v1 for a MPIJob",
    ),
    "a version that is gone": (
        {"job": {**TFJOB, "apiVersion": "extensions/v1beta1", "kind": "Deployment"}},
        "job.apiVersion",
        "apps/v1 for a Deployment",
    ),
    "no version": ({"job": changed("apiVersion", None)}, "job.apiVersion", "kubeflow.org/v1 for a TFJob"),
    "a number for a name of a job": (
        {"job": changed("metadata", {"name": 7, "generateName": "a-"})},
        "job.metadata.name",
        "or metadata.generateName",
    ),
    "a number for a namespace": (
        {"job": changed("metadata.namespace", 7)},
        "job.metadata.namespace",
        "at most 63 lower-case letters, digits and '-'",
    ),
    "a list for a namespace": ({"job": changed("metadata.namespace", [])}, "job.metadata.namespace", "at most 63"),
    "a namespace with a dot": ({"job": changed("metadata.namespace", "a.b")}, "job.metadata.namespace", "at most 63"),
    "a namespace of a shape": (
        {"shape": {"workers": 1, "requests": {"cpu": "1"}, "namespace": "../x"}},
        "shape.namespace",
        "at most 63 lower-case letters, digits and '-'",
    ),
    "a name with a capital": (
        {"job": changed("metadata.name", "Mnist")},
        "job.metadata.name",
        "at most 253 lower-case",
    ),
    "a generated name that is none": (
        {"job": changed("metadata", {"generateName": "My_", "namespace": "team"})},
        "job.metadata.name",
        "at most 253 lower-case",
    ),
    "no name": ({"job": changed("metadata", {})}, "job.metadata.name", "a name, or metadata.generateName"),
    "another scheduler": (
        {"job": changed("spec.tfReplicaSpecs.Worker.template", {"spec": {}})},
        "job.spec.tfReplicaSpecs.*.template.spec.schedulerName",
        "kohort",
    ),
    "a malformed job": (
        {"job": changed("spec.tfReplicaSpecs.Worker.replicas", -1)},
        "job.spec.tfReplicaSpecs.Worker.replicas",
        "a whole number from 0 to 10000",
    ),
    "a minimum above the maximum": (
        {"job": changed("metadata.annotations", {"kohort.dev/min-workers": "4", "kohort.dev/max-workers": "2"})},
        "job.metadata.annotations.kohort.dev/max-workers",
        "4 or more, which is kohort.dev/min-workers",
    ),
    "a job of another gang": (
        {
            "job": changed(
                "metadata.ownerReferences",
                [
                    {
                        "kind": "JobSet",
                        "apiVersion": "jobset.x-k8s.io/v1alpha2",
                        "name": "set",
                        "uid": "u",
                        "controller": True,
                    }
                ],
            )
        },
        "job.metadata",
        "ask about the object that it belongs to",
    ),
    "the name of a job that is there": (
        {"job": changed("metadata.name", "a")},
        "job.metadata.name",
        "that no job has yet",
    ),
    "an unknown node": ({"cordon": ["n9"]}, "cordon", "one of n1, n2"),
    "an unknown shape": ({"add_nodes": [{"like": "n9"}]}, "add_nodes.0.like", "one of n1, n2"),
    "too many nodes": ({"add_nodes": [{"like": "n1", "count": 10**6}]}, "add_nodes.0.count", "from 1 to 500"),
    "too many nodes in all": (
        {"add_nodes": [{"like": "n1", "count": 300}, {"like": "n2", "count": 300}]},
        "add_nodes",
        "at most 500",
    ),
    "too many names": ({"cordon": ["n1"] * 501}, "cordon", "at most 500"),
    "a job of too many members": (
        {"job": changed("spec.tfReplicaSpecs.Worker.replicas", 9_000)},
        "job",
        "at most 5000 members",
    ),
    "an unknown policy": ({"policy": "magic"}, "policy", "known are"),
    "parameters of nothing": ({"parameters": {"a": 1}}, "parameters", "only together with policy"),
    "a shape beside a job": ({"job": TFJOB, "shape": {"workers": 1, "requests": {"cpu": "1"}}}, "shape", "either"),
    "a shape without workers": (
        {"shape": {"workers": 0, "requests": {}}},
        "shape.workers",
        "a whole number from 1 to 100000",
    ),
    "a shape of no amount": (
        {"shape": {"workers": 1, "requests": {"cpu": "much"}}},
        "shape.requests.cpu",
        "a Kubernetes quantity such as 500m or 8Gi",
    ),
    "a shape with a minimum above its maximum": (
        {"shape": {"workers": 4, "requests": {}, "min_workers": 4, "max_workers": 2}},
        "shape.max_workers",
        "4 or more, which is min_workers",
    ),
    "a shape of too many workers": (
        {"shape": {"workers": 20_000, "requests": {}}},
        "shape.workers",
        "a whole number from 0 to 10000",
    ),
    "a shape of too many members": ({"shape": {"workers": 6_000, "requests": {}}}, "shape", "at most 5000 members"),
    "nothing": ({}, "body", "at least one of job, shape, cordon"),
    "an unknown field": ({"jobs": []}, "jobs", "job, shape, cordon"),
    "an unknown field of a part": ({"add_nodes": [{"like": "n1", "x": 1}]}, "add_nodes.0.x", "like, count"),
    "a part without its node": ({"add_nodes": [{}]}, "add_nodes.0.like", "text (the name of an existing node)"),
    "a node for a list": ({"cordon": "n1"}, "cordon", "a list of at most 500 entries"),
    "a number for a name": ({"cordon": [1]}, "cordon.0", "text"),
    "a number for an amount": ({"shape": {"workers": 1, "requests": {"cpu": 1}}}, "shape.requests.cpu", "text"),
    "half a worker": ({"shape": {"workers": 1.5, "requests": {}}}, "shape.workers", "a whole number from 1 to 100000"),
    "no utility": ({"shape": {"workers": 1, "requests": {}, "utility": 0}}, "shape.utility", "a number above 0"),
    "text for a job": ({"job": "a"}, "job", "a JSON object"),
}


@pytest.mark.parametrize(("question", "field", "allowed"), WRONG.values(), ids=WRONG.keys())
async def test_a_wrong_question(question: dict[str, Any], field: str, allowed: str) -> None:
    found = await ask(running(), 422, **question)
    assert found["field"] == field
    assert allowed in found["allowed"]
    assert found["detail"].startswith(f"{field}: ")
    assert found["detail"].count("not allowed") + found["detail"].count("not known") <= 1, "told once"


VALUES: dict[str, tuple[dict[str, Any], object, str]] = {
    "a number for a job": ({"job": 3}, 3, "job: 3 is not allowed"),
    "a number below its bounds": ({"shape": {"workers": 0, "requests": {}}}, 0, "shape.workers: 0 is not allowed"),
    "a truth": ({"policy": True}, True, "policy: true is not allowed"),
    "a part of one": ({"shape": {"workers": 1.5, "requests": {}}}, 1.5, "shape.workers: 1.5 is not allowed"),
    "a number that is too large for some": ({"job": 10**30}, str(10**30), f"job: '{10**30}' is not allowed"),
    "text in a manifest": (
        {"job": changed("spec.tfReplicaSpecs.Worker.replicas", "four")},
        "four",
        "job.spec.tfReplicaSpecs.Worker.replicas: 'four' is not allowed; allowed: a whole number from 0 to 10000",
    ),
    "no scheduler": (
        {"job": changed("spec.tfReplicaSpecs.Worker.template", {"spec": {}})},
        "",
        "job.spec.tfReplicaSpecs.*.template.spec.schedulerName: missing; allowed: kohort",
    ),
    "null for a list": ({"cordon": None}, "", "cordon: missing; allowed: a list of at most 500 entries"),
}


@pytest.mark.parametrize(("question", "value", "detail"), VALUES.values(), ids=VALUES.keys())
async def test_a_value_is_told_as_it_was_given(question: dict[str, Any], value: object, detail: str) -> None:
    found = await ask(running(), 422, **question)
    assert (found["value"], type(found["value"])) == (value, type(value))
    assert found["detail"].startswith(detail)


async def test_a_number_that_json_has_none_for_is_told_as_text() -> None:
    answer = await running().client.post(
        "/v1/what-if", content='{"shape": {"workers": NaN}}', headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["value"]) == (422, "nan")


async def test_nodes_that_would_be_added_are_named_plainly_and_counted_on() -> None:
    more = [{"like": "n1", "count": 2}, {"like": "n1"}]
    found = await ask(running(), job=changed("spec.tfReplicaSpecs.Worker.replicas", 40), add_nodes=more)
    nodes = {name for job in found["jobs"] for name in job["after"]["nodes"] if "added" in name}
    assert nodes <= {"n1 (added 1)", "n1 (added 2)", "n1 (added 3)"}
    assert nodes, found


@pytest.mark.parametrize(
    "body", ['{"cordon": [], "cordon": []}', '{"job": {"kind": "Job", "kind": "TFJob"}}', '{"policy": "", "policy": 1}']
)
async def test_a_key_that_stands_twice_is_refused(body: str) -> None:
    answer = await running().client.post("/v1/what-if", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert "a key is repeated in one object" in answer.json()["detail"]

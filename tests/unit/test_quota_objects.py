"""How ResourceQuotas are read, and which fields of pods and templates matter for quotas alone."""

from typing import Any

import pytest

from extender.kube.api import PODS, QUOTAS, TFJOBS
from extender.kube.podspec import limits_of
from extender.kube.translate import Translator
from policy.cluster.constraints import Requirement
from policy.cluster.events import JobSeen, PodSeen, QuotaGone, QuotaSeen
from policy.cluster.quota import Quota
from policy.cluster.resources import NOTHING, Resources

GIB = 1024**3


def quota(hard: dict[str, Any], used: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    meta = {"namespace": "team", "name": "few", "uid": "uid", "resourceVersion": "7"}
    return {"metadata": meta, "spec": spec, "status": {"hard": hard, "used": used or {}}}


def read(item: dict[str, Any]) -> Quota:
    (event,) = Translator("kohort").events(QUOTAS, {"type": "MODIFIED", "object": item})
    assert isinstance(event, QuotaSeen)
    return event.quota


def test_what_pods_are_counted_by_is_read_under_the_name_of_a_pods_charge() -> None:
    hard = {
        "requests.cpu": "4", "memory": "8Gi", "requests.nvidia.com/gpu": "2", "limits.cpu": "1500m", "pods": "10",
        "count/pods": "20", "requests.storage": "1Ti", "services": "5", "count/jobs.batch": "3",
        "gold.storageclass.storage.k8s.io/requests.storage": "1Ti",
    }  # fmt: skip
    found = read(quota(hard, {"requests.cpu": "500m", "pods": "3"}))
    assert found.hard == Resources(
        {"cpu": 4000, "memory": 8 * GIB, "nvidia.com/gpu": 2, "limits.cpu": 1500, "pods": 10, "count/pods": 20}
    )
    assert found.hard.amounts.keys() == found.left.amounts.keys()
    assert found.used == Resources({"cpu": 500, "pods": 3})
    assert (found.key, found.uid, found.version, found.scopes) == ("team/few", "uid", 7, ())


def test_of_two_entries_for_the_same_the_one_that_leaves_less_counts() -> None:
    found = read(quota({"cpu": "4", "requests.cpu": "3"}, {"cpu": "1", "requests.cpu": "1"}))
    assert found.left == Resources({"cpu": 2000})


def test_scopes_of_both_forms_are_read() -> None:
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high", "low"]}]}
    found = read(quota({"pods": "1"}, scopes=["NotBestEffort"], scopeSelector=selector))
    assert found.scopes == (
        Requirement("NotBestEffort", "Exists", ()), Requirement("PriorityClass", "In", ("high", "low")),
    )  # fmt: skip


@pytest.mark.parametrize("bad", ["many", -1, None, [], {}])
def test_a_malformed_amount_is_left_out(bad: Any) -> None:
    assert read(quota({"pods": bad, "cpu": "1"})).hard == Resources({"cpu": 1000})


def test_a_quota_without_a_status_limits_nothing_yet() -> None:
    item = quota({})
    del item["status"]
    assert read(item).hard == NOTHING


def test_a_deleted_quota_is_gone_and_one_without_a_name_is_ignored() -> None:
    translator, item = Translator("kohort"), quota({"pods": "1"})
    assert translator.events(QUOTAS, {"type": "DELETED", "object": item}) == [QuotaGone("team/few")]
    del item["metadata"]["name"]
    assert translator.events(QUOTAS, {"type": "ADDED", "object": item}) == []


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"resources": {"limits": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("spec", "millicores"),
    [
        ({"containers": [container("1"), container("2")]}, 3000),
        ({"containers": [container("1")], "initContainers": [container("4")]}, 4000),
        ({"containers": [container("1")], "initContainers": [container("2", restartPolicy="Always")]}, 3000),
        ({"containers": [container("1")], "resources": {"limits": {"cpu": "5"}}}, 5000),
        ({"containers": [container("1")], "overhead": {"cpu": "500m"}}, 1500),
        ({"containers": [{}], "overhead": {"cpu": "500m"}}, 0),
    ],
)
def test_the_limits_of_a_pod(spec: dict[str, Any], millicores: int) -> None:
    assert limits_of(spec, "spec") == Resources({"cpu": millicores})


def test_a_template_and_a_pod_show_what_only_quotas_count() -> None:
    spec = {
        "schedulerName": "kohort", "priorityClassName": "high", "activeDeadlineSeconds": 60,
        "containers": [{"name": "tensorflow", **container("2")}],
    }  # fmt: skip
    meta = {"namespace": "team", "name": "train", "uid": "uid", "resourceVersion": "1"}
    job = {
        "metadata": meta, "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1, "template": {"spec": spec}}}},
    }  # fmt: skip
    translator = Translator("kohort")
    (event,) = translator.events(TFJOBS, {"type": "ADDED", "object": job})
    assert isinstance(event, JobSeen)
    (role,) = event.job.roles
    assert (role.limits, role.priority_class, role.ends) == (Resources({"cpu": 2000}), "high", True)
    *_, seen = translator.events(PODS, {"type": "ADDED", "object": {"metadata": meta, "spec": spec}})
    assert isinstance(seen, PodSeen)
    assert seen.pod.limits == Resources({"cpu": 2000})

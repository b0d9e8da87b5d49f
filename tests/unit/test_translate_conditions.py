"""A pod's conditions, nomination and volumes are translated into facts."""

from __future__ import annotations

from typing import Any

import pytest

from extender.kube.pods import read_pod
from policy.cluster.pod import Pod

Json = dict[str, Any]


def read(status: Json | None = None, scheduler: str = "kohort", **spec: Any) -> Pod:
    meta = {"name": "p-0", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    item = {"metadata": meta, "spec": {"schedulerName": scheduler, "containers": [], **spec}, "status": status or {}}
    return read_pod(item, "kohort")


def conditions(**fields: str) -> Json:
    return {"conditions": [fields]}


def test_a_nominated_pod_of_another_scheduler_claims_the_room_of_its_node() -> None:
    pod = read({"nominatedNodeName": "n1"}, "default-scheduler", priority=7)
    assert (pod.nominated, pod.priority, pod.claims) == ("n1", 7, True)


@pytest.mark.parametrize(
    ("status", "spec"),
    [
        ({}, {}),
        ({"nominatedNodeName": "n1"}, {"nodeName": "n1"}),
        ({"nominatedNodeName": "n1", "phase": "Failed"}, {}),
        ({"nominatedNodeName": "n1"}, {"schedulerName": "kohort"}),
    ],
    ids=["not nominated", "bound", "ended", "ours"],
)
def test_who_claims_no_room(status: Json, spec: Json) -> None:
    assert not read(status, **{"schedulerName": "default-scheduler", **spec}).claims


def test_a_victim_of_preemption_is_known_by_its_condition_alone() -> None:
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    assert read(conditions(**mark)).preempted
    assert not read(conditions(**mark | {"status": "False"})).preempted
    assert not read(conditions(**mark | {"reason": "EvictionByEvictionAPI"})).preempted
    assert not read().preempted


@pytest.mark.parametrize(("reason", "failed"), [("Unschedulable", False), ("SchedulerError", True)])
def test_an_attempt_that_failed_is_told_from_a_refusal(reason: str, failed: bool) -> None:
    pod = read(conditions(type="PodScheduled", status="False", reason=reason, message="why"))
    assert (pod.refused, pod.refusal, pod.failed_attempt) == (True, "why", failed)
    assert not read(conditions(type="PodScheduled", status="True", reason=reason)).failed_attempt


def test_the_claims_of_a_member_are_known_by_name() -> None:
    volumes = [
        {"name": "b", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "c", "emptyDir": {}},
        {"name": "d", "persistentVolumeClaim": None},
        "malformed",
    ]
    assert read(volumes=volumes).volumes == ("data", "p-0-a")
    assert read(volumes=None).volumes == ()
    assert read(scheduler="default-scheduler", volumes=volumes).volumes == ()

"""The real service with a small cluster in its ledger, and a fake API server that records its writes."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from extender.app import Live
from extender.clock import Clock
from extender.config.settings import Settings
from extender.kube.api import NODES, PODS, TFJOBS, Resource
from policy.cluster.events import Led, Synced
from policy.cluster.snapshot import Snapshot
from tests.stage import FakeApi

Json = dict[str, Any]
BORN = "2026-11-21T09:00:00Z"
RUNNING, WAITING = "team/job-runs", "team/job-waits"


def node(name: str, cpu: str = "10") -> Json:
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": "5", "labels": {"zone": "a"}}
    ready = {"type": "Ready", "status": "True"}
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    return {
        "metadata": meta, "spec": {"taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]},
        "status": {"conditions": [ready], "allocatable": allocatable},
    }  # fmt: skip


def template(cpu: str) -> Json:
    container = {"name": "tensorflow", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {"metadata": {"annotations": {}}, "spec": {"schedulerName": "kohort", "containers": [container]}}


def tfjob(name: str, workers: int = 2, cpu: str = "1", namespace: str = "team", **notes: str) -> Json:
    roles = {"PS": (1, cpu), "Worker": (workers, cpu)}
    meta = {
        "name": name, "namespace": namespace, "uid": f"job-{name}", "resourceVersion": "7", "creationTimestamp": BORN,
        "annotations": {f"kohort.dev/{key}": value for key, value in notes.items()},
    }  # fmt: skip
    specs = {role: {"replicas": count, "template": template(size)} for role, (count, size) in roles.items()}
    spec = {"enableDynamicWorker": True, "runPolicy": {"schedulingPolicy": None}, "tfReplicaSpecs": specs}
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": meta, "spec": spec, "status": {}}


def member(job: Json, role: str, index: int, on: str = "") -> Json:
    owner = job["metadata"]
    name = f"{owner['name']}-{role}-{index}"
    ref = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": owner["name"], "uid": owner["uid"]}
    prefix = "training.kubeflow.org/replica"
    meta = {
        "name": name, "namespace": owner["namespace"], "uid": f"uid-{name}", "resourceVersion": "9",
        "creationTimestamp": BORN, "labels": {f"{prefix}-type": role, f"{prefix}-index": str(index)},
        "ownerReferences": [{**ref, "controller": True}],
    }  # fmt: skip
    spec: Json = dict(job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"])
    return {"metadata": meta, "spec": spec | ({"nodeName": on} if on else {}),
            "status": {"phase": "Running" if on else "Pending"}}  # fmt: skip


def stranger(name: str = "stranger") -> Json:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
    meta = {"name": name, "namespace": "other", "uid": f"uid-{name}", "resourceVersion": "3"}
    return {"metadata": meta, "spec": {"schedulerName": "default-scheduler", "containers": [container]}, "status": {}}


class Service:
    """The service with two nodes, a running rigid gang, a waiting gang that is too large, and a foreign pod."""

    def __init__(self) -> None:
        self.api = FakeApi()
        settings = Settings.model_validate({"lease": {"identity": "*"}, "coalesce_seconds": 0})
        self.live = Live(settings, self.api, Clock(), random.Random(1))
        self.runs, self.waits = tfjob("runs"), tfjob("waits", workers=3, cpu="9", utility="0.001")
        self.runners = [member(self.runs, role, i, "n1") for role, i in (("ps", 0), ("worker", 0), ("worker", 1))]
        self.waiter = member(self.waits, "worker", 0)
        self.waiters = [member(self.waits, "ps", 0), self.waiter, *(member(self.waits, "worker", i) for i in (1, 2))]
        self.see(NODES, [node("n1"), node("n2")])
        self.see(TFJOBS, [self.runs, self.waits])
        self.see(PODS, [*self.runners, *self.waiters, stranger()])
        for reflector in self.live.reflectors:
            # No watch runs in this test, so its state is set here.
            reflector.synced, reflector.last_seen = True, float("inf")
        self.live.ledger.step(Led(True), Synced())

    @property
    def snapshot(self) -> Snapshot:
        return self.live.ledger.snapshot

    def see(self, resource: Resource, items: Iterable[Any], change: str = "ADDED") -> None:
        """Give the service these objects as watch events of this type."""
        events = [e for item in items for e in self.live.translator.events(resource, {"type": change, "object": item})]
        self.live.ledger.step(*events)

    def established(self) -> Json:
        """Return what requests must not change in the snapshot: the objects shown at first, and the running gang."""
        known = {item["metadata"]["uid"] for item in (*self.runners, *self.waiters, stranger())}
        shot = self.snapshot
        return {
            "pods": {uid: shot.pods.get(uid) for uid in sorted(known)},
            "jobs": {uid: shot.jobs.get(uid) for uid in (RUNNING, WAITING)},
            "nodes": {name: shot.nodes.get(name) for name in ("n1", "n2")},
            "running": (shot.gang(RUNNING).state, shot.gang(RUNNING).nodes),
        }

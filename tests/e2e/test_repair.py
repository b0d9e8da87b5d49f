"""Tests of a running gang that loses a node: a lighter job makes room for it, or the gang is released and queued."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from extender.kube.jobkinds import RELEASED, SLOT
from tests.controlplane import ControlPlane, ControlPlaneError, NodeShape
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import nodes_of, pods
from tests.e2e.gangs import failed, fresh_kohort, on_node, own_namespace, submit
from tests.e2e.manifests import STOP
from tests.e2e.observer import ClusterObserver
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

Json = dict[str, Any]
REPAIR = 10.0
IN_TIME = 60.0  # A lost pod's successor must run within so many seconds, which are generous: speed is not measured.
OTHERS = "node-2"


@pytest.fixture(scope="module")
def kohort(live_plane: ControlPlane) -> Iterator[Kohort]:
    settings = {"kod2": {"cooldown_seconds": 1}, "release": {"backoff_initial_seconds": 1, "backoff_max_seconds": 4}}
    with fresh_kohort(live_plane, settings | {"barrier": {"repair_seconds": REPAIR}}, "repair") as started:
        yield started


@pytest.fixture
def space(live_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    with own_namespace(live_plane, request.node.name) as name:
        yield name


@contextmanager
def without_node(plane: ControlPlane, name: str) -> Iterator[None]:
    """Delete the node and its pods, as the pod garbage collector would do after 40 s; restore the node at the end."""
    plane.api.delete(f"/api/v1/nodes/{name}")
    lost = plane.api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={name}")["items"]
    for meta in (pod["metadata"] for pod in lost):
        with suppress(ControlPlaneError):  # The pod may be gone already.
            plane.api.delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}?gracePeriodSeconds=0")
    try:
        yield
    finally:
        bring_back(plane, name)


def bring_back(plane: ControlPlane, name: str) -> None:
    """Recreate the node if it is missing, and make it ready."""
    if not plane.api.ok(f"/api/v1/nodes/{name}"):
        manifest = next(m for m in NodeShape().manifests("node") if m["metadata"]["name"] == name)
        plane.api.create("/api/v1/nodes", manifest)
    until(lambda: is_ready(plane, name), "the node ready")


def is_ready(plane: ControlPlane, name: str) -> bool:
    conditions = plane.api.get(f"/api/v1/nodes/{name}")["status"].get("conditions", ())
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)


def fill(plane: ControlPlane, space: str, *, elastic: bool) -> TFJob:
    """Start a light job of a ps and three workers of three cores that fills one node; its minimum is 1 if elastic."""
    least, most = (1, 3) if elastic else (None, None)
    job = TFJob(space, "light", workers=3, least=least, most=most, worker_cpu="3", extra=on_node(OTHERS))
    submit(plane, job, stop_seconds=1)
    until(lambda: len(nodes_of(plane, space, "light")) == 4, "the light job whole")
    return job


def heavy_tfjob(plane: ControlPlane, space: str) -> None:
    """Submit a heavier job whose ps and one worker fit on one node, and whose other worker needs a second node."""
    job = TFJob(space, "heavy", ps_cpu="3", worker_cpu="6", utility="50", dynamic=True)
    submit(plane, job, stop_seconds=1)


def heavy_template() -> Json:
    """Return a template of two pods, each of which needs its own node."""
    container = {"name": "train", "image": "none", "resources": {"requests": {"cpu": "6", "memory": "1Gi"}}}
    return {
        "metadata": {"labels": {"app": "heavy"}, "annotations": {STOP: "1"}},
        "spec": {"schedulerName": "kohort", "containers": [container]},
    }


def heavy_own(plane: ControlPlane, space: str, version: str, kind: str, spec: Json) -> None:
    meta = {"name": "heavy", "namespace": space, "annotations": {"kohort.dev/utility": "50"}}
    manifest = {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
    plane.api.create(f"/apis/{version}/namespaces/{space}/{kind.lower()}s", manifest)


def heavy_stateful_set(plane: ControlPlane, space: str) -> None:
    selector = {"matchLabels": {"app": "heavy"}}
    spec = {"replicas": 2, "selector": selector, "serviceName": "heavy", "podManagementPolicy": "Parallel"}
    heavy_own(plane, space, "apps/v1", "StatefulSet", spec | {"template": heavy_template()})


def heavy_indexed_job(plane: ControlPlane, space: str) -> None:
    template = heavy_template()
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": template}
    heavy_own(plane, space, "batch/v1", "Job", spec)


HEAVY = {"TFJob": (heavy_tfjob, 3), "StatefulSet": (heavy_stateful_set, 2), "Job": (heavy_indexed_job, 2)}


def members(plane: ControlPlane, space: str) -> dict[str, tuple[str, str]]:
    """Return (node, UID) of each running member of the heavy job by its slot, which the binding noted."""
    found = (pod for pod in pods(plane, space) if pod["metadata"]["name"].startswith("heavy-"))
    return {
        pod["metadata"]["annotations"][SLOT]: (pod["spec"]["nodeName"], pod["metadata"]["uid"])
        for pod in found
        if pod["spec"].get("nodeName") and pod["status"].get("phase") == "Running"
    }


def alone(running: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """Return slot and node of a member that shares its node with no other member."""
    hosts = [node for node, _ in running.values()]
    return next((slot, node) for slot, (node, _) in sorted(running.items()) if hosts.count(node) == 1)


def told(plane: ControlPlane, space: str, reason: str) -> list[str]:
    """Return the notes of Events about the heavy job with that reason."""
    events = plane.api.get(f"/apis/events.k8s.io/v1/namespaces/{space}/events")["items"]
    return [e["note"] for e in events if (e["regarding"]["name"], e["reason"]) == ("heavy", reason)]


@pytest.mark.parametrize("kind", HEAVY)
def test_a_lost_member_is_replaced_in_room_that_a_lighter_job_gives(
    live_plane: ControlPlane, kohort: Kohort, space: str, kind: str
) -> None:
    plane, (make, count) = live_plane, HEAVY[kind]
    with ClusterObserver(plane, space) as observer:
        light = fill(plane, space, elastic=True)
        make(plane, space)
        until(lambda: len(members(plane, space)) == count, "the heavy job running")
        before = members(plane, space)
        lost, node = alone(before)
        assert node != OTHERS
        with without_node(plane, node):
            until(lambda: len(members(plane, space)) == count, "whole again", seen=lambda: explained(kohort, space))
            after = members(plane, space)
            assert after[lost][0] == OTHERS
            assert before.items() - after.items() == {(lost, before[lost])}
            until(lambda: told(plane, space, "Repaired"), "an Event")
            assert len(nodes_of(plane, space, "light")) == 2
            if kind == "TFJob":
                assert not failed(plane, TFJob(space, "heavy"))
        assert not failed(plane, light)
        assert observer.deleted("light", "ps") == 0


# Their controllers give a recreated pod the name of the lost pod.
@pytest.mark.parametrize("kind", ["TFJob", "StatefulSet"])
def test_a_member_that_takes_longer_to_stop_than_a_repair_costs_nobody_else(
    live_plane: ControlPlane, kohort: Kohort, space: str, kind: str
) -> None:
    """A deleted worker takes 2.5 repair times to stop, as in a drain; the other members stay, without a release."""
    plane, (make, count) = live_plane, HEAVY[kind]
    make(plane, space)
    until(lambda: len(members(plane, space)) == count, "the job running")
    before = members(plane, space)
    name = next(
        pod["metadata"]["name"] for pod in pods(plane, space) if pod["metadata"]["uid"] == before["worker-1"][1]
    )
    slow = {"metadata": {"annotations": {STOP: str(round(2.5 * REPAIR))}}}
    plane.api.patch(f"/api/v1/namespaces/{space}/pods/{name}", slow)
    plane.api.delete(f"/api/v1/namespaces/{space}/pods/{name}?gracePeriodSeconds=60")
    took = until(lambda: is_another(members(plane, space), before, "worker-1"), "a successor running",
                 seen=lambda: explained(kohort, space))  # fmt: skip
    assert took > 2 * REPAIR, "it stopped too soon to show anything"
    assert members(plane, space)["worker-0"] == before["worker-0"]
    assert told(plane, space, "Released") == []


def is_another(now: dict[str, tuple[str, str]], before: dict[str, tuple[str, str]], slot: str) -> bool:
    """Tell whether the slot's pod now has another UID than before."""
    return slot in now and now[slot][1] != before[slot][1]


def explained(kohort: Kohort, space: str) -> str:
    return str(kohort.get(f"/v1/explain/{space}/heavy"))


def test_a_gang_that_cannot_be_made_whole_is_released_whole_and_queues_with_its_arrival(
    live_plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    """The heavy gang loses a node, and the lighter job is rigid, so the gang waits until the node is back."""
    plane, heavy = live_plane, TFJob(space, "heavy")
    fill(plane, space, elastic=False)
    heavy_tfjob(plane, space)
    until(lambda: len(members(plane, space)) == 3, "the heavy job running")
    before = members(plane, space)
    arrival = kohort.get(f"/v1/jobs/{space}/heavy")["arrival"]
    _, node = alone(before)
    with without_node(plane, node):
        until(lambda: told(plane, space, "Released"), "an Event of the release")
        until(lambda: not members(plane, space), "every member gone")
        until(lambda: waits(kohort, space) == "WaitingForRoom", "queued", seen=lambda: explained(kohort, space))
        assert kohort.get(f"/v1/jobs/{space}/heavy")["arrival"] == arrival
        bring_back(plane, node)
        until(lambda: len(members(plane, space)) == 3, "whole again", seen=lambda: explained(kohort, space))
    assert not failed(plane, heavy)
    item = plane.api.get(heavy.path)
    assert not item["spec"]["runPolicy"].get("suspend")
    assert RELEASED not in item["metadata"]["annotations"]
    assert {uid for _, uid in before.values()}.isdisjoint(uid for _, uid in members(plane, space).values())
    assert len(nodes_of(plane, space, "light")) == 4


def waits(kohort: Kohort, space: str) -> str:
    return str((kohort.get(f"/v1/jobs/{space}/heavy")["waits"] or {}).get("reason", ""))

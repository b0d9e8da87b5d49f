"""Tests of a growth that a ResourceQuota stops: it is reported, undone by patching replicas, and retried later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import job_view, pods, reason
from tests.e2e.gangs import fresh_kohort, own_namespace, submit
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

Json = dict[str, Any]
SECONDS = 5.0
QUOTAS = "/api/v1/namespaces/{}/resourcequotas"


@pytest.fixture(scope="module")
def kohort(live_plane: ControlPlane) -> Iterator[Kohort]:
    settings = {"kod2": {"cooldown_seconds": 1}, "barrier": {"growing_seconds": SECONDS}}
    with fresh_kohort(live_plane, settings, "stalled") as started:
        yield started


@pytest.fixture
def space(live_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    with own_namespace(live_plane, request.node.name) as name:
        yield name
        live_plane.api.delete(QUOTAS.format(name))


def running(plane: ControlPlane, space: str) -> set[str]:
    found = (pod for pod in pods(plane, space) if pod["status"].get("phase") == "Running")
    return {pod["metadata"]["name"] for pod in found}


def asked(plane: ControlPlane, job: TFJob) -> int:
    replicas: int = plane.api.get(job.path)["spec"]["tfReplicaSpecs"]["Worker"]["replicas"]
    return replicas


def told(plane: ControlPlane, space: str) -> list[str]:
    events = plane.api.get(f"/apis/events.k8s.io/v1/namespaces/{space}/events")["items"]
    return [event["note"] for event in events if event["reason"] == "GrowthStalled"]


@pytest.mark.soak
def test_workers_that_a_quota_refuses_are_given_back_and_come_once_it_is_lifted(
    live_plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    plane = live_plane
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "two"}, "spec": {"hard": {"pods": "2"}}}
    plane.api.create(QUOTAS.format(space), quota)
    until(lambda: plane.api.get(f"{QUOTAS.format(space)}/two").get("status", {}).get("hard"), "the quota in force")
    job = submit(plane, TFJob(space, "train", workers=1, least=1, most=4))
    until(lambda: len(running(plane, space)) == 2, "its minimum running")
    first = {pod["metadata"]["uid"] for pod in pods(plane, space)}
    until(lambda: reason(kohort, job) == "GrowthStalled", "reported", seen=lambda: str(job_view(kohort, job)))
    until(lambda: asked(plane, job) == job_view(kohort, job).get("workers") == 1, "its replicas as before")
    assert {pod["metadata"]["uid"] for pod in pods(plane, space)} == first
    until(lambda: any("takes them back" in note for note in told(plane, space)), "an Event")
    assert all("3 of the 4 workers that the job was given have not arrived" in note for note in told(plane, space))
    plane.api.delete(f"{QUOTAS.format(space)}/two")
    until(lambda: len(running(plane, space)) == 5, "grown after a rest", 240)
    assert first <= {pod["metadata"]["uid"] for pod in pods(plane, space)}

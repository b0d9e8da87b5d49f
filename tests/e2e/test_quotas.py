"""Tests of jobs whose pods a ResourceQuota refuses: grown jobs of the namespace are shrunk to make room in the quota.

tests/simulation/test_quota_scenes.py has more such scenes in virtual time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import explained, job_view, pods
from tests.e2e.gangs import fresh_kohort, own_namespace, submit
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

Json = dict[str, Any]
QUOTAS = "/api/v1/namespaces/{}/resourcequotas"
STARTS = 30.0  # A job must start within so many seconds after another job can give it room in the quota.


@pytest.fixture(scope="module")
def kohort(live_plane: ControlPlane) -> Iterator[Kohort]:
    with fresh_kohort(live_plane, {"kod2": {"cooldown_seconds": 5}}, "quotas") as started:
        yield started


@pytest.fixture
def space(live_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    with own_namespace(live_plane, request.node.name) as name:
        yield name
        live_plane.api.delete(QUOTAS.format(name))


def running(plane: ControlPlane, space: str, job: str) -> int:
    return sum(1 for pod in pods(plane, space, job) if pod["status"].get("phase") == "Running")


def limited(plane: ControlPlane, space: str, hard: Json) -> None:
    """Create a quota, and wait until the API server has counted what is used of it."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": hard}}
    plane.api.create(QUOTAS.format(space), quota)
    path = f"{QUOTAS.format(space)}/few"
    until(lambda: plane.api.get(path).get("status", {}).get("used", {}).keys() == hard.keys(), "the quota in force")


def notes(plane: ControlPlane, space: str, reason: str) -> list[str]:
    events = plane.api.get(f"/apis/events.k8s.io/v1/namespaces/{space}/events")["items"]
    return [event["note"] for event in events if event["reason"] == reason]


@pytest.mark.parametrize(
    "hard", [{"pods": "5"}, {"requests.cpu": "5"}, {"count/pods": "5", "requests.memory": "100Gi"}],
    ids=["pods", "cpu", "count"],
)  # fmt: skip
def test_a_grown_job_gives_room_in_a_quota_to_a_job_that_waits_for_pods(
    live_plane: ControlPlane, kohort: Kohort, space: str, hard: Json
) -> None:
    plane = live_plane
    grown = submit(plane, TFJob(space, "grown", workers=1, least=1, most=4))
    until(lambda: running(plane, space, "grown") == 5, "grown", 60, seen=lambda: str(job_view(kohort, grown)))
    limited(plane, space, hard)
    late = submit(plane, TFJob(space, "late", workers=1))
    until(lambda: "ResourceQuota" in explained(kohort, space, "late")[1], "told which quota", STARTS)
    until(lambda: running(plane, space, "late") == 2, "started", STARTS, seen=lambda: str(job_view(kohort, late)))
    assert running(plane, space, "grown") == 3
    cause = f"for {space}/late: ResourceQuota {space}/few"
    until(lambda: any(cause in note for note in notes(plane, space, "Shrinking")), "the cause as an Event")

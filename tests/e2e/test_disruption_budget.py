"""Tests that a job that cannot be suspended migrates by evictions, which PodDisruptionBudgets can forbid."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.controlplane import ControlPlane, ControlPlaneError
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import pods
from tests.e2e.background import Background
from tests.e2e.gangs import fresh_kohort, own_namespace, submit
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import never, until

pytestmark = pytest.mark.full

Json = dict[str, Any]
ROUND = 3.0
IDLE = "node-2"
SETS = "/apis/apps/v1/namespaces/{}/statefulsets"
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
NAME = "done"


@pytest.fixture(scope="module")
def kohort(live_plane: ControlPlane) -> Iterator[Kohort]:
    settings = {
        "policy": "specon",
        "parameters": {"interval": ROUND, "alpha": 0.2, "balance": "off"},
        "barrier": {"checkpoint_seconds": 0, "freeing_seconds": 600},
    }
    with fresh_kohort(live_plane, settings, "budget") as started:
        yield started


@pytest.fixture
def space(live_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    with own_namespace(live_plane, request.node.name) as name:
        yield name
        live_plane.api.delete(BUDGETS.format(name))


@dataclass(slots=True)
class Notes(Background):
    """A thread that reports progress on the object at ``path`` every 1.5 s; report number n has ``metric(n)``."""

    plane: ControlPlane
    path: str
    metric: Callable[[int], float]

    def run(self) -> None:
        """Write reports until the context ends; ignore failed writes, because the next report replaces them."""
        sent = 0
        while not self.stopped.wait(1.5):
            text = f'{{"metric": {self.metric(sent)}, "time": {time.time()}}}'
            with suppress(ControlPlaneError, httpx.TransportError):
                self.plane.api.patch(self.path, {"metadata": {"annotations": {"kohort.dev/progress": text}}})
            sent += 1


def stateful_set(name: str) -> Json:
    labels = {"app": name}
    container = {"name": "train", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    notes = {"kohort.dev/min-workers": "2", "kohort.dev/max-workers": "2", "kohort.dev/migratable": "true"}
    template = {"metadata": {"labels": labels}, "spec": {"schedulerName": "kohort", "containers": [container]}}
    kind = {"serviceName": name, "podManagementPolicy": "Parallel", "selector": {"matchLabels": labels}}
    return {
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "annotations": notes},
        "spec": {"replicas": 2, "template": template, **kind},
    }  # fmt: skip


def budget(name: str) -> Json:
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": name}}},
    }  # fmt: skip


def members(plane: ControlPlane, space: str, name: str) -> dict[str, str]:
    """Return a mapping from UID to node for the job's running pods that are not terminating."""
    found = (pod for pod in pods(plane, space) if pod["metadata"]["name"].startswith(f"{name}-"))
    return {
        pod["metadata"]["uid"]: pod["spec"].get("nodeName", "")
        for pod in found
        if pod["status"].get("phase") == "Running"
    }


def start(plane: ControlPlane, space: str, name: str) -> TFJob:
    """Submit a job of a ps and a worker, and wait until both run; nodes fill in their order."""
    job = submit(plane, TFJob(space, name, workers=1))
    until(lambda: len(members(plane, space, name)) == 2, f"{name} running")
    return job


def refused_evictions(kohort: Kohort) -> float:
    text = httpx.get(f"{kohort.controller_health}/metrics", timeout=60, trust_env=False).text
    wanted = 'kohort_controller_writes_total{kind="Evict",outcome="refused"} '
    return next((float(line.removeprefix(wanted)) for line in text.splitlines() if line.startswith(wanted)), 0.0)


@pytest.mark.soak
def test_a_budget_that_forbids_it_keeps_every_member_and_without_it_the_move_goes_on(
    live_plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    """SpeCon wants to move a converged StatefulSet from a node that it shares with an improving job to an empty node.

    Kohort's evictions are refused until the test deletes the PodDisruptionBudget.
    """
    plane = live_plane
    moving = f"{SETS.format(space)}/{NAME}"
    plane.api.create(SETS.format(space), stateful_set(NAME))
    until(lambda: len(members(plane, space, NAME)) == 2, "the set running")
    start(plane, space, "other")
    third = start(plane, space, "third")
    grows = start(plane, space, "grows")
    before = members(plane, space, NAME)
    assert set(before.values()) == set(members(plane, space, "grows").values()) == {"node-0"}
    plane.api.create(BUDGETS.format(space), budget(NAME))
    kept = f"{BUDGETS.format(space)}/{NAME}"
    until(lambda: plane.api.get(kept)["status"].get("expectedPods") == 2, "the budget counted")
    plane.api.delete(third.path)
    until(lambda: members(plane, space, "third") == {}, "gone")
    with ExitStack() as reporting:
        reporting.enter_context(Notes(plane, moving, lambda n: 1.0 + 0.5**n))
        reporting.enter_context(Notes(plane, grows.path, lambda n: 1000.0 - 10.0 * n))
        until(lambda: refused_evictions(kohort) >= 4 or members(plane, space, NAME) != before, "refused or moved", 150)
        never(lambda: members(plane, space, NAME) != before, "a member gone", 5)
        assert "disruption budget" in kohort.controller.log.read_text()
        plane.api.delete(kept)
        until(lambda: list(members(plane, space, NAME).values()) == [IDLE] * 2, "moved")
    assert before.keys().isdisjoint(members(plane, space, NAME))
    assert set(members(plane, space, "grows").values()) == {"node-0"}

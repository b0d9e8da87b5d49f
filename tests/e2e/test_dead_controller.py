"""With the controller dead: gated pods are seen as such everywhere, and docs/operations.md lets them go by hand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.asking import Json, metric, nodes_of, pods
from tests.e2e.gangs import submit, until, wait_gated
from tests.e2e.tfjobs import TFJob

GUIDE = Path(__file__).parents[2] / "docs/operations.md"
NOTICED = 15  # seconds: the controller is missed after ten


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane.start(workdir=tmp_path_factory.mktemp("dead"), controller_manager=True) as started:
        yield started


@pytest.fixture
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    started = start_kohort(plane, {"gate": "always"})
    yield started
    started.stop()


def gates(pod: Json) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def kohort_queue(kohort: Kohort) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "extender", "queue", "--server", kohort.url]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)


def the_guides_commands(plane: ControlPlane, bin_dir: Path) -> None:
    """Run steps 1 and 3 of the guide with an admin's kubectl."""
    block = re.search(r"```sh\n(# 1\. New pods.*?)```", GUIDE.read_text(), re.DOTALL)
    assert block is not None
    first, rest = block[1].split("# 2. One pod:")
    every = rest[rest.index("# 3. All of them:") :]
    kubectl = bin_dir / "kubectl"
    kubectl.write_text(
        f'#!/bin/sh\nexec {plane.layout.binaries["kubectl"]} --kubeconfig={plane.admin_kubeconfig} "$@"\n'
    )
    kubectl.chmod(0o755)
    path = f"{bin_dir}:{os.environ['PATH']}"
    subprocess.run(["bash", "-euo", "pipefail", "-c", first + every], env={"PATH": path}, check=True, timeout=60)


def test_gated_pods_are_seen_and_let_go_by_hand(
    plane: ControlPlane, kohort: Kohort, space: str, tmp_path: Path
) -> None:
    wait_gated(plane, space)
    first = submit(plane, TFJob(space, "first", workers=2))
    until(lambda: len(nodes_of(plane, space, first.name)) == 3, "ungated and bound", 60)
    assert metric(kohort.health, "kohort_controller_last_heard_seconds") < 5
    kohort.controller.kill()
    second = submit(plane, TFJob(space, "second", workers=2))
    until(lambda: len(pods(plane, space)) == 6, "the pods there", 30)

    def warned() -> bool:
        return "[!]controller" in httpx.get(f"{kohort.health}/readyz", trust_env=False).text

    until(warned, "missed", NOTICED + 10)
    answer = httpx.get(f"{kohort.health}/readyz", trust_env=False)
    assert answer.status_code == 200, "the extender itself is ready"
    assert "gated pods are not released (3 now)" in answer.text
    assert metric(kohort.health, "kohort_gated_pods") == 3
    assert metric(kohort.health, "kohort_controller_last_heard_seconds") >= 10
    shown = kohort_queue(kohort)
    assert "gated pods are not released (3 now)" in shown.stderr
    assert nodes_of(plane, space, second.name) == {}

    the_guides_commands(plane, tmp_path)
    assert [gates(pod) for pod in pods(plane, space)] == [[]] * 6
    until(lambda: len(nodes_of(plane, space, second.name)) == 3, "bound without the controller", 60)
    last = submit(plane, TFJob(space, "last", workers=2))
    until(lambda: len(nodes_of(plane, space, last.name)) == 3, "a new job, which is not gated any more", 60)


def test_decisions_are_events_on_the_job(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    job = submit(plane, TFJob(space, "told", workers=2))
    until(lambda: len(nodes_of(plane, space, job.name)) == 3, "bound", 60)

    def events() -> list[str]:
        found = plane.api.get(f"/apis/events.k8s.io/v1/namespaces/{space}/events")["items"]
        return [item["reason"] for item in found if item["regarding"]["kind"] == "TFJob" and "kohort" in
                item["reportingController"]]  # fmt: skip

    until(lambda: sorted(events()) == ["Bound", "Planned"], "told", 20, events)

"""Tests that kill one part after another: no gang stays half bound, and running jobs go on."""

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
from tests.controlplane.kohort import CHECKOUT, Kohort
from tests.e2e import midway
from tests.e2e.asking import at_barrier, job_view, metric, nodes_of, pods
from tests.e2e.gangs import forget_lease, is_gated, let_go, refused_bindings, submit
from tests.e2e.midway import CORES, LATE, at_the_barrier, bound_whole, half_bound, reborn
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

OPERATIONS = CHECKOUT / "docs" / "operations.md"
MISSED_AFTER = 10  # The extender reports a missing controller after so many seconds.


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with midway.three_nodes(tmp_path_factory.mktemp("parts")) as started:
        yield started


@pytest.fixture(scope="module")
def started(plane: ControlPlane) -> Iterator[Kohort]:
    with midway.patient_kohort(plane, "parts") as kohort:
        yield kohort


@pytest.fixture
def kohort(plane: ControlPlane, started: Kohort) -> Kohort:
    midway.revive(plane, started)
    return started


# -- In the test below, kube-scheduler is down. --------------------------------------------------


def test_scheduler_killed_at_the_barrier(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    """The barrier drops the bind calls of the killed kube-scheduler; those of its successor lead to bindings."""
    job = at_the_barrier(plane, kohort, space)
    kohort.scheduler.crash()
    until(lambda: at_barrier(kohort, job) == 0, "the held binds dropped")
    let_go(plane, space)
    assert nodes_of(plane, space) == {}
    forget_lease(plane)
    kohort.scheduler.restart()
    bound_whole(plane, job)


# -- In the tests below, the extender is down. ---------------------------------------------------


def test_extender_killed_at_the_barrier(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    job = at_the_barrier(plane, kohort, space)
    reborn(kohort)
    assert nodes_of(plane, space) == {}
    let_go(plane, space)
    bound_whole(plane, job)


def test_extender_killed_after_some_of_the_bindings(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    """The API server refuses two of five bindings until the extender has restarted; then the gang is completed."""
    with refused_bindings(plane, space, LATE):
        job = half_bound(plane, space)
        reborn(kohort)
        until(lambda: job_view(kohort, job).get("state") == "repairing", "found again")
        kept = nodes_of(plane, space)
    bound_whole(plane, job)
    assert kept.items() <= nodes_of(plane, space).items(), "completed, not begun anew"
    assert len(set(nodes_of(plane, space).values())) == 1


# -- In the test below, the controller is down. --------------------------------------------------


def commands() -> tuple[str, str, str]:
    """Return the shell lines of docs/operations.md that turn the gate off, ungate all pods, and have kube-scheduler try
    all pending pods.
    """
    text = OPERATIONS.read_text().partition("## When the controller is dead")[2].partition("\n## ")[0]
    block = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert block, "docs/operations.md says how to let gated pods go"
    first, _, all_of_them = block[1].partition("# 2.")
    ungate, _, retry = all_of_them.partition("# 3.")[2].partition("\n")[2].partition("# 4.")
    return first, ungate, retry.partition("\n")[2]


def shell(plane: ControlPlane, folder: Path, script: str) -> str:
    """Run the lines as an administrator would, with kubectl on PATH."""
    kubectl = folder / "kubectl"
    if not kubectl.exists():
        kubectl.symlink_to(plane.layout.binaries["kubectl"])
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "KUBECONFIG": str(plane.admin_kubeconfig),
                                "KUBECACHEDIR": str(plane.workdir / "kubectl-cache")}  # fmt: skip
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, check=False,
                          env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def queue(kohort: Kohort) -> str:
    """Return the output of `kohort queue`."""
    command = [sys.executable, "-m", "extender", "queue", "--server", kohort.url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=CHECKOUT)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def probe(kohort: Kohort) -> str:
    return httpx.get(f"{kohort.health}/readyz", params={"verbose": ""}, trust_env=False).text


def gate(plane: ControlPlane) -> str:
    found = plane.api.get("/api/v1/namespaces/kohort-system/configmaps/kohort-gate")["data"]["gate"]
    return str(found)


def test_controller_dead_gated_pods_are_seen_everywhere_and_let_go_by_hand(
    plane: ControlPlane, kohort: Kohort, space: str, tmp_path: Path
) -> None:
    bound_whole(plane, submit(plane, TFJob(space, "filler", workers=1, ps=0, worker_cpu="4")))
    # This job needs all three nodes and waits; smaller jobs start before it.
    submit(plane, TFJob(space, "blocker", workers=3, ps=0, worker_cpu=str(CORES)))
    until(lambda: gate(plane) == "on", "the gate on while a job waits for room")
    kohort.controller.crash()
    late = submit(plane, TFJob(space, "late", workers=3))
    until(lambda: len(pods(plane, space, "late")) == 4, "all pods created")
    count = sum(map(is_gated, pods(plane, space)))
    assert count >= 4
    until(lambda: metric(kohort.health, "kohort_gated_pods") == count, "counted in the metrics")
    until(lambda: f"({count} now)" in probe(kohort), "the probe's warning")
    assert "[!]controller" in probe(kohort)
    assert httpx.get(f"{kohort.health}/readyz", trust_env=False).is_success, "the extender itself is ready"
    heard = "kohort_controller_last_heard_seconds"
    until(lambda: metric(kohort.health, heard) > MISSED_AFTER, "told in the metrics, which are up to a second old")
    assert f"({count} now)" in queue(kohort)
    assert "warning: controller" in queue(kohort)
    # The job gets a plan, again and again after its plan ran out, but no controller runs that would remove its gates.
    until(lambda: "late" in {plan["name"] for plan in kohort.get("/v1/plans")["plans"]}, "planned",
          seen=lambda: kohort.get("/v1/decisions")["decisions"][-12:])  # fmt: skip
    assert sum(map(is_gated, pods(plane, space))) == count
    off, let_all_go, retry = commands()
    shell(plane, tmp_path, off)
    assert gate(plane) == "off"
    assert shell(plane, tmp_path, let_all_go).count("patched") == count
    assert not any(map(is_gated, pods(plane, space)))
    # A pod that was refused while its gang had no plan is tried again after five minutes, or by hand.
    until(lambda: midway.is_bound(plane, late), "late bound whole", pause=lambda: shell(plane, tmp_path, retry))
    ungated = submit(plane, TFJob(space, "ungated", workers=2))
    until(lambda: midway.is_bound(plane, ungated), "ungated bound whole", pause=lambda: shell(plane, tmp_path, retry))
    kohort.controller.start()
    until(lambda: gate(plane) == "on", "the gate switched by a controller again")
    bound_whole(plane, submit(plane, TFJob(space, "after", workers=2)))


# -- In the test below, the API server and etcd are down. ----------------------------------------


def test_api_server_and_etcd_killed_what_runs_goes_on_and_the_next_gang_is_bound_whole(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    runs = submit(plane, TFJob(space, "runs", workers=4))
    bound_whole(plane, runs)
    before = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods(plane, space)}
    until(lambda: job_view(kohort, runs).get("state") == "running", "known as running")
    etcd, server = plane.processes["etcd"], plane.processes["kube-apiserver"]
    server.crash()
    etcd.crash()
    try:
        assert job_view(kohort, runs)["state"] == "running", "Kohort answers meanwhile"
    finally:
        etcd.start()
        server.start()
        server.wait_until(lambda: plane.api.ok("/readyz"), "it was ready", 180)
    assert kohort.extender.alive
    assert kohort.controller.alive
    midway.revive(plane, kohort)  # kube-scheduler and the operator end when they cannot renew their leases
    bound_whole(plane, submit(plane, TFJob(space, "late", workers=4)))
    assert {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods(plane, space, "runs")} == before

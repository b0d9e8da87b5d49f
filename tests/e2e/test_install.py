"""Tests that installing and uninstalling Kohort leaves the cluster unchanged; every object is compared.

The Deployment's pods run on KWOK's nodes and only claim to be ready. The three processes beside the control plane do
their work, with the rights of the same ServiceAccounts.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane import ControlPlane, ControlPlaneError, NodeShape
from tests.controlplane.kohort import CHECKOUT, start_kohort
from tests.e2e.asking import nodes_of, pods
from tests.e2e.gangs import create_pod, is_gated, lone_pod, submit, wait_gated
from tests.e2e.inventory import Name, events_by, inventory, settled, told_of_waiting
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

MANIFESTS = CHECKOUT / "manifests"
BASE = MANIFESTS / "base"
SYSTEM = "kohort-system"
TEAM = "team"
OVERLAYS = ("overlays/development", "overlays/shared-scheduler")
WITH_EVERYTHING = """
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [{base}]
components: [{api}, {progress}, {monitoring}]
"""
NEXT_IMAGE = """
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [{base}]
images: [{{name: kohort, newTag: next}}]
"""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    workdir = tmp_path_factory.mktemp("install")
    with ControlPlane.start(NodeShape(count=4, cpu="8"), workdir=workdir, controller_manager=True) as started:
        started.start_scheduler()  # The cluster's own scheduler places Kohort's pods.
        started.kubectl("create", "namespace", TEAM)
        until(lambda: started.kubectl("-n", TEAM, "get", "configmaps", "-o", "name"), "the namespace whole")
        yield started


@pytest.fixture(autouse=True)
def left_clean(plane: ControlPlane) -> Iterator[None]:
    """Remove the objects and processes that a failed test leaves, because the next test may be a retry."""
    yield
    for process in [one for one in plane.processes.values() if one.name.startswith(("kohort-", "next-"))]:
        process.stop()
    plane.kubectl("-n", TEAM, "delete", "tfjobs,pods", "--all", "--now")
    if plane.api.ok(f"/api/v1/namespaces/{SYSTEM}"):
        for folder in (BASE, *(MANIFESTS / name for name in OVERLAYS)):
            plane.kubectl("delete", "-k", str(folder), "--ignore-not-found")


def rolled_out(plane: ControlPlane) -> str:
    return plane.kubectl("-n", SYSTEM, "rollout", "status", "deployment", "kohort", "--timeout=180s")


def uninstall(plane: ControlPlane, folder: Path, commands: Path) -> str:
    """Run `uninstall.sh`, which must succeed, and return its output."""
    done = try_uninstall(plane, folder, commands)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def try_uninstall(
    plane: ControlPlane, folder: Path, commands: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run `uninstall.sh` as the cluster's admin with kubectl on PATH; return the finished process."""
    commands.mkdir(exist_ok=True)
    kubectl = commands / "kubectl"
    kubectl.unlink(missing_ok=True)
    kubectl.symlink_to(plane.layout.binaries["kubectl"])
    environment = os.environ | {"KUBECONFIG": str(plane.admin_kubeconfig), "PATH": f"{commands}:{os.environ['PATH']}"}
    return subprocess.run(
        [MANIFESTS / "uninstall.sh", folder], env=environment | variables, capture_output=True, text=True, check=False
    )


def changes(before: dict[Name, str], after: dict[Name, str]) -> dict[Name, str]:
    """Return for each object that differs between two inventories whether it was added, removed or changed."""
    names = before.keys() | after.keys()
    return {n: "added" if n not in before else "removed" if n not in after else "changed" for n in names
            if before.get(n) != after.get(n)}  # fmt: skip


def test_installed_used_and_removed_it_leaves_the_cluster_as_it_was(plane: ControlPlane, tmp_path: Path) -> None:
    before = settled(plane)
    assert warnings(plane, "apply", "-k", str(BASE)) == []
    rolled_out(plane)
    assert plane.kubectl("diff", "-k", str(BASE)) == "", "a second apply changes nothing"
    kohort = start_kohort(plane, {"gate": "always"})
    wait_gated(plane, TEAM)
    runs = submit(plane, TFJob(TEAM, "runs", workers=4, worker_cpu="6"))
    until(lambda: len(nodes_of(plane, TEAM, runs.name)) == 5, "bound")
    waits = submit(plane, TFJob(TEAM, "waits", workers=3, worker_cpu="4"))
    create_pod(plane, TEAM, lone_pod("waits-too", cpu="3"))
    until(lambda: sum(map(is_gated, pods(plane, TEAM))) == 5, "gated")
    # The job is now as after an interrupted release.
    plane.api.patch(waits.path, {"metadata": {"annotations": {"kohort.dev/released": "true"}}})
    plane.api.patch(waits.path, {"spec": {"runPolicy": {"suspend": True}}})
    kohort.stop()
    there = nodes_of(plane, TEAM, runs.name)

    said = uninstall(plane, BASE, tmp_path / "bin")

    until(lambda: len(pods(plane, TEAM, waits.name)) == 4, "the suspended job has gone on")
    create_pod(plane, TEAM, lone_pod("comes-later"))
    assert [pod["metadata"]["name"] for pod in pods(plane, TEAM) if is_gated(pod)] == []
    assert "waits-too" in said, "who waits for nobody is listed"
    assert nodes_of(plane, TEAM, runs.name) == there, "what runs goes on"
    assert events_by(plane, "kohort", "kohort.dev/controller") == []
    left = changes(before, settled(plane))
    beside = {name: how for name, how in left.items() if (name[1], how) != (TEAM, "added")}
    assert not beside, "only the workload is there beside what was"
    for job in (runs, waits):
        plane.kubectl("-n", TEAM, "delete", "tfjob", job.name)
    plane.kubectl("-n", TEAM, "delete", "pods", "waits-too", "comes-later")
    until(lambda: not changes(before, inventory(plane)), "the cluster as it was")


@pytest.mark.full
def test_an_upgrade_leaves_no_gated_pod_behind_and_what_runs_alone(plane: ControlPlane, tmp_path: Path) -> None:
    """The new processes bind the pods that waited under the old ones, and those created in between."""
    before = settled(plane)
    plane.kubectl("apply", "-k", str(BASE))
    rolled_out(plane)
    old = start_kohort(plane, {"gate": "always"})
    wait_gated(plane, TEAM)
    stays = submit(plane, TFJob(TEAM, "stays", workers=4, worker_cpu="6"))
    until(lambda: len(nodes_of(plane, TEAM, stays.name)) == 5, "bound")
    uids = {pod["metadata"]["uid"] for pod in pods(plane, TEAM, stays.name)}
    waits = submit(plane, TFJob(TEAM, "waits", workers=3, worker_cpu="4"))
    create_pod(plane, TEAM, lone_pod("waits-too", cpu="3"))
    until(lambda: sum(map(is_gated, pods(plane, TEAM))) == 5, "gated")
    tells_why(plane, waits)

    (tmp_path / "kustomization.yaml").write_text(NEXT_IMAGE.format(base=os.path.relpath(BASE, tmp_path)))
    plane.kubectl("apply", "-k", str(tmp_path))
    rolled_out(plane)
    old.stop()
    create_pod(plane, TEAM, lone_pod("comes-between"))
    new = start_kohort(plane, {"gate": "always", "kod2": {"cooldown_seconds": 1}}, name="next")
    try:
        until(lambda: nodes_of(plane, TEAM, "").get("comes-between"), "who came while nobody was there is bound")
        assert {pod["metadata"]["uid"] for pod in pods(plane, TEAM, stays.name)} == uids, "what runs goes on"
        plane.kubectl("-n", TEAM, "delete", "tfjob", stays.name)
        bound = {"waits-too", "comes-between", *(pod["metadata"]["name"] for pod in pods(plane, TEAM, waits.name))}
        until(lambda: nodes_of(plane, TEAM).keys() >= bound, "all that waited bound")
        assert not any(map(is_gated, pods(plane, TEAM)))
        assert 1 <= len(told_of_waiting(plane, TEAM)[waits.name]) < 10, "by both controllers"
    finally:
        new.stop()
    plane.kubectl("-n", TEAM, "delete", "tfjob", waits.name)
    plane.kubectl("-n", TEAM, "delete", "pods", "waits-too", "comes-between")
    plane.kubectl("delete", "-k", str(tmp_path))
    until(lambda: not changes(before, inventory(plane)), "the cluster as it was")


def tells_why(plane: ControlPlane, job: TFJob) -> None:
    """Check that `kubectl describe` of a waiting job says what is missing and what would help."""

    def said() -> str:
        return plane.kubectl("-n", TEAM, "describe", "tfjob", job.name)

    until(lambda: "Queued" in said(), "an Event that tells why it waits", seen=said)
    (line,) = [line for line in said().splitlines() if " Queued " in line]
    wanted = (
        "the gang waits for room",
        "cpu",
        "would admit it now: ",
        "wait for the end of team/stays",
    )
    assert [text for text in wanted if text not in line] == [], line


def warnings(plane: ControlPlane, *arguments: str) -> list[str]:
    """Run kubectl, and return the API server's warnings, for example on the restricted pod security standard."""
    command = [str(plane.layout.binaries["kubectl"]), f"--kubeconfig={plane.admin_kubeconfig}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("Warning")]


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    """Return a custom overlay with all components."""
    relative = {name: os.path.relpath(MANIFESTS / path, tmp_path) for name, path in {
        "base": "base", **{name: f"components/{name}" for name in ("api", "progress", "monitoring")},
    }.items()}  # fmt: skip
    (tmp_path / "kustomization.yaml").write_text(WITH_EVERYTHING.format(**relative))
    return tmp_path


@pytest.mark.full
@pytest.mark.parametrize("name", [*OVERLAYS, "everything"])
def test_every_overlay_is_taken_starts_and_goes(plane: ControlPlane, everything: Path, name: str) -> None:
    folder = everything if name == "everything" else MANIFESTS / name
    before = settled(plane)
    assert warnings(plane, "apply", "-k", str(folder)) == []
    wanted = 1 if name.endswith("development") else 2
    # Wait for the pods, not only the Deployment, because the namespace's `restricted` standard could refuse pods.
    until(lambda: len(running(plane)) == wanted, "all of its pods")
    plane.kubectl("delete", "-k", str(folder))
    until(lambda: not changes(before, inventory(plane)), "the cluster as it was")


@pytest.mark.full
def test_what_the_clusters_own_scheduler_asks_is_not_taken_out_before_its_extender(
    plane: ControlPlane, tmp_path: Path
) -> None:
    folder, before = MANIFESTS / "overlays/shared-scheduler", settled(plane)
    plane.kubectl("apply", "-k", str(folder))
    until(lambda: len(running(plane)) == 2, "both pods")
    there = inventory(plane).keys()
    refused = try_uninstall(plane, folder, tmp_path / "bin")
    assert (refused.returncode, "EXTENDER_REMOVED=yes" in refused.stderr) == (1, True), refused
    assert inventory(plane).keys() >= there, "nothing is taken out"
    done = try_uninstall(plane, folder, tmp_path / "bin", EXTENDER_REMOVED="yes")
    assert done.returncode == 0, done.stdout + done.stderr
    until(lambda: not changes(before, inventory(plane)), "the cluster as it was")


def running(plane: ControlPlane) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods(plane, SYSTEM) if pod["status"].get("phase") == "Running"]


@pytest.mark.full
@pytest.mark.parametrize("path", sorted((MANIFESTS / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_is_taken(plane: ControlPlane, path: Path) -> None:
    assert warnings(plane, "apply", "--dry-run=server", "-f", str(path)) == []


@pytest.mark.full
def test_a_pod_that_is_not_restricted_is_refused_in_the_namespace(plane: ControlPlane) -> None:
    plane.apply(BASE / "namespace.yaml")
    try:
        with pytest.raises(ControlPlaneError, match="violates PodSecurity"):
            create_pod(plane, SYSTEM, lone_pod("careless"))
    finally:
        plane.kubectl("delete", "namespace", SYSTEM)

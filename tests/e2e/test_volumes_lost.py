"""Tests of a member whose volume is missing: its gang reports it and backs off, and other gangs start meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import explained, nodes_of
from tests.e2e.gangs import fresh_kohort, on_node
from tests.e2e.waiting import until

Json = dict[str, Any]
GHOST = {
    "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "ghost"},
    "provisioner": "ghost.example.com/none", "volumeBindingMode": "WaitForFirstConsumer",
}  # fmt: skip
ONLY = "volumes-0"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield a control plane with a controller manager and one node, and without a provisioner of volumes."""
    workdir = tmp_path_factory.mktemp("volumes")
    with ControlPlane.start(nodes=None, workdir=workdir, controller_manager=True) as started:
        started.add_nodes(NodeShape(count=1, cpu="8", gpu=0), "volumes")
        started.apply(GHOST)
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    with fresh_kohort(plane, {}, "volumes") as started:
        yield started


def claim(plane: ControlPlane, space: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "ghost",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    plane.api.create(f"/api/v1/namespaces/{space}/persistentvolumeclaims", manifest)


def two_pods(plane: ControlPlane, space: str, name: str, *, volume: bool = False, node: str = ONLY) -> None:
    """Create an Indexed Job: a gang of two members of three cores each, which fits on one node."""
    container: Json = {"name": "m", "image": "none", "resources": {"requests": {"cpu": "3"}}}
    spec: Json = {"schedulerName": "kohort", "restartPolicy": "Never", "containers": [container], **on_node(node)}
    if volume:
        container["volumeMounts"] = [{"name": "d", "mountPath": "/d"}]
        spec["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    meta = {"name": name, "namespace": space}
    job = {"completionMode": "Indexed", "parallelism": 2, "completions": 2, "template": {"spec": spec}}
    path = f"/apis/batch/v1/namespaces/{space}/jobs"
    plane.api.create(path, {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": job})


def whole(plane: ControlPlane, space: str, name: str) -> bool:
    return sum(pod.startswith(f"{name}-") for pod in nodes_of(plane, space)) == 2


def says(kohort: Kohort, space: str, name: str, words: str) -> bool:
    return words in explained(kohort, space, name)[1]


def wait_to_be_told(kohort: Kohort, space: str, words: str) -> None:
    until(
        lambda: says(kohort, space, "withpvc", words), f"told {words!r}",
        seen=lambda: explained(kohort, space, "withpvc"),
    )  # fmt: skip


def test_a_gang_without_its_volume_names_it_and_does_not_keep_the_room(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    claim(plane, space)
    two_pods(plane, space, "withpvc", volume=True)
    wait_to_be_told(kohort, space, "which asks for the volume data")
    two_pods(plane, space, "plain")
    seconds = until(lambda: whole(plane, space, "plain"), "the gang without volumes started")
    print(f"the innocent gang started after {seconds:.1f} s")
    assert not any(pod.startswith("withpvc") for pod in nodes_of(plane, space))


@pytest.mark.full
@pytest.mark.timeout(700, func_only=True)
def test_a_volume_that_comes_after_a_minute_still_binds(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    claim(plane, space)
    two_pods(plane, space, "withpvc", volume=True)
    wait_to_be_told(kohort, space, "which asks for the volume data")
    path = f"/api/v1/namespaces/{space}/persistentvolumeclaims/data"
    asked = "volume.kubernetes.io/selected-node"
    until(lambda: asked in plane.api.get(path)["metadata"].get("annotations", {}), "asked for")
    with pytest.raises(AssertionError):
        until(lambda: nodes_of(plane, space), "bound without its volume", 60)
    provision(plane, space, plane.api.get(path))
    # By then the gang backs off for up to two minutes at a time, and an attempt may fail for another reason.
    seconds = until(lambda: whole(plane, space, "withpvc"), "the gang started", 400)
    print(f"the gang started {seconds:.1f} s after its volume came")


def provision(plane: ControlPlane, space: str, claimed: Json) -> None:
    """Create the persistent volume that the claim asks for, as a provisioner would."""
    meta = claimed["metadata"]
    ref = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": space, "name": "data", "uid": meta["uid"]}
    provisioned = {"pv.kubernetes.io/provisioned-by": GHOST["provisioner"]}
    plane.api.create("/api/v1/persistentvolumes", {
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{meta['uid']}", "annotations": provisioned},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "ghost",
            "claimRef": ref, "hostPath": {"path": "/nowhere"},
        },
    })  # fmt: skip

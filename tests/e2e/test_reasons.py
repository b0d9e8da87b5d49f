"""Tests of the explanations for gangs without room: each names what is missing, and adding that starts the gang."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.asking import cli, explained, nodes_of
from tests.e2e.gangs import submit
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield a node that takes three pods, one with eight devices, and one that each test may cordon."""
    with ControlPlane.start(nodes=None, workdir=tmp_path_factory.mktemp("reasons")) as started:
        started.add_nodes(NodeShape(count=1, cpu="8", gpu=0, pods=3, labels={"for": "few"}), "few")
        started.add_nodes(NodeShape(count=1, cpu="8", gpu=8, labels={"for": "devices"}), "devices")
        started.add_nodes(NodeShape(count=1, cpu="8", gpu=0, labels={"for": "closed"}), "closed")
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    started = start_kohort(plane)
    yield started
    started.stop()


def on(node: str, **more: Any) -> Json:
    return {"nodeSelector": {"for": node}, **more}


def waits(kohort: Kohort, job: TFJob, reason: str, detail: str) -> None:
    def told() -> bool:
        found, why = explained(kohort, job.namespace, job.name)
        return found == reason and why.startswith(detail)

    until(told, f"{reason}: {detail}", seen=lambda: explained(kohort, job.namespace, job.name))


def starts(plane: ControlPlane, job: TFJob) -> None:
    until(lambda: len(nodes_of(plane, job.namespace, job.name)) == job.workers, f"{job.name} bound whole")


def test_the_number_of_pods_that_a_node_takes(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    four = submit(plane, TFJob(space, "four", workers=4, ps=0, worker_cpu="100m", extra=on("few")))
    waits(kohort, four, "GangExceedsCluster", "members ask for 4 pods in all, the nodes open to it have 3 pods")
    assert "lacks 1 pod" in cli(kohort, "explain", f"{space}/four")
    plane.kubectl("patch", "node", "few-0", "--subresource=status", "-p", '{"status":{"allocatable":{"pods":"4"}}}')
    starts(plane, four)


def test_a_device_of_a_sidecar_and_of_the_container_beside_it(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    each = {"name": "tensorflow", "image": "x", "resources": {"limits": {GPU: "8"}}}
    sidecar = {**each, "name": "sidecar", "restartPolicy": "Always"}
    extra = on("devices", containers=[each], initContainers=[sidecar])
    job = submit(plane, TFJob(space, "both", workers=1, ps=0, extra=extra))
    waits(kohort, job, "GangExceedsCluster", f"a worker asks for 16 {GPU}, no node open to it has more than 8 {GPU}")
    told = cli(kohort, "explain", f"{space}/both")
    assert f"needs 1 worker of 16 {GPU}" in told
    assert f"devices-0 8 cpu 32Gi 8 {GPU} 8 {GPU}" in told, "what is free, and what is lacking"


def test_a_cordoned_node(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    plane.kubectl("cordon", "closed-0")
    job = submit(plane, TFJob(space, "two", workers=2, ps=0, extra=on("closed")))
    waits(kohort, job, "NodesClosed", "closed-0 is cordoned")
    assert "uncordon node closed-0" in cli(kohort, "explain", f"{space}/two")
    plane.kubectl("uncordon", "closed-0")
    starts(plane, job)


def test_members_of_a_running_job_beyond_the_room_there_is(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    job = submit(plane, TFJob(space, "grown", workers=2, ps=0, worker_cpu="3", extra=on("closed")))
    starts(plane, job)
    workers = "/spec/tfReplicaSpecs/Worker/replicas"
    plane.kubectl("patch", "tfjob", "grown", "-n", space, "--type=json", "-p", patch(workers, 4))
    detail = "2 of 4 members have no node: a worker asks for 3 cpu, no node open to it has more than 2 cpu"
    waits(kohort, job, "MembersWaitForRoom", detail)
    assert f"{space}/grown TFJob {detail}" in cli(kohort, "queue")
    assert "placed in part (closed-0: 2); 2 of its members have no node" in cli(kohort, "explain", f"{space}/grown")
    plane.kubectl("patch", "tfjob", "grown", "-n", space, "--type=json", "-p", patch(workers, 2))
    until(lambda: explained(kohort, space, "grown") == ("", ""), "nothing waits any more")


def patch(path: str, value: object) -> str:
    return json.dumps([{"op": "replace", "path": path, "value": value}])

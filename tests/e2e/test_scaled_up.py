"""Tests of a running Deployment that is scaled up beyond the room: commands, Events and pods say which pods wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import cli, explained, metric, nodes_of
from tests.e2e.gangs import fresh_kohort
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

Json = dict[str, Any]
CORES, ASKED = 3, 5
DETAIL = f"{ASKED - CORES} of {ASKED} members have no node: a worker asks for 1 cpu"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    shape, workdir = NodeShape(count=1, cpu=str(CORES), gpu=0), tmp_path_factory.mktemp("scaled")
    with ControlPlane.start(nodes=shape, workdir=workdir, controller_manager=True) as started:
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    with fresh_kohort(plane, {"kod2": {"cooldown_seconds": 1}}, "scaled") as started:
        yield started


def rigid(name: str, space: str, **more: Any) -> Json:
    """Return a Deployment of one pod without Kohort's annotations; ``more`` goes into its container."""
    container = {"name": "train", "image": "none", "resources": {"requests": {"cpu": "1"}}, **more}
    pod = {"metadata": {"labels": {"app": name}}, "spec": {"schedulerName": "kohort", "containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "strategy": {"type": "Recreate"}}
    meta = {"name": name, "namespace": space}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {**spec, "template": pod}}


def told(plane: ControlPlane, space: str, name: str) -> set[str]:
    """Return the reasons of the Events on that object."""
    found = plane.api.get(f"/apis/events.k8s.io/v1/namespaces/{space}/events")["items"]
    return {one["reason"] for one in found if one["regarding"]["name"] == name}


def test_a_deployment_that_is_scaled_beyond_the_room(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    plane.apply(rigid("rd", space))
    until(lambda: len(nodes_of(plane, space)) == 1, "bound")
    plane.kubectl("scale", "deployment", "rd", "-n", space, f"--replicas={ASKED}")
    until(
        lambda: explained(kohort, space, "rd")[1].startswith(DETAIL),
        "explained",
        seen=lambda: explained(kohort, space, "rd"),
    )
    assert explained(kohort, space, "rd")[0] == "MembersWaitForRoom"
    assert len(nodes_of(plane, space)) == CORES
    assert f"{space}/rd Deployment {DETAIL}" in cli(kohort, "queue")
    assert DETAIL in cli(kohort, "jobs", "-n", space)
    shown = cli(kohort, "explain", f"{space}/rd")
    assert f"placed in part (node-0: {CORES}); {ASKED - CORES} of its members have no node" in shown
    assert "placed whole" not in shown
    assert metric(kohort.health, "kohort_unplaced_members") == ASKED - CORES
    assert "Grown" not in told(plane, space, "rd")
    plane.kubectl("scale", "deployment", "rd", "-n", space, f"--replicas={CORES}")
    until(lambda: explained(kohort, space, "rd") == ("", ""), "nothing waits any more")
    until(lambda: metric(kohort.health, "kohort_unplaced_members") == 0, "counted no more")


def test_a_host_port_that_only_one_pod_of_a_node_can_have(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    plane.apply(rigid("port", space, ports=[{"containerPort": 8080, "hostPort": 8080}]))
    until(lambda: len(nodes_of(plane, space)) == 1, "bound")
    plane.kubectl("scale", "deployment", "port", "-n", space, "--replicas=2")
    until(
        lambda: explained(kohort, space, "port")[1].startswith("1 of 2 members has no node"), "explained",
        seen=lambda: explained(kohort, space, "port"),
    )  # fmt: skip
    assert "host port TCP/8080" in explained(kohort, space, "port")[1]
    assert "host port TCP/8080" in cli(kohort, "queue")

"""Tests of a planned gang that loses a node, a member or its room: its plan is given up in time, with a reason.

Here no other nodes have room for the gang. test_recovery.py has the same events with other room and tests of failing
bindings; test_promises.py has quotas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import at_barrier, explained, nodes_of, plan_of, pods
from tests.e2e.gangs import (
    allow_holds,
    create_pod,
    fresh_kohort,
    let_go,
    lone_pod,
    no_operator,
    on_node,
    submit,
    window,
)
from tests.e2e.observer import ClusterObserver
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

Json = dict[str, Any]
IN_TIME = 30.0
LOST = "node-1"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield three nodes of ten cores, with the default scheduler beside Kohort's."""
    with ControlPlane.start(workdir=tmp_path_factory.mktemp("between"), controller_manager=True) as started:
        allow_holds(started)
        started.start_scheduler()
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    settings = window(8) | {
        "release": {"backoff_initial_seconds": 2, "backoff_max_seconds": 8},
        "kod2": {"cooldown_seconds": 1},
    }
    with fresh_kohort(plane, settings, "between") as started:
        yield started


def at_the_barrier(plane: ControlPlane, kohort: Kohort, space: str) -> TFJob:
    """Return a gang that needs all three nodes; its workers are held in bind, because its ps is held by a gate."""
    job = submit(plane, TFJob(space, "gang", workers=2, worker_cpu="10", ps_cpu="10"), hold="PS")
    until(lambda: at_barrier(kohort, job) == 2, "every worker at the barrier")
    return job


def said(kohort: Kohort, job: TFJob) -> set[str]:
    """Return the reasons for which plans of the job were given up, from ``/v1/decisions``."""
    told = kohort.get("/v1/decisions")["decisions"]
    mine = (d for d in told if (d["job"] or {}).get("namespace") == job.namespace and d["action"] == "Released")
    return {d["reason"] for d in mine}


@contextmanager
def cordoned(plane: ControlPlane, job: TFJob) -> Iterator[None]:
    plane.kubectl("cordon", LOST)
    yield
    plane.kubectl("uncordon", LOST)


@contextmanager
def deleted(plane: ControlPlane, job: TFJob) -> Iterator[None]:
    plane.api.delete(f"/api/v1/nodes/{LOST}")
    yield
    manifest = next(m for m in NodeShape().manifests("node") if m["metadata"]["name"] == LOST)
    plane.api.create("/api/v1/nodes", manifest)


@contextmanager
def without_a_member(plane: ControlPlane, job: TFJob) -> Iterator[None]:
    """Stop the operator and delete a worker that is held in bind, so that nothing recreates the worker."""
    with no_operator(plane):
        plane.api.delete(f"/api/v1/namespaces/{job.namespace}/pods/{job.name}-worker-1")
        yield


@contextmanager
def stolen(plane: ControlPlane, job: TFJob) -> Iterator[None]:
    where = f"/api/v1/namespaces/{job.namespace}/pods/thief"
    create_pod(plane, job.namespace, lone_pod("thief", scheduler="default-scheduler", **on_node(LOST)))
    until(lambda: nodes_of(plane, job.namespace).get("thief") == LOST, "the room stolen")
    yield
    plane.api.delete(where)


Mishap = Callable[[ControlPlane, TFJob], AbstractContextManager[None]]
# By event: the event, the reason for which the plan is given up, and the reason for which the job then waits.
MISHAPS: dict[str, tuple[Mishap, str, str]] = {
    "its node is cordoned": (cordoned, "PlannedNodeNotOffered", "NodesClosed"),
    "its node is deleted": (deleted, "PlannedNodeNotOffered", "GangExceedsCluster"),
    "a member is deleted": (without_a_member, "WaitingForPods", "WaitingForPods"),
    "its room is stolen": (stolen, "RoomTaken", "RoomHeldByOtherPods"),
}


@pytest.mark.parametrize(("mishap", "given_up", "waits"), MISHAPS.values(), ids=MISHAPS.keys())
def test_the_plan_is_given_up_at_once_and_said_why(
    plane: ControlPlane, kohort: Kohort, space: str, mishap: Mishap, given_up: str, waits: str
) -> None:
    with ClusterObserver(plane, space) as watch:
        job = at_the_barrier(plane, kohort, space)
        with mishap(plane, job):
            took = until(lambda: given_up in said(kohort, job), "given up")
            until(lambda: explained(kohort, space, job.name)[0] == waits, f"waits because of {waits}")
            print(f"given up after {took:.1f} s: {given_up}; waits: {explained(kohort, space, job.name)}")
            assert not plan_of(kohort, job)
            let_go(plane, space)
            assert nodes_of(plane, space, job.name) == {}
        until(lambda: len(nodes_of(plane, space, job.name)) == 3, "bound whole")
        assert watch.partial_seconds(job.name, 3) < 2


def test_a_job_deleted_in_mid_scale_is_let_go_and_both_sides_are_told(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    """The heavy job is deleted while a light job shrinks for it; the light job grows back."""
    light = submit(plane, TFJob(space, "light", workers=29, least=2, most=29), stop_seconds=3)
    until(lambda: len(nodes_of(plane, space, light.name)) == 30, "the light job bound")
    heavy = submit(plane, TFJob(space, "heavy", workers=20, utility="100"))
    until(lambda: explained(kohort, space, heavy.name)[0] == "RoomBeingFreed", "the heavy job told why")
    shrunk = kohort.get(f"/v1/jobs/{space}/light")
    assert shrunk["workers"] < 29
    plane.api.delete(heavy.path)
    until(lambda: kohort.get(f"/v1/jobs/{space}/light")["workers"] == 29, "the light job given all")
    until(lambda: len(nodes_of(plane, space, light.name)) == 30, "the light job whole again")
    assert not [pod for pod in pods(plane, space) if pod["metadata"]["name"].startswith("heavy")]
    told = kohort.get("/v1/decisions")["decisions"]
    turns = [d["direction"] for d in told if d["action"] == "Resize" and (d["job"] or {}).get("namespace") == space]
    assert {"in", "out"} <= set(turns)

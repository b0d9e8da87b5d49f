"""Tests of SpeCon on the real control plane: a converged job leaves a crowded node once; false reports do not count."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort
from tests.controlplane.ports import free_ports
from tests.e2e.asking import nodes_of, pods
from tests.e2e.gangs import crash, fresh_kohort, own_namespace, submit
from tests.e2e.reports import Flood, Trainee, token
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import never, until

pytestmark = pytest.mark.full

Json = dict[str, Any]
ROUND = 3.0
CHECKPOINT = 100.0
IDLE = "node-2"
ACCOUNT = {"serviceAccountName": "default"}


@pytest.fixture(scope="module")
def plane(live_plane: ControlPlane) -> ControlPlane:
    return live_plane


@pytest.fixture(scope="module")
def port() -> int:
    (found,) = free_ports(1)
    return found


@pytest.fixture(scope="module")
def kohort(live_plane: ControlPlane, port: int) -> Iterator[Kohort]:
    settings = {
        "policy": "specon",
        "parameters": {"interval": ROUND, "alpha": 0.2},
        "barrier": {"checkpoint_seconds": CHECKPOINT},
        "progress": {"enabled": True, "host": "127.0.0.1", "port": port, "interval_seconds": 0.5},
    }
    with fresh_kohort(live_plane, settings, "specon") as started:
        yield started


@pytest.fixture
def space(live_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    with own_namespace(live_plane, request.node.name) as name:
        until(partial(live_plane.api.ok, f"/api/v1/namespaces/{name}/serviceaccounts/default"), "given its account")
        yield name


def start(plane: ControlPlane, space: str, name: str, *, migratable: bool = False) -> TFJob:
    """Submit a job of a ps and a worker, and wait until both run; nodes fill in their order."""
    job = TFJob(space, name, workers=1, extra=ACCOUNT, notes={"migratable": "true"} if migratable else None)
    submit(plane, job)
    until(lambda: running(plane, job) == 2, f"{name} running")
    return job


def running(plane: ControlPlane, job: TFJob) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in pods(plane, job.namespace, job.name))


def uids(plane: ControlPlane, *jobs: TFJob) -> set[str]:
    return {pod["metadata"]["uid"] for job in jobs for pod in pods(plane, job.namespace, job.name)}


def is_on(plane: ControlPlane, job: TFJob, node: str) -> bool:
    return running(plane, job) == 2 and set(nodes_of(plane, job.namespace, job.name).values()) == {node}


def migrations(kohort: Kohort) -> list[Json]:
    return [entry for entry in kohort.get("/v1/decisions")["decisions"] if entry["action"] == "Migrate"]


def test_a_converged_job_leaves_a_crowded_node_once_whatever_others_tell(
    plane: ControlPlane, kohort: Kohort, space: str, port: int
) -> None:
    """One of two jobs on node-0 has converged, so SpeCon moves it to the empty node, once.

    The other job on node-0 still improves. A job on node-1 sends false reports as fast as it can, without effect.
    """
    done = start(plane, space, "done", migratable=True)
    liar = start(plane, space, "liar", migratable=True)
    third = start(plane, space, "third")
    grows = start(plane, space, "grows", migratable=True)
    assert set(nodes_of(plane, space, "done").values()) == set(nodes_of(plane, space, "grows").values()) == {"node-0"}
    plane.api.delete(third.path)
    until(lambda: not pods(plane, space, "third"), "gone")
    others = uids(plane, liar, grows)
    lies: tuple[tuple[object, str], ...] = (
        (b'{"metric": NaN}', ""), (b'{"metric": 1e999}', ""), (b'{"metric": -1e14}', ""), ({"metric": 0.0}, "done"),
        ({"metric": 1e9}, "grows"), ({"metric": 7.0}, ""), (b"[" * 5000, ""), ({"steps": -1}, ""),
    )  # fmt: skip
    began = time.monotonic()
    with ExitStack() as reporting:
        enter = reporting.enter_context
        converged = enter(Trainee(plane, port, space, "done", lambda n: 1.0 + 0.5**n))
        growing = enter(Trainee(plane, port, space, "grows", lambda n: 1000.0 - 10.0 * n))
        flood = enter(Flood(port, token(plane, "liar-worker-0", space), lies, space))
        until(lambda: is_on(plane, done, IDLE), "moved to the idle node")
        # The job reported its checkpoint, so Kohort moved it before the whole checkpoint time was over.
        assert time.monotonic() - began < CHECKPOINT
        (move,) = migrations(kohort)
        assert (move["job"]["name"], set(move["nodes"].values())) == ("done", {IDLE})
        crash(kohort)
        moved = uids(plane, done)
        never(lambda: uids(plane, done) != moved, "moved again", 4 * ROUND)
    assert uids(plane, liar, grows) == others
    assert migrations(kohort) == []  # The restarted extender has made no move since its start.
    assert set(growing.answers) <= {204, 200, 429, 503}
    assert converged.asked == 1
    assert growing.asked == 0
    assert converged.answers.count(204) > 10
    assert {403, 422, 429} <= flood.answers.keys(), flood.answers
    notes = json.loads(plane.api.get(grows.path)["metadata"]["annotations"]["kohort.dev/reports"])
    assert all(metric <= 1000.0 for _, metric, _ in notes)
    print(f"flood: {flood.answers}")


def test_who_reports_nothing_is_never_moved(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    silent = [start(plane, space, f"silent-{n}", migratable=True) for n in range(2)]
    before = uids(plane, *silent)
    time.sleep(4 * ROUND)
    assert uids(plane, *silent) == before

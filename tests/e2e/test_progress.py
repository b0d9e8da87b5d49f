"""Tests of progress reports with real tokens, whose owner the real API server determines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort, start_kohort
from tests.controlplane.ports import free_ports
from tests.e2e.reports import AUDIENCE, post, token
from tests.e2e.tfjobs import TFJOBS, TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

Json = dict[str, Any]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane.start(workdir=tmp_path_factory.mktemp("progress"), controller_manager=True) as started:
        started.start_scheduler()
        yield started


@pytest.fixture(scope="module")
def port() -> int:
    (found,) = free_ports(1)
    return found


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane, port: int) -> Iterator[Kohort]:
    progress = {"enabled": True, "host": "127.0.0.1", "port": port, "interval_seconds": 0.1}
    started = start_kohort(plane, {"progress": progress})
    yield started
    started.stop()


@pytest.fixture(scope="module")
def jobs(plane: ControlPlane, kohort: Kohort) -> tuple[TFJob, TFJob]:
    plane.kubectl("create", "namespace", "team")
    until(partial(plane.api.ok, "/api/v1/namespaces/team/serviceaccounts/default"), "given its account")
    account = {"serviceAccountName": "default"}  # The plugin that would set the account is off.
    made = TFJob("team", "a", workers=1, extra=account), TFJob("team", "b", workers=1, extra=account)
    for job in made:
        plane.api.create(TFJOBS.format(namespace="team"), job.manifest())
    for job in made:
        until(partial(runs, plane, f"/api/v1/namespaces/team/pods/{job.name}-worker-0"), "running")
    return made


def runs(plane: ControlPlane, path: str) -> bool:
    return plane.api.ok(path) and plane.api.get(path)["status"].get("phase") == "Running"


def written(plane: ControlPlane, job: TFJob) -> list[Any]:
    notes = plane.api.get(job.path)["metadata"].get("annotations") or {}
    found: list[Any] = json.loads(notes.get("kohort.dev/reports", "[]"))
    return found


def test_a_member_reports_and_the_job_holds_it(plane: ControlPlane, jobs: tuple[TFJob, TFJob], port: int) -> None:
    answer = post(port, token(plane, "a-worker-0"), {"metric": 0.5, "step": 1, "steps": 4}, "a")
    assert (answer.status_code, answer.text) == (204, "")
    until(lambda: written(plane, jobs[0]), "written on the job")
    assert [entry[1:] for entry in written(plane, jobs[0])] == [[0.5, 0.25]]


def test_nobody_reports_for_another_job_and_no_other_token_is_good(
    plane: ControlPlane, jobs: tuple[TFJob, TFJob], port: int
) -> None:
    a, body = token(plane, "a-worker-0"), {"metric": 99}
    assert post(port, a, body, "b").status_code == 403
    assert post(port, token(plane, "b-worker-0", audience="https://kubernetes.default.svc"), body).status_code == 401
    assert post(port, plane.kubectl("create", "token", "default", "-n", "team", f"--audience={AUDIENCE}").strip(),
                body).status_code == 401  # fmt: skip
    assert post(port, a[:-5] + "AAAAA", body).status_code == 401
    assert post(port, "", body).status_code == 401
    assert written(plane, jobs[1]) == []

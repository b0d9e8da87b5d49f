"""Tests that `/v1/what-if` predicts for a job what happens when it is submitted to the real control plane."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.controlplane import ControlPlane, ControlPlaneError, NodeShape
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.asking import pods
from tests.e2e.gangs import own_namespace
from tests.e2e.tfjobs import TFJOBS, TFJob
from tests.e2e.waiting import at_rest, until

pytestmark = pytest.mark.full

Json = dict[str, Any]
QUIET_SECONDS = 1.5
ROUNDS, SOAK_ROUNDS = 5, 50


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield three nodes of ten cores."""
    shape = NodeShape(count=3, cpu="10")
    with ControlPlane.start(shape, workdir=tmp_path_factory.mktemp("whatif"), controller_manager=True) as started:
        started.start_scheduler()
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    started = start_kohort(plane, {"kod2": {"cooldown_seconds": 1}})
    yield started
    started.stop()


def ask(kohort: Kohort, manifest: Json) -> dict[str, Json]:
    """Ask `/v1/what-if` about a new job; return by name the predicted state of each job that would change."""
    answer = httpx.post(f"{kohort.url}/v1/what-if", json={"job": manifest}, timeout=60, trust_env=False)
    assert answer.status_code == httpx.codes.OK, answer.text
    return {job["name"]: job["after"] for job in answer.json()["jobs"]}


def calm(kohort: Kohort) -> bool:
    """Tell whether every gang with a plan is running and the controller has nothing to write."""
    wanted = kohort.get("/v1/desired")
    orders = [wanted[kind] for kind in ("ungate", "wake", "replicas", "suspend", "release", "evict")]
    return not any(orders) and {plan["state"] for plan in kohort.get("/v1/plans")["plans"]} <= {"running"}


def settle(kohort: Kohort) -> None:
    """Wait until Kohort has been calm for a while and has made no new decision in that time."""
    until(lambda: at_rest(lambda: (calm(kohort), latest(kohort)), QUIET_SECONDS)[0], "quiet",
          seen=lambda: kohort.get("/v1/plans"))  # fmt: skip


def latest(kohort: Kohort) -> int:
    """Return the number of the newest decision."""
    return int(kohort.get("/v1/decisions")["latest"])


def where(plane: ControlPlane, job: TFJob) -> dict[str, str]:
    """Return the node of each bound member of the job by its name in the job, such as "worker-0"."""
    return {
        pod["metadata"]["name"].removeprefix(f"{job.name}-"): pod["spec"]["nodeName"]
        for pod in pods(plane, job.namespace, job.name)
        if pod["spec"].get("nodeName")
    }


def drawn(draw: random.Random, space: str, number: int) -> TFJob:
    """Return a random job: rigid or elastic, light or heavy, and sometimes too large for a node."""
    least = draw.randint(1, 4)
    elastic = draw.random() < 0.6
    return TFJob(
        space, f"job-{number}", workers=least, ps=draw.randint(0, 1), least=least if elastic else None,
        most=least + draw.randint(1, 4) if elastic else None, worker_cpu=draw.choice(("1", "2", "3", "11")),
        utility=draw.choice(("1", "3", "30")) if elastic else "",
    )  # fmt: skip


def came_so(plane: ControlPlane, kohort: Kohort, job: TFJob, foretold: dict[str, Json]) -> None:
    """Check that the prediction came true: the members' nodes, or reason and queue position, and the shrinks."""
    told = foretold[job.name]
    if told["members"]:
        until(lambda: len(where(plane, job)) >= len(told["members"]), f"{told} bound")
        placed = where(plane, job)
        assert {member: placed[member] for member in told["members"]} == told["members"]
        until(
            lambda: told["workers"] in given(kohort, job),
            f"{told['workers']} workers given",
            seen=lambda: given(kohort, job),
        )
    else:
        until(lambda: reason(kohort, job) == told["waits"]["reason"], f"waiting as said: {told['waits']}")
        queued = {name: after["position"] for name, after in foretold.items() if after["position"]}
        until(lambda: queued.items() <= positions(kohort).items(), f"queued as said: {queued}")
    shrunk = {
        one["job"]["name"]: one["workers"]
        for one in kohort.get("/v1/decisions")["decisions"]
        if one["on_behalf_of"] == f"{job.namespace}/{job.name}"
    }
    assert shrunk == {name: after["workers"] for name, after in foretold.items() if name != job.name and name in shrunk}
    pushed_back = {name for name, after in foretold.items() if after["position"]}
    assert shrunk.keys() == foretold.keys() - pushed_back - {job.name}


def given(kohort: Kohort, job: TFJob) -> list[int]:
    """Return the number of workers in each decision about the job; its start may be followed by growth at once."""
    decisions = kohort.get("/v1/decisions")["decisions"]
    return [one["workers"] for one in decisions if (one["job"] or {}).get("name") == job.name and one["workers"]]


def positions(kohort: Kohort) -> dict[str, int]:
    """Return each waiting job's position in the queue."""
    return {one["name"]: one["position"] for one in kohort.get("/v1/queue")["jobs"]}


def reason(kohort: Kohort, job: TFJob) -> str:
    answer = httpx.get(f"{kohort.url}/v1/explain/{job.namespace}/{job.name}", timeout=60, trust_env=False)
    waits = answer.json().get("waits") if answer.status_code == httpx.codes.OK else None
    return waits["reason"] if waits else ""


def run(plane: ControlPlane, kohort: Kohort, space: str, seed: int, rounds: int) -> list[str]:
    """Predict and submit random jobs in turn, deleting some to free room; return each job's predicted outcome."""
    draw, there, became = random.Random(seed), list[TFJob](), list[str]()
    for number in range(rounds):
        if len(there) > 4:
            gone = there.pop(draw.randrange(len(there)))
            plane.api.delete(gone.path)
            until(lambda: not where(plane, gone), f"{gone.name} gone")  # noqa: B023 - within this round
        settle(kohort)
        job = drawn(draw, space, number)
        foretold = ask(kohort, job.manifest())
        plane.api.create(TFJOBS.format(namespace=space), job.manifest())
        came_so(plane, kohort, job, foretold)
        there.append(job)
        waits = foretold[job.name]["waits"]
        became.append(waits["reason"] if waits else f"{foretold[job.name]['workers']} workers")
    return became


# API versions of job kinds that neither this cluster nor Kohort knows.
VERSIONS = {
    "MPIJob": "kubeflow.org/v2beta1",
    "TFJob": "kubeflow.org/v1beta1",
    "Job": "batch.volcano.sh/v1alpha1",
    "Deployment": "extensions/v1beta1",
}


@pytest.mark.parametrize(("kind", "version"), VERSIONS.items())
def test_a_version_that_the_api_server_does_not_have_is_refused(
    plane: ControlPlane, kohort: Kohort, tmp_path: Path, kind: str, version: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: j, namespace: default}}\nspec: {{}}\n")
    with pytest.raises(ControlPlaneError, match=f'no matches for kind "{kind}" in version "{version}"'):
        plane.kubectl("apply", "--dry-run=server", "-f", str(file))
    command = [sys.executable, "-m", "extender", "what-if", "-f", str(file), "--server", kohort.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"apiVersion: '{version}' is not allowed; allowed: " in done.stderr


def test_what_is_told_is_what_then_happens(plane: ControlPlane, kohort: Kohort) -> None:
    with own_namespace(plane, "whatif") as space:
        became = run(plane, kohort, space, seed=3, rounds=ROUNDS)
    print(became)
    assert len(set(became)) > 1


@pytest.mark.soak
@pytest.mark.timeout(1800, func_only=True)
def test_what_is_told_is_what_then_happens_fifty_times(plane: ControlPlane, kohort: Kohort) -> None:
    with own_namespace(plane, "whatif-long") as space:
        became = run(plane, kohort, space, seed=1000, rounds=SOAK_ROUNDS)
    print(became)
    assert len(set(became)) > 3

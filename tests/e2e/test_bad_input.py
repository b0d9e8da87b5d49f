"""Tests of malformed TFJobs and pods: each is refused with a clear reason, none is bound, others are not affected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from policy.cluster.reasons import Reason
from tests.controlplane import ControlPlane, ControlPlaneError
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.asking import explained, nodes_of, pods, refusal
from tests.e2e.malformed import BadJob, bad_jobs, too_large
from tests.e2e.observer import INDEX_LABEL, JOB_LABEL, ROLE_LABEL, ClusterObserver
from tests.e2e.tfjobs import TFJOBS, TFJob
from tests.e2e.waiting import never, until

Json = dict[str, Any]
BAD = "bad"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield a control plane without controller manager.

    The garbage collector of a controller manager would delete pods whose owner does not exist.
    """
    with ControlPlane.start(workdir=tmp_path_factory.mktemp("badinput")) as started:
        for name in (BAD, "good"):
            started.kubectl("create", "namespace", name)
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    started = start_kohort(plane, {"gate": "never"})  # The condition of a gated pod would not show Kohort's refusal.
    yield started
    started.stop()


@pytest.fixture(scope="module")
def good(plane: ControlPlane, kohort: Kohort) -> Json:
    """Return a job that runs during all tests."""
    job = TFJob("good", "runs", workers=3)
    made = plane.api.create(TFJOBS.format(namespace="good"), job.manifest())
    until(lambda: len(nodes_of(plane, "good", "runs")) == 4, "the good job bound")
    return made


@pytest.fixture(autouse=True)
def tidied(plane: ControlPlane) -> Iterator[None]:
    """Remove what a test leaves, except the good job, because the next test may be a retry."""
    yield
    members = {"runs-ps-0", *(f"runs-worker-{index}" for index in range(3))}
    for space, stay in ((BAD, set[str]()), ("good", {"runs", *members})):
        for path in (TFJOBS.format(namespace=space), f"/api/v1/namespaces/{space}/pods"):
            for name in {item["metadata"]["name"] for item in plane.api.get(path)["items"]} - stay:
                with suppress(ControlPlaneError):  # The pod may be gone by now.
                    plane.api.delete(f"{path}/{name}?gracePeriodSeconds=0")


@dataclass(slots=True)
class Faults:
    """Which bad jobs the API server has taken, and the names of those that it has refused."""

    taken: list[BadJob] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def submit(plane: ControlPlane, jobs: list[BadJob], faults: Faults) -> None:
    for job in jobs:
        try:
            plane.api.create(TFJOBS.format(namespace=BAD), job.manifest(BAD))
        except ControlPlaneError as error:
            faults.refused.append(job.name if ": 400 " in str(error) or ": 422 " in str(error) else str(error))
        else:
            faults.taken.append(job)


def missing(job: BadJob, told: tuple[str, str]) -> str:
    """Return a message if the reason differs from the expected one or an expected text is missing, else ""."""
    reason, detail = told
    if reason != job.reason:
        return f"{job.name}: {reason or 'nothing'} instead of {job.reason}: {detail}"
    at = 0
    for text in job.told:
        at = detail.find(text, at)
        if at < 0:
            return f"{job.name}: {text!r} is missing in {detail!r}"
        at += len(text)
    return ""


def wrong(kohort: Kohort, jobs: list[BadJob]) -> list[str]:
    return [fault for job in jobs if (fault := missing(job, explained(kohort, BAD, job.name)))]


def await_explained(kohort: Kohort, jobs: list[BadJob]) -> None:
    until(lambda: not wrong(kohort, jobs), "every job told what is wrong", seen=lambda: "\n".join(wrong(kohort, jobs)))


def assert_unharmed(plane: ControlPlane, kohort: Kohort) -> None:
    """Check that both processes live without a traceback, no call of kube-scheduler failed, and the good job runs."""
    assert kohort.extender.alive
    assert kohort.controller.alive
    assert "with extender at URL" not in kohort.scheduler.log.read_text()
    for process in (kohort.extender, kohort.controller):
        assert "Traceback" not in process.log.read_text(), process.tail()
    assert httpx.get(f"{kohort.health}/readyz", trust_env=False).is_success
    assert len(nodes_of(plane, "good", "runs")) == 4


def test_jobs_that_no_cluster_could_take_are_told_so(plane: ControlPlane, kohort: Kohort, good: Json) -> None:
    faults = Faults()
    submit(plane, too_large(), faults)
    assert not faults.refused
    await_explained(kohort, faults.taken)
    for job in faults.taken:
        plane.api.delete(f"{TFJOBS.format(namespace=BAD)}/{job.name}")
    assert_unharmed(plane, kohort)


@pytest.mark.full
def test_a_hundred_malformed_jobs_are_refused_by_name_and_disturb_nobody(
    plane: ControlPlane, kohort: Kohort, good: Json
) -> None:
    jobs = [job for job in bad_jobs() if not job.heavy]
    half, faults = len(jobs) // 2, Faults()
    with ClusterObserver(plane, "good") as observer, ClusterObserver(plane, BAD) as witness:
        for name in ("before", "during"):
            if name == "during":
                submit(plane, jobs[:half], faults)
            plane.api.create(TFJOBS.format(namespace="good"), TFJob("good", name, workers=2).manifest())
            if name == "during":
                submit(plane, jobs[half:], faults)
            until(lambda name=name: len(observer.bound_now(name)) == 3, f"{name} bound")  # type: ignore[misc]
        await_explained(kohort, faults.taken)
        born = {job.name for job in faults.taken if job.name.startswith(("min-", "max-", "utility-", "template-"))}
        until(lambda: refusing(plane) >= born, "pods refused", seen=lambda: born - refusing(plane))
        texts = refusals(plane)
        changed = lambda: {name for name, text in refusals(plane).items() if text != texts.get(name, text)}  # noqa: E731
        never(changed, "another text on the same pod", 3)
        assert not [seen for seen in witness.sightings if seen.bound]
    print(f"{len(jobs)} malformed jobs: {len(faults.refused)} refused by the API server, {len(faults.taken)} by Kohort")
    assert faults.refused == [job.name for job in jobs if job.server]
    assert len(faults.taken) >= 100
    assert_unharmed(plane, kohort)


def refusing(plane: ControlPlane) -> set[str]:
    """Return the names of the bad jobs with a pod whose condition calls the job malformed."""
    return {pod["metadata"]["labels"][JOB_LABEL] for pod in pods(plane, BAD) if Reason.INVALID.text in refusal(pod)}


def refusals(plane: ControlPlane) -> dict[str, str]:
    """Return by pod name kube-scheduler's message in each refused pod's condition PodScheduled."""
    return {pod["metadata"]["name"]: text for pod in pods(plane, BAD) if (text := refusal(pod))}


# -- In the tests below, pods are malformed or forged. -------------------------------------------


def owned(kind: str, name: str, uid: str, version: str = "kubeflow.org/v1") -> Json:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def pod(namespace: str, name: str, owner: Json | None = None, role: str = "worker", index: str = "0") -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {ROLE_LABEL: role, INDEX_LABEL: index},
            "ownerReferences": [owner] if owner else [],
        },
        "spec": {"schedulerName": "kohort", "containers": [container]},
    }


def forged(uid: str) -> list[Json]:
    """Return pods with a false identity; ``uid`` is the good job's."""
    runs, nobody = owned("TFJob", "runs", uid), owned("TFJob", "nobody", "00000000-0000-0000-0000-000000000000")
    return [
        pod(BAD, "of-a-replicaset", owned("ReplicaSet", "web", uid, "apps/v1")),
        pod(BAD, "of-another-group", owned("TFJob", "runs", uid, "example.com/v1")),
        pod(BAD, "runs-worker-0", runs),  # The named owner is in another namespace.
        pod(BAD, "nobody-worker-0", nobody),
        pod("good", "a-wrong-name", runs, index="7"),
        pod("good", "runs-worker-x", runs, index="x"),
        pod("good", "runs-worker-00", runs, index="00"),
        pod("good", "runs-worker-01", runs, index="01"),
        pod("good", "runs-worker-99999999", runs, index="99999999"),
        pod("good", "runs-boss-0", runs, role="boss"),
        pod("good", "runs-ps-1", runs, role="ps", index="1"),
        pod("good", "runs-worker-7", runs, index="7"),
    ]


def test_forged_pods_are_refused_and_do_no_harm_to_the_job_that_they_name(
    plane: ControlPlane, kohort: Kohort, good: Json
) -> None:
    before = bound_members(kohort)
    fakes = forged(good["metadata"]["uid"])
    for fake in fakes:
        plane.api.create(f"/api/v1/namespaces/{fake['metadata']['namespace']}/pods", fake)
    names = {(fake["metadata"]["namespace"], fake["metadata"]["name"]) for fake in fakes}
    texts: dict[tuple[str, str], str] = {}

    def all_told() -> bool:
        texts.clear()
        for namespace in (BAD, "good"):
            for found in pods(plane, namespace):
                key = (namespace, found["metadata"]["name"])
                if key in names:
                    assert not found["spec"].get("nodeName"), key
                    texts[key] = refusal(found)
        return all(texts.values())

    until(all_told, "every forged pod refused", seen=lambda: texts)
    expected = (Reason.UNKNOWN_JOB, Reason.NOT_A_MEMBER, Reason.SURPLUS)
    for key, text in sorted(texts.items()):
        print(key, text)
        assert any(reason.text in text for reason in expected), (key, text)
    assert texts[BAD, "runs-worker-0"].count(Reason.UNKNOWN_JOB.text)
    assert bound_members(kohort) == before
    for namespace, name in names:
        plane.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}")
    assert_unharmed(plane, kohort)


def bound_members(kohort: Kohort) -> list[Json]:
    return [member for member in kohort.get("/v1/jobs/good/runs")["members"] if member["state"] == "bound"]


BROKEN_PODS: list[tuple[str, Json]] = [
    ("quantity", {"containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "many"}}}]}),
    ("negative", {"containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "-1"}}}]}),
    ("fraction", {"containers": [{"name": "a", "image": "a", "resources": {"limits": {"nvidia.com/gpu": "1.5"}}}]}),
    ("port", {"containers": [{"name": "a", "image": "a", "ports": [{"containerPort": 80, "hostPort": 70000}]}]}),
    ("nothing", {"containers": []}),
    ("toleration", {"containers": [{"name": "a", "image": "a"}], "tolerations": [{"operator": "Bogus"}]}),
]


@pytest.mark.full
@pytest.mark.parametrize(("name", "spec"), BROKEN_PODS, ids=[name for name, _ in BROKEN_PODS])
def test_the_server_itself_refuses_pods_with_wrong_quantities(plane: ControlPlane, name: str, spec: Json) -> None:
    body = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": BAD},
        "spec": {"schedulerName": "kohort", **spec},
    }  # fmt: skip
    with pytest.raises(ControlPlaneError, match=r": (400|422) "):
        plane.api.create(f"/api/v1/namespaces/{BAD}/pods", json.loads(json.dumps(body)))


# This test is the last, because the operator needs a while to recover from objects that it cannot parse.
@pytest.mark.full
def test_jobs_that_would_drown_the_operator_are_refused_too(plane: ControlPlane, kohort: Kohort, good: Json) -> None:
    jobs, faults = [job for job in bad_jobs() if job.heavy], Faults()
    operator = plane.processes["training-operator"]
    operator.pause()
    try:
        submit(plane, jobs, faults)
        await_explained(kohort, faults.taken)
        print(f"{[job.name for job in faults.taken]} refused by Kohort, {faults.refused} by the API server")
        assert {job.name for job in faults.taken} >= {"workers-0", "workers-1"}
    finally:
        for job in faults.taken:
            plane.api.delete(f"{TFJOBS.format(namespace=BAD)}/{job.name}")
        operator.resume()
    assert_unharmed(plane, kohort)

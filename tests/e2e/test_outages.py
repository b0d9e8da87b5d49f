"""Tests with Kohort killed, suspended or sent malformed calls: other pods go on, and no gang stays half bound."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.asking import gone, nodes_of, pods
from tests.e2e.bodies import GOOD, broken_texts, missing_fields
from tests.e2e.gangs import LOOKED_AT, own_namespace, submit
from tests.e2e.midway import revive
from tests.e2e.observer import ClusterObserver
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

Json = dict[str, Any]
WINDOW = 8.0
STRANGERS = 240  # One measurement uses so many pods of the default scheduler.
ROUNDS = 4
LEAST_RATIO = 0.7
BIG = 40
FAST = {"clientConnection": {"qps": 5000, "burst": 5000}, "leaderElection": {"leaderElect": False}}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield four large nodes and a default kube-scheduler without client rate limits, in a process of its own."""
    workdir = tmp_path_factory.mktemp("outages")
    wide = NodeShape(count=4, cpu="20", pods=500)
    with ControlPlane.start(wide, workdir=workdir, controller_manager=True) as started:
        config = workdir / "fast.yaml"
        config.write_text(yaml.safe_dump(FAST))
        started.start_scheduler(config)
        yield started


@pytest.fixture(scope="module")
def started(plane: ControlPlane) -> Iterator[Kohort]:
    kohort = start_kohort(plane)
    yield kohort
    kohort.stop()


@pytest.fixture
def kohort(plane: ControlPlane, started: Kohort) -> Kohort:
    revive(plane, started)
    return started


@pytest.fixture
def strangers(plane: ControlPlane) -> Iterator[str]:
    """Yield a namespace for pods that did not opt in."""
    with own_namespace(plane, "strangers") as name:
        yield name


def size(job: TFJob) -> int:
    return job.ps + job.workers


def whole(plane: ControlPlane, *jobs: TFJob) -> bool:
    return all(len(nodes_of(plane, job.namespace, job.name)) == size(job) for job in jobs)


# -- The test below is about pods that did not opt in. -------------------------------------------


def stranger(namespace: str, name: str) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1m"}}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [container]},
    }  # fmt: skip


def rate(plane: ControlPlane, namespace: str, name: str) -> float:
    """Return how many pods per second the default kube-scheduler binds.

    It is suspended while the pods are created, so that the rate does not depend on the test's client. A watch gives the
    time of the last binding, because all bindings take half a second and polling would be too coarse.
    """
    default = plane.processes["kube-scheduler"]
    default.pause()
    for n in range(STRANGERS):
        plane.api.create(f"/api/v1/namespaces/{namespace}/pods", stranger(namespace, f"{name}-{n}"))
    with ClusterObserver(plane, namespace) as observer:
        until(lambda: len(observer.jobs()) == STRANGERS, f"{name} seen")
        default.resume()
        began = time.monotonic()
        until(lambda: len(bindings(observer)) == STRANGERS, f"{name} scheduled")
    found = STRANGERS / (max(bindings(observer).values()) - began)
    plane.kubectl("delete", "pods", "--all", "-n", namespace, "--wait=false")
    until(lambda: gone(plane, namespace), "the strangers gone")
    return found


def bindings(observer: ClusterObserver) -> dict[str, float]:
    """Return by pod UID when the pod was first seen with a node, in monotonic seconds."""
    seen: dict[str, float] = {}
    for sighting in list(observer.sightings):
        if sighting.node:
            seen.setdefault(sighting.uid, sighting.at)
    return seen


@pytest.mark.alone
def test_pods_that_did_not_opt_in_are_scheduled_at_the_same_rate(
    plane: ControlPlane, kohort: Kohort, space: str, strangers: str
) -> None:
    """Rounds with the extender running, killed and suspended alternate; the best rate of each state is compared.

    The best round counts, because other load on the machine can only lower a rate.
    """
    rates: dict[str, list[float]] = {"up": [], "down": [], "stopped": []}
    waiting: list[TFJob] = []
    for n in range(ROUNDS):
        rates["up"].append(rate(plane, strangers, f"up-{n}"))
        for state in ("down", "stopped"):
            kohort.extender.crash() if state == "down" else kohort.extender.pause()
            waiting.append(submit(plane, TFJob(space, f"{state}-{n}", workers=2)))
            until(lambda job=waiting[-1]: members(plane, job) == 3, "the gang's pods created")  # type: ignore[misc]
            rates[state].append(rate(plane, strangers, f"{state}-{n}"))
            assert not nodes_of(plane, space, waiting[-1].name), "bound by somebody else"
            kohort.extender.start() if state == "down" else kohort.extender.resume()
            kohort.wait_ready()
            until(lambda: whole(plane, *waiting), "all gangs whole again")
    best = {state: max(found) for state, found in rates.items()}
    ratios = {state: best[state] / best["up"] for state in ("down", "stopped")}
    for state, found in rates.items():
        shown = ", ".join(f"{one:.0f}" for one in found)
        print(f"{state}: {shown} pods/s; {ratios.get(state, 1):.2f} of up, best by best")
    assert min(ratios.values()) >= LEAST_RATIO


def members(plane: ControlPlane, job: TFJob) -> int:
    return len(pods(plane, job.namespace, job.name))


# -- The test below sends malformed bodies to the extender. --------------------------------------


def test_malformed_bodies_are_answered_with_200_and_an_error(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    job = submit(plane, TFJob(space, "runs", workers=2))
    until(lambda: whole(plane, job), "a gang whole")
    before = kohort.get("/v1/plans")["plans"]
    asked = 0
    with httpx.Client(base_url=f"{kohort.url}/scheduler/v1", timeout=60, trust_env=False) as client:
        for verb in GOOD:
            for name, body in (*broken_texts().items(), *missing_fields(verb)):
                answer = client.post(f"/{verb}", content=body, headers={"content-type": "application/json"})
                assert answer.status_code == httpx.codes.OK, (verb, name, answer.status_code, answer.text)
                assert refuses(verb, answer.json()), (verb, name, answer.text)
                asked += 1
    print(f"{asked} malformed bodies, each 200 with an error")
    assert asked > 150
    assert kohort.extender.alive
    assert "Traceback" not in kohort.extender.log.read_text()
    assert kohort.get("/v1/plans")["plans"] == before
    after = submit(plane, TFJob(space, "after", workers=2))
    until(lambda: whole(plane, after), "the next gang whole")


def refuses(verb: str, answer: Any) -> bool:
    """Tell whether a verb's answer is a refusal.

    The answers of prioritize and preempt have no field for an error: they are refusals if they are empty.
    """
    match verb:
        case "prioritize":
            return bool(answer == [])
        case "preempt":
            return not answer["NodeNameToMetaVictims"]
        case _:
            return bool(answer["Error"])


# -- In the test below, the extender is killed while a gang is being bound. ----------------------


def lasting(jobs: Json) -> dict[str, Json]:
    """Return by "namespace/name" the fields of /v1/jobs that must be the same after a restart."""
    kept = ("state", "min_workers", "max_workers", "workers", "replicas", "elastic", "utility", "arrival", "uid")
    return {f"{job['namespace']}/{job['name']}": {key: job[key] for key in kept} for job in jobs["jobs"]}


def held(kohort: Kohort) -> int:
    return sum(len(plan["at_barrier"]) for plan in kohort.get("/v1/plans")["plans"])


MOMENTS = ("planned", "at-the-barrier", "first-bound")


def reached(moment: str, kohort: Kohort, observer: ClusterObserver) -> bool:
    match moment:
        case "planned":
            return any(plan["name"] == "big" for plan in kohort.get("/v1/plans")["plans"])
        case "at-the-barrier":
            return held(kohort) > 0
        case _:
            return bool(observer.bound_now("big"))


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_gang_is_whole_after_the_extender_was_killed_in_its_middle(
    plane: ControlPlane, kohort: Kohort, space: str, moment: str
) -> None:
    runs = submit(plane, TFJob(space, "runs", workers=3, least=1, most=3))
    until(lambda: whole(plane, runs), "the first gang whole", seen=lambda: kohort.get(f"/v1/jobs/{space}/runs"))
    until(lambda: kohort.get(f"/v1/jobs/{space}/runs")["state"] == "running", "its state")
    before = lasting(kohort.get("/v1/jobs"))
    nodes = nodes_of(plane, space)
    with ClusterObserver(plane, space) as observer:
        extra = LOOKED_AT if moment == "at-the-barrier" else None
        big = submit(plane, TFJob(space, "big", workers=BIG, worker_cpu="100m", extra=extra))
        until(lambda: reached(moment, kohort, observer), moment, pause=lambda: None)  # The moment is short.
        kohort.extender.crash()
        left = len(observer.bound_now("big"))
        kohort.extender.start()
        kohort.wait_ready()
        rebuilt = lasting(kohort.get("/v1/jobs"))
        took = until(lambda: whole(plane, big), "the gang whole", seen=lambda: kohort.get(f"/v1/jobs/{space}/big"))
        partial = observer.partial_seconds("big", BIG + 1)
        print(f"killed {moment} with {left} of {BIG + 1} bound; whole {took:.1f} s after the restart, "
              f"partly bound for {partial:.2f} s")  # fmt: skip
    assert {key: rebuilt[key] for key in before} == before
    assert {name: node for name, node in nodes_of(plane, space).items() if name in nodes} == nodes

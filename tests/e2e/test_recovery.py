"""Tests of faults between plan and bind: the gang is planned again or released in time, and never stays half bound."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from extender.config.sections import BarrierSettings
from extender.kube.jobkinds import RELEASED
from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import Kohort
from tests.e2e import midway
from tests.e2e.asking import JOB, at_barrier, nodes_of, plan_of, pods, reason, summary
from tests.e2e.gangs import (
    create_pod,
    failed,
    is_leading,
    let_go,
    lone_pod,
    no_operator,
    on_node,
    refused_bindings,
    submit,
)
from tests.e2e.midway import CORES, LATE, WINDOW, at_the_barrier, bound_whole, half_bound, is_bound, reborn
from tests.e2e.observer import ClusterObserver
from tests.e2e.tfjobs import TFJOBS, TFJob
from tests.e2e.waiting import at_rest, never, until

Json = dict[str, Any]
pytestmark = pytest.mark.full
REPAIR = BarrierSettings().repair_seconds
SLACK = 5.0  # The extender's start after a crash may take so many seconds.


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with midway.three_nodes(tmp_path_factory.mktemp("recovery")) as started:
        yield started


@pytest.fixture(scope="module")
def started(plane: ControlPlane) -> Iterator[Kohort]:
    with midway.patient_kohort(plane, "recovery") as kohort:
        yield kohort


@pytest.fixture
def kohort(plane: ControlPlane, started: Kohort) -> Kohort:
    midway.revive(plane, started)
    return started


@pytest.fixture
def watch(plane: ControlPlane, space: str) -> Iterator[ClusterObserver]:
    with ClusterObserver(plane, space) as observer:
        yield observer


def suspension(plane: ControlPlane, job: TFJob) -> tuple[bool, bool]:
    """Return whether the job is suspended, and whether it has the annotation that marks a release by Kohort."""
    item = plane.api.get(job.path)
    return bool(item["spec"]["runPolicy"].get("suspend")), RELEASED in item["metadata"].get("annotations", {})


def is_released(plane: ControlPlane, job: TFJob) -> bool:
    return suspension(plane, job) == (True, True)


def suspend_patch(*, on: bool) -> str:
    return json.dumps({"spec": {"runPolicy": {"suspend": on}}})


def bound_or_going(plane: ControlPlane, job: TFJob) -> bool:
    items = plane.api.get(f"/api/v1/namespaces/{job.namespace}/pods", labelSelector=f"{JOB}={job.name}")["items"]
    return any(item["spec"].get("nodeName") for item in items)


def assert_never_half_bound(watch: ClusterObserver, job: TFJob, extra: float = 0.0) -> None:
    members = job.ps + (job.least or job.workers)
    partial = watch.partial_seconds(job.name, members)
    print(f"{job.namespace}/{job.name}: partly bound for {partial:.1f} s")
    assert partial <= WINDOW + REPAIR + extra


def assert_no_node_is_overcommitted(plane: ControlPlane) -> None:
    taken: dict[str, int] = defaultdict(int)
    for pod in plane.api.get("/api/v1/pods")["items"]:
        if node := pod["spec"].get("nodeName"):
            asked = [c["resources"].get("requests", {}).get("cpu", "0") for c in pod["spec"]["containers"]]
            taken[node] += sum(int(cpu) for cpu in asked if not cpu.endswith("m"))
    assert all(cores <= CORES for cores in taken.values()), dict(taken)


# -- In the tests below, the extender is killed. -------------------------------------------------


def test_extender_killed_after_the_plan(
    plane: ControlPlane, kohort: Kohort, space: str, watch: ClusterObserver
) -> None:
    """kube-scheduler is suspended, so that the extender is killed when the gang has a plan and no bind call."""
    kohort.scheduler.pause()
    try:
        job = submit(plane, TFJob(space, "gang", workers=4))
        until(lambda: len(plan_of(kohort, job).get("nodes", {})) == 5, "planned")
        reborn(kohort)
    finally:
        kohort.scheduler.resume()
    bound_whole(plane, job)
    assert_never_half_bound(watch, job)


def test_extender_killed_again_and_again(
    plane: ControlPlane, kohort: Kohort, space: str, watch: ClusterObserver
) -> None:
    """The extender is killed five times at arbitrary moments; in the end all gangs are bound whole."""
    jobs = [submit(plane, TFJob(space, f"gang-{n}", workers=4)) for n in range(5)]
    for moment in (0.1, 0.4, 0.2, 0.8, 0.3):
        time.sleep(moment)  # The kills must come at arbitrary moments.
        reborn(kohort)
    for job in jobs:
        bound_whole(plane, job)
        assert_never_half_bound(watch, job, extra=5 * SLACK)
    assert_no_node_is_overcommitted(plane)


def test_a_restart_finds_every_job_as_it_was(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    """The jobs are a rigid and a heavy job that run, a light job that was shrunk, and a waiting job."""
    rigid = submit(plane, TFJob(space, "rigid", workers=4))
    light = submit(plane, TFJob(space, "light", workers=20, least=2, most=20))
    until(lambda: is_bound(plane, rigid) and is_bound(plane, light), "both bound")
    heavy = submit(plane, TFJob(space, "heavy", workers=8, utility="100"))
    until(lambda: is_bound(plane, heavy), "the heavy job bound in their place")
    waits = submit(plane, TFJob(space, "waits", workers=2, worker_cpu="10", ps_cpu="10"))
    until(lambda: reason(kohort, waits), "the last one waits")
    settled = at_rest(lambda: summary(kohort, space))
    assert {name: state for name, (state, _, _) in settled.items()} == {
        "rigid": "running", "light": "running", "heavy": "running", "waits": "waiting",
    }  # fmt: skip
    assert settled["light"][1] < 20
    why = reason(kohort, waits)
    reborn(kohort)
    until(lambda: is_leading(kohort), "leading")
    assert at_rest(lambda: summary(kohort, space)) == settled
    assert reason(kohort, waits) == why


# -- In the tests below, members, nodes or jobs are deleted or closed. ---------------------------


def test_a_member_deleted_at_the_barrier(
    plane: ControlPlane, kohort: Kohort, space: str, watch: ClusterObserver
) -> None:
    """The deleted member's bind call is dropped; the operator creates a new pod for it, and the gang is bound."""
    job = at_the_barrier(plane, kohort, space)
    gone = plane.api.get(f"/api/v1/namespaces/{space}/pods/gang-worker-1")["metadata"]["uid"]
    plane.api.delete(f"/api/v1/namespaces/{space}/pods/gang-worker-1")
    until(lambda: len(pods(plane, space)) == 5, "the operator made a new one")
    assert plane.api.get(f"/api/v1/namespaces/{space}/pods/gang-worker-1")["metadata"]["uid"] != gone
    assert nodes_of(plane, space) == {}
    let_go(plane, space)
    bound_whole(plane, job)
    assert_never_half_bound(watch, job)


def test_a_node_cordoned_at_the_barrier(
    plane: ControlPlane, kohort: Kohort, space: str, watch: ClusterObserver
) -> None:
    job = at_the_barrier(plane, kohort, space)
    lost = only_node(kohort, job)
    plane.kubectl("cordon", lost)
    try:
        let_go(plane, space)
        bound_whole(plane, job)
        assert lost not in nodes_of(plane, space).values()
        assert len(set(nodes_of(plane, space).values())) == 1
        assert_never_half_bound(watch, job)
    finally:
        plane.kubectl("uncordon", lost)


def test_a_node_deleted_at_the_barrier(plane: ControlPlane, kohort: Kohort, space: str, watch: ClusterObserver) -> None:
    """The API server would accept a binding to a deleted node, so Kohort itself must plan the gang again."""
    job = at_the_barrier(plane, kohort, space)
    lost = only_node(kohort, job)
    plane.api.delete(f"/api/v1/nodes/{lost}")
    try:
        let_go(plane, space)
        bound_whole(plane, job)
        assert lost not in watch.first_nodes(job.name).values()
        assert_never_half_bound(watch, job)
    finally:
        manifest = next(m for m in NodeShape().manifests("node") if m["metadata"]["name"] == lost)
        plane.api.create("/api/v1/nodes", manifest)
        until(lambda: lost in ready_nodes(kohort), "the node back")


def only_node(kohort: Kohort, job: TFJob) -> str:
    nodes = set(plan_of(kohort, job)["nodes"].values())
    assert len(nodes) == 1
    return str(nodes.pop())


def ready_nodes(kohort: Kohort) -> set[str]:
    return {node["name"] for node in kohort.get("/v1/nodes")["nodes"] if node["ready"]}


def test_a_job_deleted_at_the_barrier(plane: ControlPlane, kohort: Kohort, space: str, watch: ClusterObserver) -> None:
    """The deleted job's plan is given up, its room is free at once, and none of its pods is ever bound."""
    job = at_the_barrier(plane, kohort, space, workers=9)
    next_one = submit(plane, TFJob(space, "next", workers=29))
    until(lambda: reason(kohort, next_one) == "WaitingForRoom", "the next one waits")
    plane.api.delete(job.path)
    until(lambda: not plan_of(kohort, job), "its plan gone")
    bound_whole(plane, next_one)
    assert watch.most_bound(job.name) == watch.most_bound(job.name, "ps") == 0


def workers_of(plane: ControlPlane, job: TFJob) -> int:
    return int(plane.api.get(job.path)["spec"]["tfReplicaSpecs"]["Worker"]["replicas"])


@pytest.mark.parametrize("deleted", ["heavy", "light"])
def test_a_job_deleted_in_mid_scale(
    plane: ControlPlane, kohort: Kohort, space: str, watch: ClusterObserver, deleted: str
) -> None:
    """A light job is being shrunk for a heavy one when one of the two is deleted; the other gets the room."""
    light = submit(plane, TFJob(space, "light", workers=29, least=2, most=29))
    bound_whole(plane, light)
    heavy = submit(plane, TFJob(space, "heavy", workers=20, utility="100"))
    until(lambda: workers_of(plane, light) < 29, "the light job told to shrink")
    plane.api.delete(f"{TFJOBS.format(namespace=space)}/{deleted}")
    if deleted == "light":
        bound_whole(plane, heavy)
    else:
        until(lambda: workers_of(plane, light) == 29, "the light job grown again")
        bound_whole(plane, light)
    assert_never_half_bound(watch, heavy)
    assert_never_half_bound(watch, light)
    assert_no_node_is_overcommitted(plane)


# -- In the tests below, bindings fail, or a gang loses its room. --------------------------------


def test_a_gang_that_cannot_be_bound_whole_is_released_whole(
    plane: ControlPlane, kohort: Kohort, space: str, watch: ClusterObserver
) -> None:
    """The API server refuses two of five bindings for as long as the gang is tried.

    The three bound members are deleted, and the operator does not fail the job. It would do so if a member, which
    takes three seconds to stop, were terminating in a job that is not suspended.
    """
    with refused_bindings(plane, space, LATE):
        job = half_bound(plane, space, stop_seconds=3)
        before = plane.api.get(job.path)["metadata"]
        until(lambda: is_released(plane, job), "suspended under our mark")
        assert reason(kohort, job) == "GangBeingReleased"
        until(lambda: not bound_or_going(plane, job), "released")
        until(lambda: not suspension(plane, job)[0], "gone on")
        told = kohort.get("/v1/decisions")["decisions"]
        assert any(d["reason"] == "BindFailed" and (d["job"] or {}).get("name") == "gang" for d in told)
    bound_whole(plane, job)
    assert not failed(plane, job)
    assert suspension(plane, job) == (False, False)
    after = plane.api.get(job.path)["metadata"]
    assert (after["uid"], after["creationTimestamp"]) == (before["uid"], before["creationTimestamp"])
    assert_never_half_bound(watch, job)


def test_a_users_suspension_wins_over_a_release(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    """A user who takes over the suspension during a release keeps the job suspended until the user resumes it."""
    with refused_bindings(plane, space, LATE):
        job = half_bound(plane, space, stop_seconds=3)
        until(lambda: is_released(plane, job), "suspended under our mark")
        # The user only removes Kohort's mark; if the user resumed the job, terminating members would make it fail.
        plane.kubectl("annotate", "tfjob", job.name, "-n", space, "kohort.dev/released-")
        until(lambda: not pods(plane, space, job.name), "no pod left")
        never(lambda: not suspension(plane, job)[0], "it went on", 3)
        assert reason(kohort, job) == "JobSuspended"
    plane.kubectl("patch", "tfjob", job.name, "-n", space, "--type=merge", "-p", suspend_patch(on=False))
    bound_whole(plane, job)
    # Kohort does not take a user's suspension of a running job for its own release, even with a leftover mark.
    note = {"metadata": {"annotations": {RELEASED: "true"}}}
    plane.api.patch(job.path, note)
    plane.kubectl("patch", "tfjob", job.name, "-n", space, "--type=merge", "-p", suspend_patch(on=True))
    until(lambda: not pods(plane, space, job.name), "no pod left")
    never(lambda: not suspension(plane, job)[0], "it went on", 3)
    assert reason(kohort, job) == "JobSuspended"


def test_a_release_without_its_operator_gives_the_room_back_too(
    plane: ControlPlane, kohort: Kohort, space: str, watch: ClusterObserver
) -> None:
    """While the operator is stopped, the job stays suspended with its members; then it is released and bound whole."""
    with refused_bindings(plane, space, LATE):
        job = half_bound(plane, space)
        with no_operator(plane):
            until(lambda: is_released(plane, job), "suspended under our mark")
            never(lambda: not is_released(plane, job), "it went on with members bound", 3)
            assert len(nodes_of(plane, space, job.name)) == 3
        until(lambda: not suspension(plane, job)[0], "gone on")
    bound_whole(plane, job)
    assert not failed(plane, job)


def shrink(plane: ControlPlane, space: str, *, dynamic: bool) -> TFJob:
    """Start a light job whose workers take 3 s to stop, shrink it for a heavy job, and return the light job."""
    light = TFJob(space, "light", workers=9, least=2, most=9, worker_cpu="3")
    submit(plane, light, dynamic=dynamic, stop_seconds=3)
    bound_whole(plane, light)
    heavy = submit(plane, TFJob(space, "heavy", workers=3, worker_cpu="3", utility="100"))
    bound_whole(plane, heavy)
    return light


def test_the_operator_survives_workers_that_take_their_time(
    plane: ControlPlane, kohort: Kohort, space: str, watch: ClusterObserver
) -> None:
    """The operator crashes on a gap in the workers' indices, so Kohort removes slow workers one by one.

    A gap is, for example, worker 8 gone while worker 9 still terminates.
    """
    light = shrink(plane, space, dynamic=True)
    operator = plane.processes["training-operator"]
    until(lambda: not operator.alive or all(s.index < workers_of(plane, light) for s in watch.bound_now(light.name)),
          "the removed workers gone, or the operator")  # fmt: skip
    assert operator.alive
    assert not failed(plane, light)


def test_workers_that_take_their_time_to_go(
    plane: ControlPlane, kohort: Kohort, space: str, watch: ClusterObserver
) -> None:
    """The room of terminating workers is charged until they are gone, so no pod is bound into it before."""
    light = shrink(plane, space, dynamic=True)
    assert not failed(plane, light)
    assert len(nodes_of(plane, space, light.name)) == 1 + workers_of(plane, light)
    assert_never_half_bound(watch, light)
    assert_no_node_is_overcommitted(plane)


def test_a_job_that_would_fail_is_not_shrunk(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    """Without enableDynamicWorker, a terminating worker counts as failed, so Kohort does not shrink the job."""
    light = submit(plane, TFJob(space, "light", workers=29, least=2, most=29), dynamic=False, stop_seconds=3)
    bound_whole(plane, light)
    heavy = submit(plane, TFJob(space, "heavy", workers=20, utility="100"))
    decided = ("WaitingForRoom", "BehindHeavierJob")
    until(lambda: failed(plane, light) or reason(kohort, heavy) in decided or is_bound(plane, heavy), "decided")
    assert not failed(plane, light)
    assert reason(kohort, heavy) in decided
    assert "enableDynamicWorker" in str(kohort.get(f"/v1/explain/{space}/light"))


def test_room_stolen_by_the_default_scheduler(
    plane: ControlPlane, kohort: Kohort, space: str, watch: ClusterObserver
) -> None:
    """Another pod takes half of the planned node while the gang is at the barrier; the gang is planned elsewhere."""
    job = at_the_barrier(plane, kohort, space, workers=6)
    lost = only_node(kohort, job)
    create_pod(plane, space, lone_pod("thief", cpu="5", scheduler="default-scheduler", **on_node(lost)))
    until(lambda: nodes_of(plane, space).get("thief") == lost, "the room stolen")
    let_go(plane, space)
    bound_whole(plane, job)
    assert lost not in nodes_of(plane, space, job.name).values()
    assert_no_node_is_overcommitted(plane)
    assert_never_half_bound(watch, job)


def test_room_stolen_for_which_there_is_no_other(
    plane: ControlPlane, kohort: Kohort, space: str, watch: ClusterObserver
) -> None:
    """Other pods take the planned room and no other is left; the gang waits with a reason until that room is free."""
    job = submit(plane, TFJob(space, "gang", workers=2, worker_cpu="10", ps_cpu="10"), hold="PS")
    until(lambda: at_barrier(kohort, job) == 2, "every worker at the barrier")
    for node in ("node-0", "node-1", "node-2"):
        create_pod(plane, space, lone_pod(f"thief-{node}", cpu="1", scheduler="default-scheduler", **on_node(node)))
    until(lambda: len(nodes_of(plane, space)) == 3, "the room stolen")
    took = until(lambda: reason(kohort, job), "a reason said")
    print(f"said {took:.1f} s later: {reason(kohort, job)}")
    told = kohort.get("/v1/decisions")["decisions"]
    assert any(d["reason"] == "RoomTaken" and (d["job"] or {}).get("namespace") == space for d in told)
    let_go(plane, space)
    never(lambda: nodes_of(plane, space, job.name), "a member bound", 3)
    for node in ("node-0", "node-1", "node-2"):
        plane.api.delete(f"/api/v1/namespaces/{space}/pods/thief-{node}")
    bound_whole(plane, job)
    assert_never_half_bound(watch, job)


def test_the_extender_survived_all_of_this_without_a_fault(kohort: Kohort) -> None:
    """The extender still runs after the tests above, and its log has no traceback."""
    assert httpx.get(f"{kohort.health}/livez", timeout=60, trust_env=False).is_success
    for process in (kohort.extender, kohort.controller):
        log = process.log.read_text()
        assert '"level": "error"' not in log, [line for line in log.splitlines() if '"level": "error"' in line]
        assert "Traceback" not in log

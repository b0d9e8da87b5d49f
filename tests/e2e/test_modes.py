"""Tests of the settings `answer`, `gate` and `nominate_above_nodes` with the real kube-scheduler."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort
from tests.controlplane.ports import free_ports
from tests.e2e.asking import both_sides, job_view, nodes_of, plan_of, pods, reason
from tests.e2e.gangs import (
    GATE_MAP,
    HOLD,
    OUR_GATE,
    allow_holds,
    create_pod,
    fresh_kohort,
    is_gated,
    let_go,
    lone_pod,
    no_operator,
    on_node,
    operator_pods,
    scheduler_changes,
    submit,
    window,
)
from tests.e2e.observer import ClusterObserver
from tests.e2e.podlog import PodLog
from tests.e2e.recorder import recorded
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

Json = dict[str, Any]
WINDOW = 8.0
CORES = 10
KWOK_SECONDS = 1.0  # KWOK no longer acts on the name of a deleted pod after so many seconds.


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield three empty nodes of ten cores."""
    with ControlPlane.start(workdir=tmp_path_factory.mktemp("modes"), controller_manager=True) as started:
        allow_holds(started)
        yield started


def is_bound(plane: ControlPlane, namespace: str, job: TFJob) -> bool:
    return len(nodes_of(plane, namespace, job.name)) == job.workers + job.ps


def prefers(node: str) -> Json:
    """Return the part of a pod spec that prefers one node without requiring it."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    terms = [{"weight": 100, "preference": term}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


def cores_by_node(plane: ControlPlane) -> dict[str, int]:
    """Return how many cores the pods on each node request together."""
    taken: dict[str, int] = defaultdict(int)
    for pod in plane.api.get("/api/v1/pods")["items"]:
        if node := pod["spec"].get("nodeName"):
            taken[node] += sum(int(c["resources"]["requests"]["cpu"]) for c in pod["spec"]["containers"])
    return taken


# -- The tests below are about the setting `answer`: one-node or ranked. -------------------------


@pytest.mark.parametrize(
    ("answer", "weight", "node"),
    [("one-node", 1, "node-0"), ("ranked", 1, "node-2"), ("ranked", 20, "node-0")],
)
def test_kube_schedulers_scores_count_where_they_are_asked_for(
    plane: ControlPlane, space: str, answer: str, weight: int, node: str
) -> None:
    """Kohort plans node-0 for the gang, whose pods prefer node-2.

    The preference wins only with ``answer: ranked`` and a small extender weight.
    """
    changes = scheduler_changes(weight=weight)
    name = f"{answer}-{weight}"
    with fresh_kohort(plane, {"answer": answer}, name, changes) as kohort, ClusterObserver(plane, space) as observer:
        job = submit(plane, TFJob(space, "gang", workers=4, extra=prefers("node-2")))
        until(lambda: is_bound(plane, space, job), "bound")
        assert set(nodes_of(plane, space).values()) == {node}
        until(lambda: job_view(kohort, job)["state"] == "running", "known as running")
        assert set(plan_of(kohort, job)["nodes"].values()) == {node}
        assert observer.partial_seconds(job.name, 5) <= WINDOW


@pytest.fixture(scope="class")
def ranked(plane: ControlPlane) -> Iterator[Kohort]:
    with fresh_kohort(plane, {"answer": "ranked"}, "ranked", scheduler_changes(weight=1)) as started:
        yield started


class TestRanked:
    """Tests with ``answer: ranked`` and an extender weight so small that the scores of the plugins count."""

    def test_a_preference_is_followed_as_far_as_there_is_room(
        self, plane: ControlPlane, ranked: Kohort, space: str
    ) -> None:
        create_pod(plane, space, lone_pod("filler", cpu="7", **on_node("node-2")))
        until(lambda: nodes_of(plane, space), "filled")
        job = submit(plane, TFJob(space, "gang", workers=4, extra=prefers("node-2")))
        until(lambda: is_bound(plane, space, job), "bound")
        placed = nodes_of(plane, space, job.name)
        assert list(placed.values()).count("node-2") == 3, placed
        until(lambda: job_view(ranked, job)["state"] == "running", "known as running")
        plan = plan_of(ranked, job)["nodes"]
        assert {f"gang-{slot}": node for slot, node in plan.items()} == placed

    def test_gangs_at_the_same_time_are_whole_and_no_node_is_overcommitted(
        self, plane: ControlPlane, ranked: Kohort, space: str
    ) -> None:
        with ClusterObserver(plane, space) as observer:
            jobs = [submit(plane, TFJob(space, f"gang-{n}", workers=4, extra=prefers("node-2"))) for n in range(6)]
            until(lambda: all(is_bound(plane, space, job) for job in jobs), "all bound")
            assert max(observer.partial_seconds(job.name, 5) for job in jobs) <= WINDOW
        assert max(cores_by_node(plane).values()) <= CORES


# -- The tests below are about the setting `gate`: when-queued, always or never. -----------------


def gate(plane: ControlPlane) -> str:
    return str(plane.api.get(GATE_MAP)["data"]["gate"])


def fill(plane: ControlPlane, space: str) -> TFJob:
    """Submit a job that takes every core: three members of ten."""
    job = submit(plane, TFJob(space, "full", workers=2, worker_cpu="10", ps_cpu="10"))
    until(lambda: is_bound(plane, space, job), "the cluster full")
    return job


def ungated_at_birth(log: PodLog, job: str) -> list[str]:
    """Return the names of the job's pods whose first version lacked Kohort's gate."""
    return [name for name, seen in log.versions.items() if name.startswith(f"{job}-") and not is_gated(seen[0])]


def test_pods_are_gated_while_jobs_wait_and_not_before_or_after(plane: ControlPlane, space: str) -> None:
    port = free_ports(1)[0]
    with (
        fresh_kohort(plane, {"server": {"port": port}}, "queued") as kohort,
        recorded(kohort, port) as recorder,
        PodLog(plane, space) as log,
    ):
        until(lambda: gate(plane) == "off", "the gate off")
        full = fill(plane, space)
        until(lambda: gate(plane) == "off", "the gate off while nobody waits")
        first = submit(plane, TFJob(space, "first", workers=2))
        until(lambda: gate(plane) == "on" and reason(kohort, first) == "WaitingForRoom", "the gate on")
        until(lambda: len(pods(plane, space, first.name)) == 3, "its pods there")
        second = submit(plane, TFJob(space, "second", workers=2))
        until(lambda: job_view(kohort, second).get("gated_pods") == 3, "the second job's pods gated")
        members = [f"second-{member}" for member in ("ps-0", "worker-0", "worker-1")]
        assert [recorder.of("filter", pod) for pod in members] == [[], [], []]
        plane.api.delete(full.path)
        until(lambda: is_bound(plane, space, first) and is_bound(plane, space, second), "both bound")
        asked = {pod: len(recorder.of("filter", pod)) for pod in members}
        assert all(asked.values()), asked
        until(lambda: gate(plane) == "off", "the gate off again")
        last = submit(plane, TFJob(space, "last", workers=2))
        until(lambda: is_bound(plane, space, last), "bound")
        assert ungated_at_birth(log, "second") == []


def test_restarted_members_of_a_running_gang_go_first_and_need_no_barrier(plane: ControlPlane, space: str) -> None:
    """Both recreated workers are gated, because another job waits.

    The operator is stopped and the test recreates the workers, because the operator fails a job that loses a running
    pod. The test holds one worker behind a gate of its own, and the other worker is bound alone.
    """
    with fresh_kohort(plane, {"barrier": {"repair_seconds": 90}}, "restarted") as kohort:
        full = fill(plane, space)
        waits = submit(plane, TFJob(space, "waits", workers=2, utility="100"))
        until(lambda: gate(plane) == "on", "the gate on")
        with no_operator(plane):
            path = f"/api/v1/namespaces/{space}/pods"
            workers = [pod for pod in operator_pods(plane, full) if "worker" in pod["metadata"]["name"]]
            for pod in workers:
                plane.api.delete(f"{path}/{pod['metadata']['name']}")
            # KWOK deletes terminating pods by name, so a successor that appears too soon would be deleted too.
            until(lambda: len(pods(plane, space, full.name)) == 1, "its workers gone")
            time.sleep(KWOK_SECONDS)
            for pod in workers:
                pod["metadata"]["annotations"][HOLD] = "yes"
                born = create_pod(plane, space, pod)
                assert is_gated(born)
                assert is_gated(born, HOLD)
            until(lambda: not is_gated(plane.api.get(f"{path}/full-worker-1")), "our gate gone")
            plane.api.patch(f"{path}/full-worker-1", {"spec": {"schedulingGates": None}})
            took = until(lambda: len(nodes_of(plane, space, full.name)) == 2, "one back alone")
            print(f"a restarted member was bound {took:.1f} s after it could be, without the other")
            assert set(nodes_of(plane, space, full.name)) == {"full-ps-0", "full-worker-1"}
            let_go(plane, space)
            told = partial(both_sides, plane, kohort, full)
            until(lambda: is_bound(plane, space, full), "whole again", seen=told)
            until(lambda: job_view(kohort, full)["state"] == "running", "known as running")
        assert nodes_of(plane, space, waits.name) == {}
        assert reason(kohort, waits) == "WaitingForRoom"


def test_a_job_whose_pods_straddle_the_gate_binds_whole(plane: ControlPlane, space: str) -> None:
    """Of five members, two have no gate and kube-scheduler refuses them, and three are gated."""
    with fresh_kohort(plane, {}, "straddle") as kohort, ClusterObserver(plane, space) as observer:
        full = fill(plane, space)
        job = TFJob(space, "straddles", workers=4)
        submit(plane, TFJob(space, "first", workers=2))
        until(lambda: gate(plane) == "on", "the gate on")
        with no_operator(plane):
            submit(plane, job)
            for pod in operator_pods(plane, job):
                create_pod(plane, space, pod)
            for name in ("straddles-ps-0", "straddles-worker-2"):
                plane.api.patch(f"/api/v1/namespaces/{space}/pods/{name}", {"spec": {"schedulingGates": None}})
            until(lambda: _refused(plane, space, job) == 2, "two refused")
            assert job_view(kohort, job)["gated_pods"] == 3
            for name in nodes_of(plane, space, full.name):
                plane.api.delete(f"/api/v1/namespaces/{space}/pods/{name}?gracePeriodSeconds=0")
            plane.api.delete(full.path)
            until(lambda: is_bound(plane, space, job), "bound whole")
            assert observer.partial_seconds(job.name, 5) <= WINDOW


def _refused(plane: ControlPlane, space: str, job: TFJob) -> int:
    conditions = [c for pod in pods(plane, space, job.name) for c in pod["status"].get("conditions", ())]
    return sum(1 for c in conditions if c["type"] == "PodScheduled" and c["reason"] == "Unschedulable")


def test_always_gates_every_pod_and_lets_those_go_that_have_room(plane: ControlPlane, space: str) -> None:
    with fresh_kohort(plane, {"gate": "always"}, "always"), PodLog(plane, space) as log:
        until(lambda: gate(plane) == "on", "the gate on")
        job = submit(plane, TFJob(space, "gang", workers=4))
        until(lambda: is_bound(plane, space, job), "bound")
        assert len(log.versions) == 5
        assert ungated_at_birth(log, "gang") == []


def test_never_gates_no_pod_whoever_waits(plane: ControlPlane, space: str) -> None:
    with fresh_kohort(plane, {"gate": "never"}, "never") as kohort, PodLog(plane, space) as log:
        until(lambda: gate(plane) == "off", "the gate off")
        full = fill(plane, space)
        jobs = [submit(plane, TFJob(space, f"waits-{n}", workers=2)) for n in range(2)]
        until(lambda: all(_refused(plane, space, job) == 3 for job in jobs), "every pod refused")
        assert gate(plane) == "off"
        assert len(ungated_at_birth(log, "waits")) == 6
        plane.api.delete(full.path)
        until(lambda: all(is_bound(plane, space, job) for job in jobs), "both bound")
        assert all(job_view(kohort, job)["gated_pods"] == 0 for job in jobs)


# -- The tests below are about nominations of members. -------------------------------------------

PREEMPTION = pytest.mark.parametrize("preemption", [False, True], ids=["without-preemption", "with-preemption"])


def nominated(plane: ControlPlane, space: str, job: TFJob) -> dict[str, str]:
    found = pods(plane, space, job.name)
    return {p["metadata"]["name"]: p["status"].get("nominatedNodeName", "") for p in found}


@PREEMPTION
def test_a_member_is_nominated_before_it_is_asked_about(plane: ControlPlane, space: str, preemption: bool) -> None:
    """With the nomination, kube-scheduler's first filter call for each member offers the planned node alone."""
    port = free_ports(1)[0]
    settings = {
        "nominate_above_nodes": 0, "gate": "always", "server": {"port": port},
        "barrier": {"commit": "all"},  # so that kube-scheduler asks about each member
    }  # fmt: skip
    with (
        fresh_kohort(plane, settings, f"nominate-{preemption}", scheduler_changes(preemption=preemption)) as kohort,
        recorded(kohort, port) as recorder,
        PodLog(plane, space) as log,
    ):
        until(lambda: gate(plane) == "on", "the gate on")
        job = submit(plane, TFJob(space, "gang", workers=4))
        until(lambda: is_bound(plane, space, job), "bound")
        members = list(nodes_of(plane, space))
        until(lambda: all(log.bound(name) for name in members), "seen bound")
        before = {name: log.before_bound(name)["status"].get("nominatedNodeName") for name in members}
        assert before == {name: log.bound(name) for name in members}
        first = {name: recorder.of("filter", name)[0] for name in members}
        assert {n: each.asked["NodeNames"] for n, each in first.items()} == {n: [log.bound(n)] for n in members}
        assert {n: each.answered["NodeNames"] for n, each in first.items()} == {n: [log.bound(n)] for n in members}


@PREEMPTION
def test_nominations_are_cleared_when_a_plan_is_released(plane: ControlPlane, space: str, preemption: bool) -> None:
    settings = window(4) | {"nominate_above_nodes": 0, "release": {"backoff_initial_seconds": 60}}
    name = f"release-{preemption}"
    with fresh_kohort(plane, settings, name, scheduler_changes(preemption=preemption)) as kohort:
        job = submit(plane, TFJob(space, "gang", workers=3), hold="PS")
        until(lambda: set(nominated(plane, space, job).values()) == {"node-0"}, "all nominated")
        until(lambda: reason(kohort, job) == "BackingOff", "the plan released")
        until(lambda: set(nominated(plane, space, job).values()) == {""}, "the nominations cleared")
        assert nodes_of(plane, space) == {}


@PREEMPTION
def test_a_stale_nomination_does_not_keep_a_gang(plane: ControlPlane, space: str, preemption: bool) -> None:
    """The nominated node is cordoned while the gang is at the barrier; the gang is nominated and bound elsewhere."""
    settings = window(20) | {"nominate_above_nodes": 0}
    name = f"stale-{preemption}"
    with fresh_kohort(plane, settings, name, scheduler_changes(preemption=preemption)) as kohort:
        job = submit(plane, TFJob(space, "gang", workers=3), hold="PS")
        until(lambda: len(plan_of(kohort, job).get("at_barrier", ())) == 3, "the workers at the barrier")
        until(lambda: set(nominated(plane, space, job).values()) == {"node-0"}, "all nominated")
        plane.kubectl("cordon", "node-0")
        try:
            until(lambda: set(nominated(plane, space, job).values()) == {"node-1"}, "nominated elsewhere")
            let_go(plane, space)
            took = until(lambda: is_bound(plane, space, job), "bound")
            print(f"bound {took:.1f} s after the last member could be")
            assert set(nodes_of(plane, space).values()) == {"node-1"}
        finally:
            plane.kubectl("uncordon", "node-0")


def test_the_gate_of_kohort_is_the_one_that_the_policy_adds() -> None:
    """The gate's name in the code and in the shipped admission policy is the one that these tests look for."""
    from extender.kube.jobkinds import GATE

    assert GATE == OUR_GATE

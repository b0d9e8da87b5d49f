"""The embedded cluster: which objects its API shows of the simulated world, and what clients' writes do to it."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from extender.kube.api import (
    CONFIGMAPS,
    DEPLOYMENTS,
    NODES,
    PODS,
    STATEFULSETS,
    TFJOBS,
    Done,
    Json,
    Ref,
    Refused,
    Resource,
)
from extender.kube.translate import Translator
from lab.embedded.apiserver import ApiServer, GatePolicy
from lab.embedded.bridge import Bridge
from lab.embedded.embeddedapi import EmbeddedApi
from lab.embedded.objectstore import ObjectStore
from lab.embedded.render import RESOURCE_OF
from lab.sim.objects import JobSpec, WorkloadKind, job_fact
from lab.sim.pods.world import SimulatedWorld
from lab.sim.pods.worldcore import WorldSettings
from lab.sim.traces import kod2
from policy.cluster.events import JobSeen, NodeSeen, PodSeen
from policy.cluster.job import WORKER, Job, Role, Slot
from policy.cluster.pod import Pod
from policy.cluster.training import Goal, Training, Utility
from tests.stage import HandClock

SAID = Training(3, 2, 4, 0.5, 30.0, 1.0, 2.0, Utility(10.0, 0.1, 8.0), goal=Goal.MAX, alpha=1e-5)


def own(spec: JobSpec, kind: WorkloadKind) -> JobSpec:
    """Return a job of the given kind with three workers like those of ``spec``, no ps, and bounds of 1 to 5 workers."""
    worker = spec.role(WORKER)
    assert worker is not None
    return replace(spec, kind=kind, roles=(Role(WORKER, 3, worker.requests),), min_workers=1, max_workers=5)


class Bench:
    """KOD2's nodes and its first job behind the embedded API, with a clock that the test moves."""

    def __init__(self, kind: WorkloadKind = WorkloadKind.TFJOB, **said: Any) -> None:
        self.clock = HandClock()
        self.world = SimulatedWorld(WorldSettings(), self.clock.now())
        trace = kod2(0)
        for node in trace.nodes:
            self.world.add_node(node)
        gate = GatePolicy()
        self.store = ObjectStore()
        server = ApiServer(self.store, self.clock, random.Random(0), gate)
        self.bridge = Bridge(self.world, server, self.clock, gate)
        self.api = EmbeddedApi(server, self.clock)
        self.spec = replace(trace.jobs[0] if kind.ends else own(trace.jobs[0], kind), **said)
        self.bridge.do(lambda world: world.submit(self.spec))
        self.wait(5)

    def wait(self, seconds: float) -> None:
        self.clock.time += seconds
        self.bridge.advance()

    def pod(self, name: str) -> Json:
        found = self.store.get(PODS, "default", name)
        assert found is not None
        return found

    @property
    def pods(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.store.all(PODS)]

    async def patch(self, name: str, patch: Any, **options: Any) -> object:
        return await self.api.patch(Ref(PODS, "default", name), patch, **options)


def same(job: Job) -> Job:
    """Return the job without what the live translator and the simulator may state differently.

    These are its version, the fractions of a second of its arrival, the namespace in its uid, and whether its object
    can hold notes (the simulator has no objects).
    """
    uid = job.uid.rpartition("/")[2]
    return replace(job, version=0, arrival=int(job.arrival), uid=uid, holds_notes=False)


@pytest.mark.parametrize("training", [None, SAID])
@pytest.mark.parametrize("kind", [WorkloadKind.TFJOB, WorkloadKind.STATEFULSET])
def test_the_live_translator_reads_a_job_as_the_job_level_simulator_makes_it(
    kind: WorkloadKind, training: Training | None
) -> None:
    bench = Bench(kind, training=training, migratable=training is not None)
    job = bench.world.store.job_named("default", "job-0")
    assert job is not None
    shown = {"type": "ADDED", "object": bench.store.get(RESOURCE_OF[kind], "default", "job-0")}
    seen = [event for event in Translator("kohort").events(RESOURCE_OF[kind], shown) if isinstance(event, JobSeen)]
    assert [same(event.job) for event in seen] == [same(job_fact(job))]


def test_a_job_with_elastic_ps_says_so_to_the_live_translator() -> None:
    bench = Bench(training=SAID, ps_elastic=True)
    shown = {"type": "ADDED", "object": bench.store.get(TFJOBS, "default", "job-0")}
    (seen,) = Translator("kohort").events(TFJOBS, shown)
    assert isinstance(seen, JobSeen)
    assert seen.job.ps_restarts


async def test_the_live_translator_reads_nodes_and_bound_pods() -> None:
    bench = Bench()
    await bench.api.bind("default", "job-0-ps-0", "", "node-1", {"kohort.dev/plan": "p"})
    bench.wait(5)
    read = Translator("kohort")
    for name, node in bench.world.store.nodes.items():
        (seen,) = read.events(NODES, {"type": "ADDED", "object": bench.store.get(NODES, "", name)})
        assert seen == NodeSeen(replace(node, version=seen.node.version))  # type: ignore[union-attr]
    (event,) = read.events(PODS, {"type": "ADDED", "object": bench.pod("job-0-ps-0")})
    assert isinstance(event, PodSeen)
    assert (event.pod.node, event.pod.plan, event.pod.slot) == ("node-1", "p", Slot("ps", 0))


def test_pods_carry_the_operators_labels_and_their_job_as_controller() -> None:
    bench = Bench()
    meta = bench.pod("job-0-worker-0")["metadata"]
    assert meta["labels"] == {
        "training.kubeflow.org/job-name": "job-0",
        "training.kubeflow.org/operator-name": "tfjob-controller",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "0",
        "training.kubeflow.org/job-role": "master",
    }
    job = bench.store.get(TFJOBS, "default", "job-0")
    assert job is not None
    owner = meta["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("TFJob", job["metadata"]["uid"], True)


async def test_a_binding_starts_the_pod_on_its_node() -> None:
    bench = Bench()
    uid = bench.pod("job-0-ps-0")["metadata"]["uid"]
    assert isinstance(await bench.api.bind("default", "job-0-ps-0", uid, "node-1", {"plan": "p"}), Done)
    again = await bench.api.bind("default", "job-0-ps-0", uid, "node-1", {})
    assert isinstance(again, Refused)
    assert again.status == 409
    bench.wait(5)
    pod = bench.pod("job-0-ps-0")
    assert (pod["spec"]["nodeName"], pod["status"]["phase"]) == ("node-1", "Running")
    assert pod["metadata"]["annotations"]["plan"] == "p"


async def test_fewer_replicas_take_the_highest_index_away() -> None:
    bench = Bench()
    ref = Ref(TFJOBS, "default", "job-0")
    version = str((await bench.api.get(ref) or {})["metadata"]["resourceVersion"])
    patch = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2}}}}
    assert isinstance(await bench.api.patch(ref, patch, resource_version=version), Done)
    bench.wait(5)
    assert bench.pods == ["job-0-ps-0", "job-0-worker-0", "job-0-worker-1"]
    late = await bench.api.patch(ref, patch, resource_version=version)
    assert isinstance(late, Refused)
    assert late.status == 409


async def test_the_gate_is_switched_by_its_config_map_and_removed_by_a_patch() -> None:
    bench = Bench()
    await bench.api.patch(Ref(CONFIGMAPS, "kohort-system", "kohort-gate"), {"data": {"gate": "on"}})
    bench.bridge.do(lambda world: world.submit(replace(bench.spec, name="late")))
    bench.wait(5)
    pod = bench.pod("late-ps-0")
    assert pod["spec"]["schedulingGates"] == [{"name": "kohort.dev/admission"}]
    assert pod["status"]["conditions"][0]["reason"] == "SchedulingGated"
    gate = "/spec/schedulingGates/0"
    guarded = [
        {"op": "test", "path": f"{gate}/name", "value": "kohort.dev/admission"},
        {"op": "remove", "path": gate},
    ]
    await bench.patch("late-ps-0", guarded, kind="json", uid=pod["metadata"]["uid"])
    assert "schedulingGates" not in bench.pod("late-ps-0")["spec"]
    assert "schedulingGates" not in bench.pod("job-0-ps-0")["spec"]


async def test_one_patch_of_several_fields_reaches_the_world_whole() -> None:
    bench = Bench()
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    await bench.patch("job-0-ps-0", {"metadata": {"annotations": {"a": "1"}}})
    status = {"status": {"conditions": [refused], "nominatedNodeName": "node-2"}}
    await bench.patch("job-0-ps-0", status, subresource="status")
    pod = bench.world.store.pod_named("default", "job-0-ps-0")
    assert pod is not None
    assert pod.annotations["a"] == "1"
    assert (pod.nominated, pod.scheduled) == ("node-2", (False, "Unschedulable", "no room"))


async def test_a_deleted_bound_pod_goes_after_its_kubelet_and_another_takes_its_place() -> None:
    bench = Bench()
    first = bench.pod("job-0-ps-0")["metadata"]["uid"]
    await bench.api.bind("default", "job-0-ps-0", first, "node-1", {})
    bench.wait(5)
    await bench.api.delete_pod("default", "job-0-ps-0", first)
    assert bench.pod("job-0-ps-0")["metadata"]["deletionTimestamp"]
    bench.wait(5)
    second = bench.pod("job-0-ps-0")
    assert second["metadata"]["uid"] != first
    assert "nodeName" not in second["spec"]


@pytest.mark.parametrize("verb", ["delete_pod", "evict_pod"])
async def test_a_pod_is_not_deleted_in_place_of_another_of_its_name(verb: str) -> None:
    bench = Bench()
    before = bench.pod("job-0-ps-0")
    refused = await getattr(bench.api, verb)("default", "job-0-ps-0", "uid-of-the-pod-before")
    assert isinstance(refused, Refused)
    assert (refused.status, refused.outdated) == (409, True)
    assert bench.pod("job-0-ps-0") == before


def test_a_burst_of_pods_comes_at_the_operators_rate_at_todays_date() -> None:
    """At today's date a float of epoch seconds cannot express very short waits; they must not stop the world's time."""
    bench = Bench()
    bench.wait(1_793_000_000.123 - bench.clock.time)
    for spec in [replace(bench.spec, name=f"burst-{index}") for index in range(8)]:
        bench.bridge.do(partial(SimulatedWorld.submit, spec=spec))
    bench.wait(10)
    assert len(bench.pods) == 9 * len(bench.spec.slots)


# -- The tests below are about jobs of Kubernetes' own kinds, such as Deployments. ---------------

OWN = {WorkloadKind.STATEFULSET: STATEFULSETS, WorkloadKind.DEPLOYMENT: DEPLOYMENTS}


def read(bench: Bench, resource: Resource) -> tuple[Job, dict[str, Pod]]:
    """Return the job, and its pods by name, as the live translator reads them from the store."""
    translator, found, pods = Translator("kohort"), list[Job](), dict[str, Pod]()
    for kind in (PODS, resource):
        for item in bench.store.all(kind):
            for event in translator.events(kind, {"type": "ADDED", "object": item}):
                if isinstance(event, JobSeen):
                    found.append(event.job)
                if isinstance(event, PodSeen):
                    pods[event.pod.name] = event.pod
    (job,) = found
    return job, pods


async def scale(bench: Bench, resource: Resource, workers: int, version: str = "") -> object:
    patch = {"spec": {"replicas": workers}, "metadata": {"annotations": {"a": "1"}}}
    return await bench.api.patch(
        Ref(resource, "default", "job-0"), patch, subresource="scale", resource_version=version
    )


@pytest.mark.parametrize("kind", OWN)
def test_the_extender_takes_an_own_kind_for_a_gang_with_all_its_pods(kind: WorkloadKind) -> None:
    job, pods = read(Bench(kind), OWN[kind])
    assert (job.kind, job.invalid, job.note, job.elastic, job.min_workers, job.max_workers) == (
        kind.value, "", "", True, 1, 5
    )  # fmt: skip
    assert {(pod.job_uid, str(pod.slot)) for pod in pods.values()} == {(job.uid, f"worker-{n}") for n in range(3)}


@pytest.mark.parametrize("kind", OWN)
async def test_a_scale_sets_the_count_and_nothing_else_at_its_version(kind: WorkloadKind) -> None:
    bench, resource = Bench(kind), OWN[kind]
    before = bench.store.get(resource, "default", "job-0") or {}
    done = await scale(bench, resource, 5, before["metadata"]["resourceVersion"])
    assert isinstance(done, Done)
    assert (done.body["kind"], done.body["spec"]) == ("Scale", {"replicas": 5})
    after = bench.store.get(resource, "default", "job-0") or {}
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    bench.wait(5)
    assert len(bench.pods) == 5
    late = await scale(bench, resource, 2, before["metadata"]["resourceVersion"])
    assert isinstance(late, Refused)
    assert late.status == 409
    fewer = await scale(bench, resource, -1)
    assert isinstance(fewer, Refused)
    assert fewer.status == 422
    unscaled = await bench.api.patch(Ref(TFJOBS, "default", "job-0"), {}, subresource="scale")
    assert isinstance(unscaled, Refused)


async def test_a_deployments_pods_are_its_replica_sets_and_the_cheapest_goes() -> None:
    bench = Bench(WorkloadKind.DEPLOYMENT)
    owner = bench.pod(bench.pods[0])["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["apiVersion"], owner["name"].startswith("job-0-")) == ("ReplicaSet", "apps/v1", True)
    for cost, name in zip((-1, -2, 0), bench.pods, strict=True):
        note = {"kohort.dev/slot": f"worker-{-cost}"}
        await bench.api.bind("default", name, "", "node-1", note)
        await bench.patch(
            name, {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": str(cost)}}}
        )
    bench.wait(5)
    names = bench.pods
    await scale(bench, DEPLOYMENTS, 2)
    bench.wait(5)
    assert bench.pods == [names[0], names[2]]

"""Tests of scheduling constraints, quotas and volumes: each is respected for a whole gang, or refused by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from policy.cluster.reasons import Reason
from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.asking import explained, gone, metric, nodes_of, pods, refusal
from tests.e2e.gangs import submit
from tests.e2e.observer import JOB_LABEL, ClusterObserver
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

Json = dict[str, Any]
EACH = 3  # Each zone has three nodes.
NODES = {"a": "east", "b": "west"}
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield two zones of three nodes each, with a controller manager for quotas and volumes."""
    workdir = tmp_path_factory.mktemp("promises")
    with ControlPlane.start(nodes=None, workdir=workdir, controller_manager=True) as started:
        for prefix, zone in NODES.items():
            started.add_nodes(NodeShape(count=EACH, labels={ZONE: zone}), prefix)
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    started = start_kohort(plane, {"release": {"backoff_initial_seconds": 1, "backoff_max_seconds": 4}})
    yield started
    started.stop()


@pytest.fixture
def observer(plane: ControlPlane, space: str) -> Iterator[ClusterObserver]:
    with ClusterObserver(plane, space) as watching:
        yield watching


def all_bound(plane: ControlPlane, job: TFJob, limit: float = 30) -> dict[str, str]:
    """Wait until all members of the job are bound; return the node of each pod by name."""
    size = job.ps + job.workers
    until(lambda: len(nodes_of(plane, job.namespace, job.name)) == size, f"{job.name} bound whole", limit)
    return nodes_of(plane, job.namespace, job.name)


def refused(
    plane: ControlPlane, kohort: Kohort, job: TFJob, *reasons: Reason, detail: str = "", limit: float = 60
) -> None:
    """Wait until the job waits for one of these reasons, with ``detail`` in its text; check that no pod is bound."""
    wanted = {reason.value for reason in reasons}

    def told() -> bool:
        reason, why = explained(kohort, job.namespace, job.name)
        return reason in wanted and detail in why

    until(
        told, f"{job.name} refused for {wanted} {detail}", limit,
        seen=lambda: explained(kohort, job.namespace, job.name),
    )  # fmt: skip
    assert not nodes_of(plane, job.namespace, job.name)


# -- The tests below are about constraints that a plan respects. ---------------------------------


def test_a_quota_that_stops_the_operator_halfway(
    plane: ControlPlane, kohort: Kohort, space: str, observer: ClusterObserver
) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": space},
             "spec": {"hard": {"pods": "2"}}}  # fmt: skip
    where = f"/api/v1/namespaces/{space}/resourcequotas"
    plane.api.create(where, quota)
    until(lambda: "hard" in plane.api.get(f"{where}/few").get("status", {}), "the quota counted")
    job = submit(plane, TFJob(space, "halved", workers=3))
    until(lambda: len(pods(plane, space)) == 2, "the operator stopped at the quota")
    refused(plane, kohort, job, Reason.WAITING_FOR_PODS, detail="worker", limit=30)
    before = metric(kohort.health, "kohort_verb_refusals_total", verb="filter")
    # Wake the existing members by a change: Kohort must refuse their filter calls and not hold them in bind.
    for n, pod in enumerate(pods(plane, space)):
        path = f"/api/v1/namespaces/{space}/pods/{pod['metadata']['name']}"
        plane.api.patch(path, {"metadata": {"annotations": {"example.com/wake": str(n)}}})
    until(lambda: metric(kohort.health, "kohort_verb_refusals_total", verb="filter") > before
          or all(pod["spec"].get("schedulingGates") for pod in pods(plane, space)), "tried again")  # fmt: skip
    assert not nodes_of(plane, space)
    plane.api.patch(f"{where}/few", {"spec": {"hard": {"pods": "10"}}})
    all_bound(plane, job)
    assert observer.partial_seconds(job.name, 4) < 2


def test_a_limit_range_raises_the_real_requests(
    plane: ControlPlane, kohort: Kohort, space: str, observer: ClusterObserver
) -> None:
    """The job's template requests nothing, but a LimitRange gives each pod 3 cores, so that three fit on a node."""
    defaults = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "more", "namespace": space},
                "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "3"}}]}}  # fmt: skip
    plane.api.create(f"/api/v1/namespaces/{space}/limitranges", defaults)
    place = {"nodeSelector": {ZONE: "east"}}
    fits = submit(plane, without_requests(TFJob(space, "fits", workers=8, extra=place)))
    assert max(Counter(all_bound(plane, fits).values()).values()) <= 3
    plane.kubectl("delete", "tfjob", "fits", "-n", space)
    until(lambda: gone(plane, space), "the first job gone")
    above = submit(plane, without_requests(TFJob(space, "above", workers=9, extra=place)))
    refused(plane, kohort, above, Reason.TOO_LARGE, Reason.NO_ROOM)
    assert observer.partial_seconds("above", 10) == 0


def without_requests(job: TFJob) -> TFJob:
    bare = {"containers": [{"name": "tensorflow", "image": "none", "command": ["train"]}]}
    return replace(job, extra={**(job.extra or {}), **bare})


def container(cpu: str = "1", **more: Any) -> Json:
    return {
        "name": "tensorflow",
        "image": "none",
        "command": ["train"],
        "resources": {"requests": {"cpu": cpu}},
        **more,
    }


RUNTIME = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "heavy"}, "handler": "heavy",
           "overhead": {"podFixed": {"cpu": "2"}}}  # fmt: skip
HIDDEN_CORES: dict[str, Json] = {
    "sidecar": {"initContainers": [{**container("2"), "name": "side", "restartPolicy": "Always"}]},
    "init-container": {"initContainers": [{**container("3"), "name": "init"}]},
    "overhead": {"runtimeClassName": "heavy"},
    "limits-only": {"containers": [{**container(), "resources": {"limits": {"cpu": "3"}}}]},
}


@pytest.mark.parametrize("kind", HIDDEN_CORES)
def test_cores_beside_the_container_are_counted(
    plane: ControlPlane, kohort: Kohort, space: str, observer: ClusterObserver, kind: str
) -> None:
    """A member requests one core in its container and three in all, so nine fit on three nodes of ten cores, not ten.

    The other cores come from a sidecar, an init container, the runtime's overhead, or limits without requests.
    """
    plane.api.create("/apis/node.k8s.io/v1/runtimeclasses", RUNTIME)
    extra = {"nodeSelector": {ZONE: "east"}, **HIDDEN_CORES[kind]}
    nine = submit(plane, TFJob(space, "nine", workers=9, ps=0, extra=extra))
    assert sorted(Counter(all_bound(plane, nine).values()).values()) == [3, 3, 3]
    plane.kubectl("delete", "tfjob", "nine", "-n", space)
    until(lambda: gone(plane, space), "the first job gone")
    ten = submit(plane, TFJob(space, "ten", workers=10, ps=0, extra=extra))
    refused(plane, kohort, ten, Reason.TOO_LARGE)
    assert observer.partial_seconds("ten", 10) == 0


def with_port(port: int) -> Json:
    ports = [{"name": "own", "containerPort": port, "hostPort": port}]
    return {"nodeSelector": {ZONE: "east"}, "containers": [container(ports=ports)]}


def test_host_ports_go_one_to_a_node(
    plane: ControlPlane, kohort: Kohort, space: str, observer: ClusterObserver
) -> None:
    three = submit(plane, TFJob(space, "three", workers=3, ps=0, extra=with_port(8080)))
    assert sorted(all_bound(plane, three).values()) == ["a-0", "a-1", "a-2"]
    taken = submit(plane, TFJob(space, "taken", workers=1, ps=0, extra=with_port(8080)))
    refused(plane, kohort, taken, Reason.NO_ROOM)
    four = submit(plane, TFJob(space, "four", workers=4, ps=0, extra=with_port(8081)))
    refused(plane, kohort, four, Reason.TOO_LARGE, detail="8081")
    other = submit(plane, TFJob(space, "other", workers=3, ps=0, extra=with_port(8082)))
    assert sorted(all_bound(plane, other).values()) == ["a-0", "a-1", "a-2"]
    plane.api.delete(three.path)
    all_bound(plane, taken)
    assert observer.partial_seconds("four", 4) == 0


def affinity(*expressions: Json) -> Json:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


HOSTNAME = "kubernetes.io/hostname"
PLACES: dict[str, tuple[Json, set[str]]] = {
    "selector": ({"nodeSelector": {ZONE: "west"}}, {"b-0", "b-1", "b-2"}),
    "in": (affinity({"key": HOSTNAME, "operator": "In", "values": ["a-2", "b-2"]}), {"a-2", "b-2"}),
    "not-in": (
        affinity({"key": ZONE, "operator": "NotIn", "values": ["east"]},
                 {"key": HOSTNAME, "operator": "NotIn", "values": ["b-1"]}), {"b-0", "b-2"},
    ),
    "exists": (affinity({"key": "disk", "operator": "Exists"}), {"b-1"}),
    "not-there": (
        affinity({"key": "disk", "operator": "DoesNotExist"}, {"key": ZONE, "operator": "In", "values": ["west"]}),
        {"b-0", "b-2"},
    ),
    "above": (affinity({"key": "disk", "operator": "Gt", "values": ["5"]}), {"b-1"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", PLACES)
def test_only_nodes_that_the_pods_accept(
    plane: ControlPlane, kohort: Kohort, space: str, observer: ClusterObserver, kind: str
) -> None:
    """Two members of four cores fit on each node; twice as many members as allowed nodes start, one more does not."""
    extra, allowed = PLACES[kind]
    plane.kubectl("label", "node", "b-1", "disk=9", "--overwrite")
    most = 2 * len(allowed)
    fits = submit(plane, TFJob(space, "fits", workers=most, ps=0, worker_cpu="4", extra=extra))
    assert set(all_bound(plane, fits).values()) == allowed
    plane.api.delete(fits.path)
    until(lambda: gone(plane, space), "the first job gone")
    above = submit(plane, TFJob(space, "above", workers=most + 1, ps=0, worker_cpu="4", extra=extra))
    refused(plane, kohort, above, Reason.TOO_LARGE)
    assert observer.partial_seconds("above", most + 1) == 0


def test_taints_keep_a_gang_away_unless_it_tolerates_them(
    plane: ControlPlane, kohort: Kohort, space: str, observer: ClusterObserver
) -> None:
    east = {"nodeSelector": {ZONE: "east"}}
    tolerant = {**east, "tolerations": [{"key": "only", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}]}
    for node in ("a-0", "a-1"):
        plane.kubectl("taint", "node", node, "only=gpu:NoSchedule")
    try:
        until(lambda: len(tainted(plane)) == 2, "taints seen")
        shy = submit(plane, TFJob(space, "shy", workers=3, ps=0, worker_cpu="4", extra=east))
        refused(plane, kohort, shy, Reason.TOO_LARGE, Reason.NO_ROOM)
        bold = submit(plane, TFJob(space, "bold", workers=6, ps=0, worker_cpu="4", extra=tolerant))
        assert len(set(all_bound(plane, bold).values())) == 3
        plane.api.delete(bold.path)
    finally:
        plane.kubectl("taint", "node", "a-0", "a-1", "only-")
    all_bound(plane, shy)
    assert observer.partial_seconds("shy", 3) < 2


def tainted(plane: ControlPlane) -> set[str]:
    nodes = plane.api.get("/api/v1/nodes")["items"]
    return {node["metadata"]["name"] for node in nodes if node["spec"].get("taints")}


def test_a_cordoned_node_takes_nobody(
    plane: ControlPlane, kohort: Kohort, space: str, observer: ClusterObserver
) -> None:
    east = {"nodeSelector": {ZONE: "east"}}
    plane.kubectl("cordon", "a-1")
    try:
        four = submit(plane, TFJob(space, "four", workers=4, ps=0, worker_cpu="4", extra=east))
        assert set(all_bound(plane, four).values()) == {"a-0", "a-2"}
        more = submit(plane, TFJob(space, "more", workers=2, ps=0, worker_cpu="4", extra=east))
        refused(plane, kohort, more, Reason.NO_ROOM)
    finally:
        plane.kubectl("uncordon", "a-1")
    assert set(all_bound(plane, more).values()) == {"a-1"}
    assert observer.partial_seconds("more", 2) < 2


# -- The tests below are about constraints that only the nodes offered by kube-scheduler show. ---


CLASS = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"},
         "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}  # fmt: skip


def volume(name: str, node: str) -> Json:
    terms = [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}]
    return {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "local",
            "local": {"path": "/data"}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }  # fmt: skip


def claim(space: str, name: str) -> Json:
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": space},
        "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "local", "volumeName": name,
                 "resources": {"requests": {"storage": "1Gi"}}},
    }  # fmt: skip


MOUNTED = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


def provide(plane: ControlPlane, space: str, node: str) -> None:
    """Create a persistent volume on this node, and a claim for it."""
    plane.api.create("/apis/storage.k8s.io/v1/storageclasses", CLASS)
    plane.api.create("/api/v1/persistentvolumes", volume(space, node))
    plane.api.create(f"/api/v1/namespaces/{space}/persistentvolumeclaims", claim(space, space))


@pytest.mark.parametrize("node", ["a-0", "a-2", "b-2"])
def test_a_volume_of_one_node_draws_the_gang_there(
    plane: ControlPlane, kohort: Kohort, space: str, observer: ClusterObserver, node: str
) -> None:
    """Kohort does not read volumes; it learns the allowed node from the nodes that kube-scheduler offers."""
    provide(plane, space, node)
    job = submit(plane, TFJob(space, "rooted", workers=3, extra=MOUNTED))
    assert set(all_bound(plane, job, 60).values()) == {node}
    assert observer.partial_seconds("rooted", 4) < 2


def test_a_gang_too_large_for_the_node_of_its_volume_waits_whole(
    plane: ControlPlane, kohort: Kohort, space: str, observer: ClusterObserver
) -> None:
    provide(plane, space, "a-1")
    job = submit(plane, TFJob(space, "wide", workers=4, worker_cpu="4", extra=MOUNTED))
    until(lambda: any(map(refusal, pods(plane, space))), "a member refused")
    refused(plane, kohort, job, Reason.NO_ROOM, Reason.TOO_LARGE, Reason.NODE_NOT_OFFERED, Reason.BACKING_OFF)
    assert observer.partial_seconds("wide", 5) == 0
    # The refused gang holds no room: another gang that needs the whole zone starts at once.
    whole = {"nodeSelector": {ZONE: "east"}}
    other = submit(plane, TFJob(space, "other", workers=6, ps=0, worker_cpu="4", extra=whole))
    all_bound(plane, other)


# -- The tests below are about constraints for which Kohort refuses a job. -----------------------


SPREAD = {"maxSkew": 1, "topologyKey": ZONE, "labelSelector": {"matchLabels": {"a": "b"}}}
TERM = {"labelSelector": {"matchLabels": {JOB_LABEL: "asks"}}, "topologyKey": ZONE}
HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"
UNSUPPORTED: dict[str, Json] = {
    "topologySpreadConstraints": {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "DoNotSchedule"}]},
    "affinity.podAffinity": {"affinity": {"podAffinity": {HARD: [TERM]}}},
    "affinity.podAntiAffinity": {"affinity": {"podAntiAffinity": {HARD: [TERM]}}},
    "resourceClaims": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]},
}


@pytest.mark.parametrize("field", UNSUPPORTED)
def test_what_no_plan_can_promise_is_refused_by_name(
    plane: ControlPlane, kohort: Kohort, space: str, observer: ClusterObserver, field: str
) -> None:
    job = submit(plane, TFJob(space, "asks", workers=2, extra=UNSUPPORTED[field]))
    refused(plane, kohort, job, Reason.UNSUPPORTED, detail=field)
    if field != "resourceClaims":  # For a resource claim kube-scheduler waits without a call.
        until(lambda: any(Reason.UNSUPPORTED.text in refusal(pod) for pod in pods(plane, space)), "told on the pod")
    assert not observer.bound_now("asks")


SOFT_WISHES: dict[str, Json] = {
    "spread": {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}]},
    "affinity": {"affinity": {"podAffinity": {SOFT: [{"weight": 1, "podAffinityTerm": TERM}]}}},
    "anti-affinity": {"affinity": {"podAntiAffinity": {SOFT: [{"weight": 1, "podAffinityTerm": TERM}]}}},
}


@pytest.mark.parametrize("kind", SOFT_WISHES)
def test_a_wish_is_no_reason_to_refuse(plane: ControlPlane, kohort: Kohort, space: str, kind: str) -> None:
    all_bound(plane, submit(plane, TFJob(space, "wishes", workers=2, extra=SOFT_WISHES[kind])))

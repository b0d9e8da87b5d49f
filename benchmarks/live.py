"""The real control plane for benchmarks: nodes without a kubelet, many objects at once, and CPU by process."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import yaml

from tests.controlplane import ControlPlane, NodeShape, training
from tests.controlplane.kohort import Kohort, start_kohort
from tests.controlplane.process import Process
from tests.e2e.asking import refusal
from tests.e2e.tfjobs import TFJOBS, TFJob

Json = dict[str, Any]
NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
POD_GROUPS = "GenericWorkload=true"
GROUPS_VERSION = "scheduling.k8s.io/v1beta1"  # The API server serves this version only if it is enabled.
GROUPS = f"/apis/{GROUPS_VERSION}/namespaces/{NAMESPACE}/podgroups"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kohort-system/leases/kohort-scheduler"
# All clients have the same rate limits, because otherwise the comparison would measure the limits.
CLIENT = {"clientConnection": {"qps": 2000, "burst": 4000}}
HANDS = 16
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
TICK = os.sysconf("SC_CLK_TCK")


@contextmanager
def bare_plane(
    nodes: int, cpu: str = "32", memory: str = "256Gi", *, pod_groups: bool = False
) -> Iterator[ControlPlane]:
    """Run etcd and API server with job definitions, and nodes without KWOK, which would add load on the API server.

    With ``pod_groups``, the API server serves PodGroups, and every kube-scheduler can schedule them as gangs.
    """
    features, runtime = (POD_GROUPS, f"{GROUPS_VERSION}=true") if pod_groups else ("", "")
    with ControlPlane.start(nodes=None, operator=False, features=features, runtime=runtime) as plane:
        plane.processes["kwok"].stop()
        training.install(plane.api, plane.layout.binaries.job_definitions, plane.layout.pki)
        wait(lambda: training.definitions_established(plane.api), "job definitions")
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        shape = NodeShape(count=nodes, cpu=cpu, memory=memory, gpu=0)
        made = list(shape.manifests("node"))
        for node in made:
            node["metadata"]["annotations"] = {}
            node["status"]["conditions"] = [READY]
        create(plane, "/api/v1/nodes", made)
        yield plane


def wait(look: Callable[[], object], what: str, limit: float = 120, pause: float = 0.05) -> float:
    """Wait until ``look()`` is true; return the seconds that it took. Raises TimeoutError, which names ``what``, after
    ``limit`` seconds.
    """
    began = time.monotonic()
    while not look():
        if time.monotonic() - began > limit:
            raise TimeoutError(f"no {what} within {limit:g} s")
        time.sleep(pause)
    return time.monotonic() - began


# -- The functions below create and delete objects. --------------------------------------------------


def create(plane: ControlPlane, path: str, items: Iterable[Json]) -> list[Json]:
    """Create many objects, several at once; return them in their order."""
    with ThreadPoolExecutor(HANDS) as hands:
        return list(hands.map(lambda item: plane.api.create(path, item), items))


def clear(plane: ControlPlane) -> None:
    """Delete jobs and pods, several at once, because the API server deletes a collection one by one."""
    plane.api.delete(TFJOBS.format(namespace=NAMESPACE))
    clear_pods(plane, PODS)
    if plane.layout.features:
        plane.api.delete(GROUPS)


def end(plane: ControlPlane, job: str) -> None:
    """Delete a job and its pods, so that their nodes are free."""
    plane.api.delete(f"{TFJOBS.format(namespace=NAMESPACE)}/{job}")
    for pod in plane.api.get(PODS, labelSelector=f"training.kubeflow.org/job-name={job}")["items"]:
        plane.api.delete(f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")


def clear_pods(plane: ControlPlane, path: str) -> None:
    """Delete every pod of a namespace."""

    def delete(name: str) -> None:
        plane.api.delete(f"{path}/{name}?gracePeriodSeconds=0")

    with ThreadPoolExecutor(HANDS) as hands:
        list(hands.map(delete, [pod["metadata"]["name"] for pod in plane.api.get(path)["items"]]))


def gangs(count: int, scheduler: str, prefix: str, cpu: str = "100m", memory: str = "100Mi") -> list[TFJob]:
    """Return ``count`` gangs of one ps and four workers, as job objects."""
    return [
        TFJob(NAMESPACE, f"{prefix}-{number}", workers=4, ps_cpu=cpu, worker_cpu=cpu, memory=memory,
              scheduler=scheduler)
        for number in range(count)
    ]  # fmt: skip


def submit(
    plane: ControlPlane, jobs: Iterable[TFJob], gated: bool = False, on: Sequence[str] = (), grouped: bool = False
) -> list[str]:
    """Create the jobs, and then the pods that their operator would create; return the pods' names.

    ``gated``: the pods have Kohort's scheduling gate. ``on``: the node of each job's pods, in the order of the jobs, so
    that the pods are created bound; empty for unbound pods. ``grouped``: the pods of each job name a PodGroup, which is
    created too.
    """
    made = create(plane, TFJOBS.format(namespace=NAMESPACE), [job.manifest() for job in jobs])
    pods = [pod for item in made for pod in pods_of(item)]
    if grouped:
        create(plane, GROUPS, [group_of(item, len(pods) // len(made)) for item in made])
        for pod in pods:
            pod["spec"] |= {"schedulingGroup": {"podGroupName": pod["metadata"]["ownerReferences"][0]["name"]}}
    for number, pod in enumerate(pods):
        pod["spec"] |= {"nodeName": on[number * len(made) // len(pods)]} if on else {}
        pod["spec"] |= {"schedulingGates": [{"name": "kohort.dev/admission"}]} if gated else {}
    create(plane, PODS, pods)
    return [pod["metadata"]["name"] for pod in pods]


def pods_of(item: Json) -> Iterator[Json]:
    """Yield the pods of an existing job, named and labelled as the training operator does."""
    name = item["metadata"]["name"]
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": name, "uid": item["metadata"]["uid"],
             "controller": True, "blockOwnerDeletion": True}  # fmt: skip
    prefix = "training.kubeflow.org"
    for role, spec in sorted(item["spec"]["tfReplicaSpecs"].items()):
        for index in range(spec["replicas"]):
            labels = {f"{prefix}/job-name": name, f"{prefix}/replica-type": role.lower()}
            labels[f"{prefix}/replica-index"] = str(index)
            meta = {"name": f"{name}-{role.lower()}-{index}", "labels": labels, "ownerReferences": [owner]}
            yield {"metadata": meta, "spec": dict(spec["template"]["spec"])}


def group_of(item: Json, size: int) -> Json:
    """Return the PodGroup of an existing job, with the job's name."""
    policy = {"gang": {"minCount": size}}
    return {"metadata": {"name": item["metadata"]["name"]}, "spec": {"schedulingPolicy": policy}}


# -- The functions below start and stop schedulers. --------------------------------------------------


def plain_scheduler(plane: ControlPlane, name: str = "plain") -> Process:
    """Start a stock kube-scheduler named ``name`` that looks at all nodes for each pod."""
    config = {
        "leaderElection": {"leaderElect": False},
        **CLIENT,
        "profiles": [{"schedulerName": name, "percentageOfNodesToScore": 100}],
    }
    path = Path(plane.workdir) / f"{name}-bench.yaml"
    path.write_text(yaml.safe_dump(config))
    return plane.start_scheduler(path, f"{name}-scheduler")


def kohort(plane: ControlPlane, settings: Mapping[str, Any] | None = None, name: str = "kohort") -> Kohort:
    """Start Kohort with the shipped settings, except that clients have the limits `CLIENT` and the replica leads
    without waiting for a Lease.

    The names of its processes begin with ``name``.
    """
    return start_kohort(plane, {"lease": {"identity": "*"}, **(settings or {})}, CLIENT, name)


def window(seconds: int) -> Json:
    """Return settings with a barrier window of ``seconds`` seconds.

    kube-scheduler's httpTimeout is 22 s longer, as with the shipped window of 8 s and timeout of 30 s.
    """
    return {"barrier": {"window_seconds": seconds, "http_timeout_seconds": seconds + 22}}


def open_gate(plane: ControlPlane) -> None:
    """Turn Kohort's gate off for new pods, whatever the controller has set."""
    path = "/api/v1/namespaces/kohort-system/configmaps/kohort-gate"
    plane.api.patch(path, {"data": {"gate": "off"}})


def pause(parts: Kohort) -> None:
    """Stop Kohort's processes: its kube-scheduler, extender and controller."""
    parts.stop()


def resume(plane: ControlPlane, parts: Kohort) -> None:
    """Start extender and controller again and wait until both answer; kube-scheduler stays stopped."""
    forget_lease(plane)
    parts.extender.start()
    parts.controller.start()
    parts.wait_ready()
    wait(lambda: _answers(f"{parts.controller_health}/livez"), "controller", 60)


def forget_lease(plane: ControlPlane) -> None:
    """Delete the Lease, because the next kube-scheduler would otherwise wait until that of the last one has run out."""
    if plane.api.ok(LEASE):
        plane.api.delete(LEASE)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5, trust_env=False).is_success
    except httpx.TransportError:
        return False


# -- The functions below measure. --------------------------------------------------------------------


def cpu_seconds(processes: Mapping[str, Process]) -> dict[str, float]:
    """Return the CPU seconds that each process has used so far, by name."""
    return {name: _cpu(process.pid) for name, process in processes.items() if process.alive}


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def series(url: str, name: str) -> dict[str, float]:
    """Return a metric's values by their labels as text (``{verb="filter"}``)."""
    text = httpx.get(f"{url}/metrics", timeout=30, trust_env=False).text
    found = (
        line.removeprefix(name).rsplit(" ", 1)
        for line in text.splitlines()
        if line.startswith((f"{name}{{", f"{name} "))
    )
    return {labels: float(value) for labels, value in found}


def calls(url: str) -> dict[str, float]:
    """Return how often each verb was called, with any outcome."""
    found: dict[str, float] = {}
    for labels, count in series(url, "kohort_verb_requests_total").items():
        verb = labels.split('verb="', 1)[1].split('"', 1)[0]
        found[verb] = found.get(verb, 0.0) + count
    return found


Look = Callable[[Json], object]


def is_bound(pod: Json) -> object:
    """Tell whether the pod has a node."""
    return pod["spec"].get("nodeName")


def misreported(plane: ControlPlane) -> int:
    """Return how many bound pods have the condition PodScheduled=False."""
    pods = plane.api.get(PODS, fieldSelector="spec.nodeName!=")["items"]
    return sum(bool(refusal(pod)) for pod in pods)


def is_nominated(pod: Json) -> object:
    """Tell whether the pod has a node or a nominated one."""
    return pod.get("status", {}).get("nominatedNodeName") or is_bound(pod)


@dataclass(slots=True)
class Seen:
    """Records, by a watch, when each pod of the namespace is first bound, or first makes ``look`` true.

    Enter the context before the first binding.
    """

    plane: ControlPlane
    at: dict[str, float] = field(default_factory=dict)  # pod's name -> value of time.monotonic()
    on_first: Callable[[], None] = lambda: None
    look: Look = is_bound
    _client: httpx.Client | None = None
    _thread: threading.Thread | None = None
    _stopped: bool = False

    def __enter__(self) -> Self:
        self._client = httpx.Client(base_url=self.plane.url, verify=self.plane.tls, timeout=None, trust_env=False)
        version = self._client.get(PODS, params={"limit": 1}).json()["metadata"]["resourceVersion"]
        self._thread = threading.Thread(target=self._run, args=(version,), name="seen", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        if self._thread is not None:
            self._thread.join(10)

    def _run(self, version: str) -> None:
        assert self._client is not None
        query = {"watch": "1", "timeoutSeconds": "1", "allowWatchBookmarks": "true"}
        query |= {"fieldSelector": "spec.nodeName!="} if self.look is is_bound else {}
        while not self._stopped:
            with self._client.stream("GET", PODS, params=query | {"resourceVersion": version}) as answer:
                for line in answer.iter_lines():
                    version = self._take(json.loads(line), time.monotonic())

    def _take(self, event: Json, now: float) -> str:
        pod = event["object"]
        name = pod["metadata"].get("name", "")
        if event["type"] in ("ADDED", "MODIFIED") and name not in self.at and self.look(pod):
            if not self.at:
                self.on_first()
            self.at[name] = now
        version: str = pod["metadata"]["resourceVersion"]
        return version

    @property
    def seconds(self) -> float:
        """Return the seconds from the first recorded pod to the last."""
        return max(self.at.values()) - min(self.at.values())

    def spreads(self) -> list[float]:
        """Return, for each gang, the seconds from its first to its last recorded member."""
        by_gang: dict[str, list[float]] = {}
        for name, at in self.at.items():
            by_gang.setdefault(name.rsplit("-", 2)[0], []).append(at)
        return [max(times) - min(times) for times in by_gang.values()]

"""Helpers of the tests of sizes, modes, profiles and recovery: gangs, holds, refusals, and a new Kohort."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from tests.controlplane import ControlPlane, ControlPlaneError
from tests.controlplane.kohort import Kohort, shipped, start_kohort
from tests.e2e.asking import JOB, Json, pods
from tests.e2e.tfjobs import TFJOBS, TFJob
from tests.e2e.waiting import until

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kohort-system/leases/kohort-scheduler"
GATE_MAP = "/api/v1/namespaces/kohort-system/configmaps/kohort-gate"
OUR_GATE = "kohort.dev/admission"
# A pod template has the annotation HOLD; its pods then get a scheduling gate of the same name.
HOLD = "tests.kohort.dev/hold"
ROLE, INDEX = (f"training.kubeflow.org/{k}" for k in ("replica-type", "replica-index"))
OPERATOR = "training-operator"
# Objects whose controllers create deleted pods again, each kind before the one that it creates.
OWNERS = (
    "/apis/batch/v1/namespaces/{namespace}/jobs", "/apis/apps/v1/namespaces/{namespace}/statefulsets",
    "/apis/apps/v1/namespaces/{namespace}/deployments", "/apis/apps/v1/namespaces/{namespace}/replicasets",
)  # fmt: skip


def wait_gated(plane: ControlPlane, space: str) -> None:
    """Wait until the controller has switched Kohort's scheduling gate on and new pods in the namespace get it.

    The API server learns of the switch by a watch, so pods created right after the switch have no gate yet.
    """
    until(lambda: plane.api.get(GATE_MAP)["data"]["gate"] == "on", "the gate on")
    until(lambda: would_be_gated(plane, space), "new pods gated")


def would_be_gated(plane: ControlPlane, space: str) -> bool:
    """Tell by a dry run whether a new pod in the namespace would get Kohort's scheduling gate."""
    return is_gated(plane.api.create(f"/api/v1/namespaces/{space}/pods?dryRun=All", lone_pod("new")))


# -- The functions below start, stop and watch Kohort. -------------------------------------------


@contextmanager
def fresh_kohort(
    plane: ControlPlane, settings: Json, name: str, scheduler: Mapping[str, Any] | None = None, api_url: str = ""
) -> Iterator[Kohort]:
    """Yield a leading Kohort (kube-scheduler, extender, controller) called ``name``, and stop it afterwards.

    The Lease of an earlier kube-scheduler is deleted first.
    """
    forget_lease(plane)
    kohort = start_kohort(plane, settings, scheduler, name, api_url=api_url)
    try:
        until(lambda: is_leading(kohort), "leading")
        yield kohort
    finally:
        kohort.stop()


def crash(kohort: Kohort) -> None:
    """Kill extender and controller, and start both again."""
    for process in (kohort.extender, kohort.controller):
        process.crash()
    for process in (kohort.extender, kohort.controller):
        process.start()
    kohort.wait_ready()


def forget_lease(plane: ControlPlane) -> None:
    """Delete the Lease, because a new scheduler would otherwise wait until the old one's has run out."""
    if plane.api.ok(LEASE):
        plane.api.delete(LEASE)


def is_leading(kohort: Kohort) -> bool:
    """Tell whether the extender leads, as ``/readyz/leading`` says."""
    answer = httpx.get(f"{kohort.health}/readyz/leading", timeout=60, trust_env=False)
    return "yes" in answer.text


# A gang whose pods have a volume that kube-scheduler's plugins would look at passes the barrier; others are bound at
# their first bind call (barrier.commit).
LOOKED_AT: Json = {"volumes": [{"name": "scratch", "hostPath": {"path": "/tmp"}}]}


def window(seconds: float, pods_per_second: float = 60) -> Json:
    """Return settings for a barrier window of that length, with the httpTimeout that it needs."""
    barrier = {"window_seconds": seconds, "http_timeout_seconds": seconds + 10}
    return {"barrier": barrier, "scheduler": {"pods_per_second": pods_per_second}}


def scheduler_changes(*, weight: int | None = None, preemption: bool = False) -> Json:
    """Return changes to the shipped KubeSchedulerConfiguration: another extender weight, or DefaultPreemption on."""
    config = shipped("kohort-scheduler-config", "kube-scheduler.yaml")
    if weight is not None:
        config["extenders"][0]["weight"] = weight
    if preemption:
        del config["profiles"][0]["plugins"]
    return {"extenders": config["extenders"], "profiles": config["profiles"]}


# -- The functions below create, change and read pods and jobs. ----------------------------------


_numbers = itertools.count(1)


def new_namespace(plane: ControlPlane, name: str) -> str:
    """Create a namespace named after ``name`` and a number that no retried test uses again; return its name."""
    name = re.sub(r"[^a-z0-9]+", "-", name.removeprefix("test_").lower())
    name = f"{name[:50].strip('-')}-{next(_numbers)}"
    plane.kubectl("create", "namespace", name)
    return name


@contextmanager
def own_namespace(plane: ControlPlane, name: str) -> Iterator[str]:
    """Yield a namespace for one test, and empty it afterwards, so that the next test finds empty nodes."""
    name = new_namespace(plane, name)
    try:
        yield name
    finally:
        empty(plane, name)


def empty(plane: ControlPlane, namespace: str) -> None:
    """Delete the namespace's TFJobs, the objects of OWNERS, and its pods.

    Eight threads delete the pods, because one takes minutes for 1,000 pods.
    """
    path = f"/api/v1/namespaces/{namespace}/pods"
    for owners in (TFJOBS, *OWNERS):
        plane.api.delete(f"{owners.format(namespace=namespace)}?propagationPolicy=Background")

    def delete(name: str) -> None:
        with suppress(ControlPlaneError):  # The pod may be gone by now.
            plane.api.delete(f"{path}/{name}?gracePeriodSeconds=0")

    def is_empty() -> bool:
        left = [pod["metadata"]["name"] for pod in plane.api.get(path)["items"]]
        with ThreadPoolExecutor(8) as deleters:
            list(deleters.map(delete, left))
        return not left

    until(is_empty, "no pod left")


def is_gated(pod: Json, gate: str = OUR_GATE) -> bool:
    """Tell whether the pod has that gate."""
    return any(held["name"] == gate for held in pod["spec"].get("schedulingGates", ()))


def lone_pod(name: str, cpu: str = "1", scheduler: str = "kohort", **spec: Any) -> Json:
    """Return a pod without an owner that requests ``cpu`` cores; ``spec`` has more fields of its spec."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }


def on_node(name: str) -> Json:
    """Return the node selector, as part of a pod spec, that allows that node only."""
    return {"nodeSelector": {"kubernetes.io/hostname": name}}


def create_pod(plane: ControlPlane, namespace: str, pod: Json) -> Json:
    """Create the pod, and return the object that the API server made of it."""
    return plane.api.create(f"/api/v1/namespaces/{namespace}/pods", pod)


HOLD_POLICY = f"""
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: tests-hold}}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}
  matchConditions:
  - {{name: asked-for, expression: '"{HOLD}" in object.metadata.?annotations.orValue({{}})'}}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{{spec: Object.spec{{schedulingGates: [Object.spec.schedulingGates{{name: "{HOLD}"}}]}}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: tests-hold}}
spec: {{policyName: tests-hold}}
"""


def allow_holds(plane: ControlPlane) -> None:
    """Install an admission policy that adds a scheduling gate of the tests to pods with the annotation ``HOLD``.

    Kohort does not remove that gate, so it keeps members from being bound. It cannot be in a job's template, because
    Kohort refuses jobs with a foreign gate there.
    """
    plane.apply(HOLD_POLICY)
    probe = lone_pod("probe", scheduler="nobody")
    probe["metadata"]["annotations"] = {HOLD: "yes"}
    dry_run = "/api/v1/namespaces/default/pods?dryRun=All"
    until(lambda: is_gated(plane.api.create(dry_run, probe), HOLD), "the gate of the tests")


def submit(
    plane: ControlPlane, job: TFJob, *, hold: str = "", dynamic: bool | None = None, stop_seconds: float = 0
) -> TFJob:
    """Create the job, and return it.

    ``hold``: members of that role (PS or Worker) wait behind a gate until `let_go`; this needs `allow_holds`.
    ``dynamic``: if true, the operator does not take the end of a worker for a failure of the job. ``stop_seconds``:
    how long a deleted member takes to terminate.
    """
    manifest = job.manifest()
    if dynamic is not None:
        manifest["spec"]["enableDynamicWorker"] = dynamic
    for role, spec in manifest["spec"]["tfReplicaSpecs"].items():
        notes = spec["template"]["metadata"]["annotations"]
        notes |= {HOLD: "yes"} if role == hold else {}
        notes |= {"demo.kohort.dev/stop-seconds": f"{stop_seconds:g}"} if stop_seconds else {}
    plane.api.create(TFJOBS.format(namespace=job.namespace), manifest)
    return job


def failed(plane: ControlPlane, job: TFJob) -> str:
    """Return the message of the job's condition Failed, or "" if the job has not failed."""
    conditions = plane.api.get(job.path).get("status", {}).get("conditions", [])
    return next((str(c["message"]) for c in conditions if (c["type"], c["status"]) == ("Failed", "True")), "")


def let_go(plane: ControlPlane, namespace: str) -> None:
    """Remove the tests' scheduling gate (``HOLD``) from every pod of the namespace."""
    for pod in pods(plane, namespace):
        if is_gated(pod, HOLD):
            left = [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] != HOLD]
            path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
            plane.api.patch(path, {"spec": {"schedulingGates": left or None}})


def operator_pods(plane: ControlPlane, job: TFJob) -> list[Json]:
    """Return the pods that the training operator would create for the job: ps first, then workers by index."""
    item = plane.api.get(job.path)
    owner = {
        "apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": job.name, "uid": item["metadata"]["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    made = []
    for role, spec in sorted(item["spec"]["tfReplicaSpecs"].items()):
        for index in range(spec["replicas"]):
            labels = {JOB: job.name, ROLE: role.lower(), INDEX: str(index)}
            labels["training.kubeflow.org/operator-name"] = "tfjob-controller"
            meta = {"name": f"{job.name}-{role.lower()}-{index}", "labels": labels, "ownerReferences": [owner]}
            meta["annotations"] = dict(spec["template"].get("metadata", {}).get("annotations", {}))
            inside = {**spec["template"]["spec"], "restartPolicy": "OnFailure"}
            made.append({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": inside})
    return made


@contextmanager
def no_operator(plane: ControlPlane) -> Iterator[None]:
    """Stop the training operator for as long as the context lasts, because the test creates the pods itself.

    The operator is stopped and started instead of paused, because a pause of ten seconds costs it its leadership.
    """
    plane.processes[OPERATOR].stop()
    try:
        yield
    finally:
        revive_operator(plane)


def revive_operator(plane: ControlPlane) -> None:
    """Start the operator if it is not running, and wait until it is ready."""
    process = plane.processes[OPERATOR]
    if not process.alive:
        process.start()
        process.wait_until(lambda: _serves(f"{process.url}/readyz"), "the operator was ready", 180)


def _serves(url: str) -> bool:
    try:
        return httpx.get(url, timeout=60, trust_env=False).is_success
    except httpx.TransportError:
        return False


# -- The functions below make the API server refuse bindings. ------------------------------------

PROBE = "probe"


@contextmanager
def refused_bindings(plane: ControlPlane, namespace: str, expression: str) -> Iterator[None]:
    """Let the API server refuse bindings of the namespace's pods for whose ``name`` a CEL expression is true.

    The context begins when this admission policy is in force, and ends when it is no longer in force; dry runs of a
    binding show both moments.
    """
    name = f"refuse-{namespace}"
    variables = [{"name": "podname", "expression": "object.metadata.name"}]
    condition = f"!(variables.podname == '{PROBE}' || ({expression.replace('name', 'variables.podname')}))"
    plane.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                    "resourceRules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                         "resources": ["pods/binding"]},
                    ],
                },
                "variables": variables,
                "validations": [{"expression": condition, "message": "refused by the test"}],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    )  # fmt: skip
    create_pod(plane, namespace, lone_pod(PROBE, cpu="1m", scheduler="nobody"))
    try:
        until(lambda: not _may_bind(plane, namespace), "the policy in force")
        yield
    finally:
        kinds = "validatingadmissionpolicybinding,validatingadmissionpolicy"
        plane.kubectl("delete", kinds, name)
        until(lambda: _may_bind(plane, namespace), "the policy lifted")
        plane.api.delete(f"/api/v1/namespaces/{namespace}/pods/{PROBE}")


def _may_bind(plane: ControlPlane, namespace: str) -> bool:
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": PROBE}, "target": target}
    try:
        plane.api.create(f"/api/v1/namespaces/{namespace}/pods/{PROBE}/binding?dryRun=All", binding)
    except ControlPlaneError as error:
        if "refused by the test" not in str(error):
            raise
        return False
    return True

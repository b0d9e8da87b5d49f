"""Tests of the control plane that all other end-to-end tests start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import ControlPlane, ControlPlaneError, NodeShape
from tests.controlplane.kohort import CHECKOUT
from tests.controlplane.state import start_time
from tests.e2e.waiting import eventually, never

pytestmark = pytest.mark.full

Json = dict[str, Any]


def pod(namespace: str, name: str, *, scheduler: str = "default-scheduler", **annotations: str) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
    marks = {f"demo.kohort.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": marks},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }


def job(namespace: str, kind: str, **roles: int) -> Json:
    """Return a job of the kind named ``job``, with the given number of replicas of each role."""
    framework = {"TFJob": ("tf", "tensorflow"), "PyTorchJob": ("pytorch", "pytorch"), "MPIJob": ("mpi", "mpi")}
    field, container_name = framework[kind]
    container = {
        "name": container_name,
        "image": "none",
        "command": ["train"],
        "resources": {"requests": {"cpu": "100m"}},
    }
    replicas = {
        role: {"replicas": count, "template": {"spec": {"containers": [container]}}} for role, count in roles.items()
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "job", "namespace": namespace},
        "spec": {f"{field}ReplicaSpecs": replicas},
    }


def phases(plane: ControlPlane, namespace: str) -> dict[str, str]:
    pods = plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {item["metadata"]["name"]: item["status"]["phase"] for item in pods}


def names(plane: ControlPlane, path: str) -> set[str]:
    return {item["metadata"]["name"] for item in plane.api.get(path)["items"]}


def test_nodes_are_ready_and_have_their_shape(control_plane: ControlPlane) -> None:
    nodes = {node["metadata"]["name"]: node for node in control_plane.api.get("/api/v1/nodes")["items"]}
    assert nodes.keys() >= {"node-0", "node-1", "node-2"}
    allocatable = nodes["node-0"]["status"]["allocatable"]
    assert allocatable == {
        "cpu": "10",
        "memory": "32Gi",
        "nvidia.com/gpu": "1",
        "ephemeral-storage": "100Gi",
        "pods": "110",
    }
    assert nodes["node-0"]["spec"].get("taints", []) == []


def test_the_server_says_which_release_it_is(control_plane: ControlPlane) -> None:
    assert control_plane.api.get("/version")["gitVersion"] == "v1.37.2"


def test_a_bound_pod_runs_its_seconds_and_succeeds(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.apply(pod(namespace, "short", run_seconds="2"), pod(namespace, "endless"))
    eventually(lambda: phases(control_plane, namespace), {"short": "Running", "endless": "Running"})
    # A change of the pod must not restart the timer that ends it.
    control_plane.kubectl("label", "pod", "short", "-n", namespace, "touched=yes")
    eventually(lambda: phases(control_plane, namespace)["short"], "Succeeded")
    status = control_plane.api.get(f"/api/v1/namespaces/{namespace}/pods/short")["status"]
    ended = status["containerStatuses"][0]["state"]["terminated"]
    ran = datetime.fromisoformat(ended["finishedAt"]) - datetime.fromisoformat(ended["startedAt"])
    assert ran.total_seconds() >= 2
    assert phases(control_plane, namespace)["endless"] == "Running"


def test_a_deleted_pod_goes_at_once_and_one_with_stop_seconds_later(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.apply(pod(namespace, "quick"), pod(namespace, "slow", stop_seconds="10"))
    eventually(lambda: phases(control_plane, namespace), {"quick": "Running", "slow": "Running"})
    control_plane.kubectl("delete", "pod", "quick", "slow", "-n", namespace, "--wait=false")
    eventually(lambda: phases(control_plane, namespace).keys(), {"slow"})
    eventually(lambda: phases(control_plane, namespace), {})


def test_the_operator_follows_the_worker_count(control_plane: ControlPlane, namespace: str) -> None:
    path = f"/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs/job"
    control_plane.apply(job(namespace, "TFJob", PS=1, Worker=4))
    for workers in (4, 6, 2):
        control_plane.api.patch(path, {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": workers}}}})
        members = {"job-ps-0", *(f"job-worker-{index}" for index in range(workers))}
        eventually(lambda: phases(control_plane, namespace), dict.fromkeys(members, "Running"))
        eventually(lambda: names(control_plane, f"/api/v1/namespaces/{namespace}/services"), members)


@pytest.mark.parametrize(
    ("kind", "role", "chief"),
    [("PyTorchJob", "Master", "job-master-0"), ("MPIJob", "Launcher", "job-launcher")],
)
def test_the_operator_runs_the_other_kinds_too(
    control_plane: ControlPlane, namespace: str, kind: str, role: str, chief: str
) -> None:
    control_plane.apply(job(namespace, kind, **{role: 1, "Worker": 2}))
    members = {chief, "job-worker-0", "job-worker-1"}
    eventually(lambda: phases(control_plane, namespace), dict.fromkeys(members, "Running"))


GATE_POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: kit-gate}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  matchConditions:
  - {name: opted-in, expression: object.spec.schedulerName == "gated"}
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >
        Object{spec: Object.spec{schedulingGates: [Object.spec.schedulingGates{name: "kohort.dev/admission"}]}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: kit-gate}
spec: {policyName: kit-gate}
"""


def test_a_mutating_admission_policy_adds_a_gate(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.apply(GATE_POLICY)
    dry_run = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"

    def gates() -> list[str]:
        created = control_plane.api.create(dry_run, pod(namespace, "gated", scheduler="gated"))
        return [gate["name"] for gate in created["spec"].get("schedulingGates", [])]

    try:
        eventually(gates, ["kohort.dev/admission"])  # An admission policy is in force only after a moment.
        untouched = control_plane.api.create(dry_run, pod(namespace, "plain"))
        assert "schedulingGates" not in untouched["spec"]
    finally:
        control_plane.kubectl("delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", "kit-gate")


def test_a_service_account_has_its_own_rights_only(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.kubectl("create", "serviceaccount", "reader", "-n", namespace)
    control_plane.kubectl("create", "role", "reader", "-n", namespace, "--verb=list", "--resource=pods")
    account = f"{namespace}:reader"
    control_plane.kubectl("create", "rolebinding", "r", "-n", namespace, "--role=reader", f"--serviceaccount={account}")
    kubeconfig = control_plane.service_account_kubeconfig(namespace, "reader")
    control_plane.kubectl("get", "pods", "-n", namespace, f"--kubeconfig={kubeconfig}")
    with pytest.raises(
        ControlPlaneError, match=f'User "system:serviceaccount:{account}" cannot list resource "secrets"'
    ):
        control_plane.kubectl("get", "secrets", "-n", namespace, f"--kubeconfig={kubeconfig}")


def test_a_paused_scheduler_binds_nothing_and_a_killed_one_comes_back(
    control_plane: ControlPlane, namespace: str
) -> None:
    scheduler = control_plane.processes["kube-scheduler"]
    scheduler.pause()
    try:
        control_plane.apply(pod(namespace, "waits"))
        never(lambda: phases(control_plane, namespace) != {"waits": "Pending"}, "bound by a paused scheduler", 1)
        scheduler.kill()
    finally:
        scheduler.restart()
    eventually(lambda: phases(control_plane, namespace), {"waits": "Running"})


SECOND_SCHEDULER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: kit-second, resourceNamespace: kube-system}
profiles: [{schedulerName: second}]
"""


def test_a_second_scheduler_leads_by_a_lease_under_its_own_host_name(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    config = tmp_path / "second.yaml"
    config.write_text(SECOND_SCHEDULER)
    process = control_plane.start_scheduler(config, "second", control_plane.admin_kubeconfig, hostname="replica-0")
    control_plane.apply(pod(namespace, "mine", scheduler="second"))
    eventually(lambda: phases(control_plane, namespace), {"mine": "Running"})
    lease = control_plane.api.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kit-second")
    assert lease["spec"]["holderIdentity"].startswith("replica-0_")
    process.stop()


def test_with_the_controller_manager_owned_objects_go_with_their_owner(tmp_path: Path) -> None:
    with ControlPlane.start(NodeShape(count=1), controller_manager=True, workdir=tmp_path) as plane:
        plane.start_scheduler()
        plane.apply(job("default", "TFJob", PS=1, Worker=1))
        eventually(lambda: phases(plane, "default"), {"job-ps-0": "Running", "job-worker-0": "Running"})
        plane.kubectl("delete", "tfjob", "job")
        eventually(lambda: phases(plane, "default"), {})


def test_a_process_that_does_not_come_up_says_why(control_plane: ControlPlane, tmp_path: Path) -> None:
    config = tmp_path / "broken.yaml"
    config.write_text("profiles: 7")
    with pytest.raises(ControlPlaneError, match=r"(?s)broken: ended with code 1 .*broken\.log.*json: cannot unmarshal"):
        control_plane.start_scheduler(config, "broken")


def test_stop_leaves_no_process_and_no_data(tmp_path: Path) -> None:
    plane = ControlPlane.start(nodes=None, operator=False, workdir=tmp_path)
    pids = [process.pid for process in plane.processes.values()]
    plane.stop()
    assert [pid for pid in pids if start_time(pid)] == []
    assert not (tmp_path / "etcd").exists()
    assert (tmp_path / "logs" / "etcd.log").exists()


KILLED = """
import sys
from pathlib import Path
from tests.controlplane import ControlPlane
plane = ControlPlane.start(nodes=None, operator=False, workdir=Path(sys.argv[1]))
print(*(process.pid for process in plane.processes.values()), flush=True)
input()
"""


def test_a_killed_parent_takes_its_processes_along(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path], cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert all(start_time(pid) for pid in pids)
        os.kill(parent.pid, signal.SIGKILL)
    eventually(lambda: [pid for pid in pids if start_time(pid)], [])


def test_up_outlives_its_command_and_down_ends_it(tmp_path: Path) -> None:
    def kit(*arguments: str) -> str:
        command = [sys.executable, "-m", "tests.controlplane", *arguments, "--directory", str(tmp_path / "cluster")]
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    try:
        said = kit("up", "--nodes", "1", "--no-kohort").splitlines()
        assert f"export KUBECONFIG={tmp_path}/cluster/kubeconfig" in said
        assert (tmp_path / "cluster" / "bin" / "kubectl").exists()
        assert "a cluster is up already" in kit("up")
    finally:
        ended = kit("down")
    assert ended.startswith("ended: etcd, kube-apiserver, ")
    assert kit("down") == "no cluster was up\n"

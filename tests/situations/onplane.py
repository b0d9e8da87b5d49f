"""Play a situation on the real control plane: lift constraints, and tell how many members are bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from policy.cluster.resources import HOST_PORT
from tests.controlplane import ControlPlane
from tests.situations.scene import POOL, Change, Constraint, Group, Holder, Host, Runs, Scene

Json = dict[str, Any]
HOSTNAME: Final = "kubernetes.io/hostname"
ROLES: Final = {"worker": "Worker", "ps": "PS"}
ELSEWHERE: Final = Host("elsewhere", "elsewhere")
"""A node for the workers of jobs that finish, whose ps is what holds room."""
QUOTA: Final = "few"


@dataclass(frozen=True)
class OnPlane:
    """A scene that is played on the real control plane, in a namespace of its own."""

    plane: ControlPlane
    scene: Scene
    space: str

    # -- The methods below make the cluster as it is at the beginning. -----------------------------

    def hosts(self) -> Iterator[Json]:
        """Yield the scene's nodes as API objects, ready, not cordoned and without taints."""
        return (node_object(host) for host in self.scene.hosts)

    def run_others(self) -> None:
        """Create the running and finished jobs of the scene, which hold room."""
        for runs in self.scene.running:
            self.plane.api.create(self._jobs, _runs_object(runs))

    def others_run(self) -> bool:
        """Tell whether the pods of these jobs are on their nodes, and whether the finished jobs have succeeded."""
        return all(self._runs(runs) for runs in self.scene.running)

    def _runs(self, runs: Runs) -> bool:
        role = "ps" if runs.finished else "worker"
        held = [pod for pod in self._pods(runs.name) if pod["metadata"]["name"].startswith(f"{runs.name}-{role}-")]
        there = any(pod["spec"].get("nodeName") == runs.host for pod in held)
        return there and (not runs.finished or self._has_succeeded(runs.name))

    def _has_succeeded(self, name: str) -> bool:
        conditions = self.plane.api.get(f"{self._jobs}/{name}").get("status", {}).get("conditions", [])
        return ("Succeeded", "True") in {(one["type"], one["status"]) for one in conditions}

    def settle(self) -> None:
        """Create the pods of other schedulers, then cordon and taint nodes, and then create the gang's job."""
        for holder in self.scene.holders:
            self.plane.api.create(self._path("pods"), _holder_object(holder))
            if holder.finalizer:
                self.plane.api.delete(f"{self._path('pods')}/{holder.name}?gracePeriodSeconds=0")
        for host in self.scene.hosts:
            if host.cordoned or host.taints:
                taints = [{"key": one.key, "value": one.value, "effect": one.effect} for one in host.taints]
                self._patch_node(host.name, {"spec": {"unschedulable": host.cordoned, "taints": taints}})
        if self.scene.absent:
            most = sum(group.count for group in self.scene.groups) - self.scene.absent
            quota = {"metadata": {"name": QUOTA}, "spec": {"hard": {"pods": str(most)}}}
            self.plane.api.create(self._path("resourcequotas"), {"apiVersion": "v1", "kind": "ResourceQuota", **quota})
        self.plane.api.create(self._jobs, _gang_object(self.scene))

    # -- The methods below read values from the cluster. -------------------------------------------

    def values(self, constraint: Constraint) -> tuple[str, ...]:
        """Return the values that the explanation must contain for the constraint, with the names of this namespace."""
        if any(change.verb == "create" for change in constraint.lift):
            return (f"ResourceQuota {self.space}/{QUOTA}",)
        return tuple(value.replace("team/", f"{self.space}/") for value in constraint.values)

    def bound(self) -> int:
        """Return how many members of the gang are bound."""
        return sum(1 for pod in self._pods("gang") if pod["spec"].get("nodeName"))

    @property
    def size(self) -> int:
        """Return the number of the gang's members."""
        return sum(group.count for group in self.scene.groups)

    # -- The methods below make the changes that lift a constraint. --------------------------------

    def lift(self, *changes: Change) -> None:
        """Make the changes in the cluster, one after the other."""
        for change in changes:
            getattr(self, f"_{change.verb}")(change)

    def _raise(self, change: Change) -> None:
        amounts = {name: _quantity(name, amount) for name, amount in change.amounts.items()}
        status = {"status": {"allocatable": amounts, "capacity": amounts}}
        self.plane.api.patch(f"/api/v1/nodes/{change.name}/status", status)

    def _uncordon(self, change: Change) -> None:
        self.plane.kubectl("uncordon", change.name)

    def _untaint(self, change: Change) -> None:
        self.plane.kubectl("taint", "node", change.name, *(f"{key}-" for key in change.labels))

    def _label(self, change: Change) -> None:
        self._patch_node(change.name, {"metadata": {"labels": dict(change.labels)}})

    def _add(self, change: Change) -> None:
        assert change.host is not None
        self.plane.api.create("/api/v1/nodes", node_object(change.host))

    def _gone(self, change: Change) -> None:
        path = f"{self._path('pods')}/{change.name}"
        if any(holder.finalizer for holder in self.scene.holders if holder.name == change.name):
            # The pod has been deleted already, and only its finalizer keeps it.
            self.plane.api.patch(path, {"metadata": {"finalizers": None}})
        else:
            self.plane.api.delete(f"{path}?gracePeriodSeconds=0")

    def _end(self, change: Change) -> None:
        self.plane.api.delete(f"{self._jobs}/{change.name}")  # The garbage collector deletes the job's pods.

    def _delete(self, change: Change) -> None:
        self._end(change)

    def _resume(self, _: Change) -> None:
        self.plane.api.patch(f"{self._jobs}/gang", {"spec": {"runPolicy": {"suspend": False}}})

    def _create(self, _: Change) -> None:
        self.plane.api.delete(f"{self._path('resourcequotas')}/{QUOTA}")

    # -- The methods below make paths of the API and send patches. ---------------------------------

    @property
    def _jobs(self) -> str:
        return f"/apis/kubeflow.org/v1/namespaces/{self.space}/tfjobs"

    def _path(self, plural: str) -> str:
        return f"/api/v1/namespaces/{self.space}/{plural}"

    def _pods(self, job: str) -> list[Json]:
        found: list[Json] = self.plane.api.get(
            self._path("pods"), labelSelector=f"training.kubeflow.org/job-name={job}"
        )["items"]
        return found

    def _patch_node(self, name: str, change: Json) -> None:
        self.plane.api.patch(f"/api/v1/nodes/{name}", change)


def node_object(host: Host) -> Json:
    """Return the API object of the node, not cordoned and without taints; KWOK makes the node ready."""
    has = {name: _quantity(name, amount) for name, amount in host.has.items()}
    labels = {POOL: host.pool, HOSTNAME: host.name, "type": "kwok", "kubernetes.io/os": "linux", **host.labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": host.name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"allocatable": has, "capacity": has},
    }


def _quantity(name: str, amount: int) -> str:
    return f"{amount}m" if name == "cpu" else str(amount)


def _container(name: str, asks: Mapping[str, int]) -> Json:
    amounts = {key: _quantity(key, amount) for key, amount in asks.items() if not key.startswith(HOST_PORT)}
    # The API server accepts a request for huge pages only beside a request for cpu or memory.
    amounts = amounts if {"cpu", "memory"} & amounts.keys() else {"cpu": "1m", **amounts}
    ports = [int(key.rpartition("/")[2]) for key in asks if key.startswith(HOST_PORT)]
    return {
        "name": name, "image": "none", "resources": {"requests": amounts, "limits": amounts},
        "ports": [{"name": f"held-{port}", "containerPort": port, "hostPort": port} for port in ports],
    }  # fmt: skip


def _holder_object(holder: Holder) -> Json:
    meta = {"name": holder.name, "finalizers": [holder.finalizer] if holder.finalizer else []}
    spec = {"schedulerName": "other", "nodeName": holder.host, "containers": [_container("main", holder.asks)]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _tfjob(name: str, roles: Json, **policy: Any) -> Json:
    spec = {"runPolicy": policy, "tfReplicaSpecs": roles}
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}, "spec": spec}


def _role(count: int, asks: Mapping[str, int], notes: Mapping[str, str] = {}, **spec: Any) -> Json:
    inside = {"schedulerName": "kohort", "containers": [_container("tensorflow", asks)], **spec}
    template = {"metadata": {"annotations": dict(notes)}, "spec": inside}
    return {"replicas": count, "restartPolicy": "OnFailure", "template": template}


def _runs_object(runs: Runs) -> Json:
    there = {"nodeSelector": {HOSTNAME: runs.host}}
    if not runs.finished:
        return _tfjob(runs.name, {"Worker": _role(1, runs.asks, **there)})
    quick = {"demo.kohort.dev/run-seconds": "1"}
    worker = _role(1, {"cpu": 100}, quick, nodeSelector={HOSTNAME: ELSEWHERE.name})
    return _tfjob(runs.name, {"PS": _role(1, runs.asks, **there), "Worker": worker}, cleanPodPolicy="None")


def _gang_object(scene: Scene) -> Json:
    roles = {ROLES[group.role]: _role(group.count, group.asks, **_places(group)) for group in scene.groups}
    return _tfjob("gang", roles, cleanPodPolicy="Running", suspend=scene.suspended)


def _places(group: Group) -> Json:
    found: Json = {"nodeSelector": {POOL: group.pool}}
    if group.wants:
        needs = [
            {"key": need.key, "operator": need.operator, **({"values": list(need.values)} if need.values else {})}
            for need in group.wants
        ]
        terms = {"nodeSelectorTerms": [{"matchExpressions": needs}]}
        found["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return found

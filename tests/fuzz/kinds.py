"""Well-formed objects that the fuzz tests damage: each kind of job and pod group, their pods, single pods, and nodes.

All are in the namespace ``wild``; one pod falsely names the service's running job as its owner. ``OF_KIND`` has the
objects by kind, for each kind that Kohort knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from extender.kube.api import NODES, PODS, Resource
from extender.kube.jobkinds import (
    DEPLOYMENT,
    INDEX_LABEL,
    INDEXED_JOB,
    JOBSET,
    LONE_POD,
    MPIJOB,
    PYTORCHJOB,
    ROLE_LABEL,
    SLOT,
    STATEFULSET,
    TFJOB,
    JobKind,
)
from extender.kube.podgroupkinds import GROUPS, GroupKind
from tests.fuzz.service import BORN, member, node, stranger, template, tfjob

Json = dict[str, Any]
Hurt = tuple[Resource, Json]
WILD: Final = "wild"
NOTES: Final = {"kohort.dev/min-workers": "1", "kohort.dev/max-workers": "4", "kohort.dev/utility": "3"}
COMPLETION: Final = "batch.kubernetes.io/job-completion-index"


def _meta(name: str, uid: str, **more: Any) -> Json:
    return {
        "name": name, "namespace": WILD, "uid": uid, "resourceVersion": "7", "creationTimestamp": BORN, **more
    }  # fmt: skip


def _owner(api: str, kind: str, name: str, uid: str) -> Json:
    return {"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": True}


def _object(kind: JobKind, spec: Json) -> Json:
    name, resource = kind.kind.lower(), kind.resource
    meta = _meta(name, f"job-wild-{name}", annotations=dict(NOTES))
    conditions = [{"type": "Running", "status": "True"}]
    api = "/".join(filter(None, (resource.group, resource.version)))
    return {"apiVersion": api, "kind": kind.kind, "metadata": meta, "spec": spec, "status": {"conditions": conditions}}


def _pod(name: str, owner: Json | None = None, on: str = "", **more: Any) -> Json:
    meta = _meta(name, f"uid-wild-{name}", ownerReferences=[owner] if owner else [], labels={}, annotations={})
    spec = template("1")["spec"] | ({"nodeName": on} if on else {}) | more.pop("spec", {})
    return {
        "metadata": meta | more, "spec": spec, "status": {"phase": "Running" if on else "Pending"}
    }  # fmt: skip


def _with_roles(kind: JobKind, **roles: int) -> list[Hurt]:
    """Return a job of the training operator, and a pod of each role."""
    specs = {role: {"replicas": count, "template": template("1")} for role, count in roles.items()}
    policy = {"minReplicas": 1, "maxReplicas": 3, "metrics": []}
    job = _object(kind, {
        "elasticPolicy": policy, "runPolicy": {"schedulingPolicy": {"minAvailable": 2}}, kind.replicas_at: specs,
    })  # fmt: skip
    ref = _owner(job["apiVersion"], kind.kind, job["metadata"]["name"], job["metadata"]["uid"])
    pods = [
        _pod(f"{ref['name']}-{role.lower()}-0", ref, labels={ROLE_LABEL: role.lower(), INDEX_LABEL: "0"})
        for role in roles
    ]
    return [(kind.resource, job), *((PODS, pod) for pod in pods)]


def _tfjob() -> list[Hurt]:
    """Return a TFJob and four pods: two members, one that falsely claims to be the running job's, and a foreign pod."""
    mine = tfjob(WILD, namespace=WILD)
    mine["metadata"]["annotations"] = dict(NOTES)
    forged = {**mine, "metadata": {**mine["metadata"], "name": "runs", "uid": "job-runs"}}
    pods = [member(mine, "worker", 0), member(mine, "ps", 0, "wild-0"), member(forged, "worker", 0), stranger(WILD)]
    for number, pod in enumerate(pods):
        pod["metadata"] |= {"uid": f"uid-wild-{number}", "namespace": WILD}  # An API server would set the UIDs.
    return [(TFJOB.resource, mine), *((PODS, pod) for pod in pods)]


def _counted(kind: JobKind, **spec: Any) -> tuple[Json, Json]:
    """Return a job of a kind that has one pod template and a count, and the owner reference of its pods."""
    job = _object(kind, {**dict.fromkeys(kind.counts, 2), "template": template("1"), **spec})
    return job, _owner(job["apiVersion"], kind.kind, job["metadata"]["name"], job["metadata"]["uid"])


def _indexed_job() -> list[Hurt]:
    job, ref = _counted(INDEXED_JOB, completionMode="Indexed")
    job["status"] |= {"completedIndexes": "1", "failedIndexes": ""}
    pods = (_pod(f"job-{index}-abcde", ref, labels={COMPLETION: str(index)}) for index in range(2))
    return [(INDEXED_JOB.resource, job), *((PODS, pod) for pod in pods)]


def _stateful_set() -> list[Hurt]:
    made, ref = _counted(STATEFULSET, podManagementPolicy="Parallel")
    pods = (_pod(f"{ref['name']}-{index}", ref) for index in range(2))
    return [(STATEFULSET.resource, made), *((PODS, pod) for pod in pods)]


def _deployment() -> list[Hurt]:
    """Return a Deployment and two pods of its ReplicaSet; the bound pod has its slot as an annotation."""
    made, _ = _counted(DEPLOYMENT)
    ref = _owner("apps/v1", "ReplicaSet", "deployment-h", "uid-wild-replicas")
    labels = {"pod-template-hash": "h"}
    bound = _pod("deployment-h-0", ref, "wild-0", labels=labels, annotations={SLOT: "worker-0"})
    return [(DEPLOYMENT.resource, made), (PODS, bound), (PODS, _pod("deployment-h-1", ref, labels=labels))]


def _jobset() -> list[Hurt]:
    """Return a JobSet and pods of the Jobs that it creates."""
    inner = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": template("1")}
    made = _object(JOBSET, {"replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": inner}}]})
    made["metadata"]["annotations"] = {}
    prefix = "jobset.sigs.k8s.io"
    labels = {f"{prefix}/jobset-name": "jobset", f"{prefix}/replicatedjob-name": "workers", f"{prefix}/job-index": "0"}
    ref = _owner("batch/v1", "Job", "jobset-workers-0", "uid-wild-child")
    pods = (_pod(f"jobset-workers-0-{n}-abcde", ref, labels={**labels, COMPLETION: str(n)}) for n in range(2))
    return [(JOBSET.resource, made), *((PODS, pod) for pod in pods)]


def _group(kind: GroupKind) -> list[Hurt]:
    """Return a PodGroup and two pods that name it in the ways that its kind allows."""
    group = kind.resource.group
    name = f"group-{group}-{kind.resource.version}"
    made = {
        "apiVersion": f"{group}/{kind.resource.version}", "kind": "PodGroup",
        "metadata": _meta(name, f"uid-wild-{name}"), "spec": _at(kind.least_at, 2), "status": {},
    }  # fmt: skip
    pods = []
    for number in range(2):
        top, *below = kind.named_at[number % len(kind.named_at)]
        pod = _pod(f"{name}-{number}")
        pod[top] = {**pod[top], **_at(tuple(below), name)}
        pods.append(pod)
    return [(kind.resource, made), *((PODS, pod) for pod in pods)]


def group_key(kind: GroupKind) -> str:
    """Return resource and version of a kind of pod group, because two kinds may differ in their version alone."""
    return f"{kind.resource}/{kind.resource.version}"


def _at(path: tuple[str, ...], value: Any) -> Json:
    for name in reversed(path):
        value = {name: value}
    return dict(value)


OF_KIND: Final[Mapping[str, list[Hurt]]] = {
    TFJOB.kind: _tfjob(),
    PYTORCHJOB.kind: _with_roles(PYTORCHJOB, Master=1, Worker=2),
    MPIJOB.kind: _with_roles(MPIJOB, Launcher=1, Worker=2),
    INDEXED_JOB.kind: _indexed_job(),
    STATEFULSET.kind: _stateful_set(),
    DEPLOYMENT.kind: _deployment(),
    JOBSET.kind: _jobset(),
    **{group_key(kind): _group(kind) for kind in GROUPS},
    LONE_POD: [(PODS, _pod("lone-0")), (PODS, _pod("lone-1", on="wild-0"))],
    "Node": [(NODES, node(f"wild-{number}")) for number in range(2)],
}
"""What gets hurt, by the kind that it is of, or belongs to; of a group by its resource."""

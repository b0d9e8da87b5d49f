"""Renders the simulated world's objects as Kubernetes JSON, as users, the training operator and kubelets write them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final

import yaml

from extender.kube.api import BATCHJOBS, DEPLOYMENTS, NODES, PODS, QUOTAS, STATEFULSETS, TFJOBS, Json, Resource
from extender.kube.jobkinds import (
    ELASTIC_PS,
    INDEX_LABEL,
    INDEXED_JOB,
    MAX_WORKERS,
    MIGRATABLE,
    MIN_WORKERS,
    RELEASED,
    ROLE_LABEL,
    TFJOB,
    TRAINING,
    UTILITY,
)
from extender.kube.trainingannotation import FIELDS, LONGEST
from lab.embedded.apirules import condition, timestamp, typed
from lab.sim.objects import SCHEDULING_GATED, JobObject, JobPhase, JobSpec, PodObject, WorkloadKind
from lab.sim.pods.apps import TEMPLATE_HASH
from policy.cluster.constraints import Constraints, Requirement
from policy.cluster.job import WORKER, Role
from policy.cluster.node import Node
from policy.cluster.pod import Phase
from policy.cluster.resources import HOST_PORT, Resources
from policy.cluster.training import Training

JOB_LABEL: Final = "training.kubeflow.org/job-name"
OPERATOR_LABEL: Final = "training.kubeflow.org/operator-name"
JOB_ROLE_LABEL: Final = "training.kubeflow.org/job-role"
WORK_SECONDS: Final = "demo.kohort.dev/work-seconds"
GATED_TEXT: Final = "Scheduling is blocked due to non-empty scheduling gates"
KEY_OF_ROLE: Final = {role: key for key, role in TFJOB.roles.items()}
IMAGE: Final = "none"
QUOTA: Final = "pods"  # each namespace has at most one ResourceQuota, with this name
RESOURCE_OF: Final[Mapping[WorkloadKind, Resource]] = {
    WorkloadKind.TFJOB: TFJOBS, WorkloadKind.INDEXED_JOB: BATCHJOBS,
    WorkloadKind.STATEFULSET: STATEFULSETS, WorkloadKind.DEPLOYMENT: DEPLOYMENTS,
}  # fmt: skip


def node_json(node: Node, old: Json | None = None) -> Json:
    """Return the node as JSON with its conditions.

    old: the node's earlier JSON; metadata that the world does not know is taken over from it.
    """
    meta = {**_old(old, "metadata"), "name": node.name, "uid": node.uid, "labels": dict(node.labels)}
    spec: Json = {}
    if node.unschedulable:
        spec["unschedulable"] = True
    if node.taints:
        spec["taints"] = [taint._asdict() for taint in node.taints]
    given = quantities(node.allocatable)
    ready = condition("Ready", "True" if node.ready else "Unknown", "KubeletReady" if node.ready else "", "", 0.0)
    status = {"allocatable": given, "capacity": given, "conditions": [ready]}
    return typed(NODES, {"metadata": meta, "spec": spec, "status": status})


def quantities(resources: Resources) -> dict[str, str]:
    """Return the amounts as Kubernetes quantities, by resource."""
    return {
        name: f"{amount}m" if name == "cpu" else str(amount)
        for name, amount in sorted(resources.amounts.items())
        if amount and not name.startswith(HOST_PORT)
    }


# -- The functions below render pods and quotas. -----------------------------------------------------


def pod_json(pod: PodObject, old: Json | None = None) -> Json:
    """Return the pod as JSON, with the operator's labels, and with its job as controller if it has a job."""
    meta: Json = {
        **_old(old, "metadata"),
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
        "creationTimestamp": timestamp(pod.created),
        "labels": {**_old(_old(old, "metadata"), "labels"), **pod.labels, **_operator_labels(pod)},
        "annotations": dict(pod.annotations),
    }
    if pod.owner or pod.controller:
        meta["ownerReferences"] = [_owner(pod) if pod.owner else _foreign_owner(pod)]
    if pod.deleted is not None:
        meta["deletionTimestamp"] = timestamp(pod.deleted)
    return typed(PODS, {"metadata": meta, "spec": _pod_spec(pod), "status": _pod_status(pod, old)})


def quota_json(namespace: str, most: int, used: int) -> Json:
    """Return the namespace's ResourceQuota as JSON, with a limit of ``most`` pods, of which ``used`` exist."""
    hard, taken = {"pods": str(most)}, {"pods": str(used)}
    meta = {"name": QUOTA, "namespace": namespace, "uid": f"quota-of-{namespace}"}
    return typed(QUOTAS, {"metadata": meta, "spec": {"hard": hard}, "status": {"hard": hard, "used": taken}})


def _owner(pod: PodObject) -> Json:
    """Return the pod's owner reference: to its job, or for a Deployment's pod to a ReplicaSet of the Deployment.

    The ReplicaSet is not created as an object, because nothing reads ReplicaSets.
    """
    resource = RESOURCE_OF[pod.kind]
    kind, name, uid = pod.kind.value, pod.job, pod.owner
    if pod.kind is WorkloadKind.DEPLOYMENT:
        kind, name, uid = "ReplicaSet", f"{pod.job}-{pod.labels[TEMPLATE_HASH]}", f"{uid[:-12]}f{uid[-11:]}"
    return {
        "apiVersion": resource.api_version, "kind": kind, "name": name, "uid": uid,
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip


def _foreign_owner(pod: PodObject) -> Json:
    """Return an owner reference to a controller of a kind that Kohort does not support."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": pod.controller, "uid": f"of-{pod.controller}",
        "controller": True,
    }  # fmt: skip


def _operator_labels(pod: PodObject) -> dict[str, str]:
    if pod.slot is None or pod.kind is not WorkloadKind.TFJOB:
        return {}
    labels = {
        JOB_LABEL: pod.job,
        OPERATOR_LABEL: "tfjob-controller",
        ROLE_LABEL: pod.slot.role,
        INDEX_LABEL: str(pod.slot.index),
    }
    chief = pod.slot.role in ("chief", "master") or (pod.slot.role == WORKER and pod.slot.index == 0)
    return labels | ({JOB_ROLE_LABEL: "master"} if chief else {})


def _pod_spec(pod: PodObject) -> Json:
    spec = {**template_spec(pod.requests, pod.constraints, pod.scheduler, pod.kind), "priority": pod.priority}
    if pod.volumes:
        claims = ((name, {"claimName": name}) for name in pod.volumes)
        spec["volumes"] = [{"name": name, "persistentVolumeClaim": claim} for name, claim in claims]
    if pod.gates:
        spec["schedulingGates"] = [{"name": gate} for gate in pod.gates]
    if pod.node:
        spec["nodeName"] = pod.node
    return spec


def _pod_status(pod: PodObject, old: Json | None) -> Json:
    status: Json = {"phase": pod.phase.value}
    before = _old(old, "status").get("conditions") or ()
    if conditions := list(_pod_conditions(pod)):
        status["conditions"] = [_kept_time(new, before) for new in conditions]
    if pod.nominated:
        status["nominatedNodeName"] = pod.nominated
    if pod.started is not None:
        status["startTime"] = timestamp(pod.started)
    return status


def _pod_conditions(pod: PodObject) -> Iterator[Json]:
    seen = pod.scheduled
    if seen is not None:
        text = seen.message or (GATED_TEXT if seen.reason == SCHEDULING_GATED else "")
        yield condition("PodScheduled", "True" if seen.status else "False", seen.reason, text, pod.created)
    if pod.preempted:
        yield condition("DisruptionTarget", "True", "PreemptionByScheduler", "", pod.created)
    if pod.started is not None:
        ready = "True" if pod.phase is Phase.RUNNING else "False"
        yield condition("Ready", ready, "", "", pod.started)


def _kept_time(new: Json, before: tuple[Json, ...] | list[Json]) -> Json:
    """Return the earlier condition if ``new`` differs from it only in lastTransitionTime, else return ``new``."""
    same = next((old for old in before if {**old, "lastTransitionTime": ""} == {**new, "lastTransitionTime": ""}), None)
    return same or new


def template_spec(
    requests: Resources, constraints: Constraints, scheduler: str, kind: WorkloadKind = WorkloadKind.TFJOB
) -> Json:
    """Return the spec of a pod or pod template; ``scheduler`` is its schedulerName, ``kind`` the kind of its job."""
    asked = {name: text for name, text in quantities(requests).items() if name != "pods"}
    container: Json = {"name": "tensorflow", "image": IMAGE, "resources": {"requests": asked}}
    if ports := list(_host_ports(requests)):
        container["ports"] = ports
    restart = "OnFailure" if kind.ends else "Always"
    spec: Json = {"schedulerName": scheduler, "containers": [container], "restartPolicy": restart}
    if constraints.node_selector:
        spec["nodeSelector"] = dict(constraints.node_selector)
    if constraints.tolerations:
        spec["tolerations"] = [{k: v for k, v in t._asdict().items() if v} for t in constraints.tolerations]
    if constraints.terms:
        terms = [
            {"matchExpressions": _needs(term.labels), "matchFields": _needs(term.fields)} for term in constraints.terms
        ]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    return spec


def _needs(needs: tuple[Requirement, ...]) -> list[Json]:
    return [{"key": need.key, "operator": need.operator, "values": list(need.values)} for need in needs]


def _host_ports(requests: Resources) -> Iterator[Json]:
    for name in requests:
        if name.startswith(HOST_PORT):
            protocol, port = name.removeprefix(HOST_PORT).split("/")
            yield {"containerPort": int(port), "hostPort": int(port), "protocol": protocol}


# -- The functions below render jobs. ----------------------------------------------------------------


def job_json(job: JobObject, old: Json | None = None) -> Json:
    """Return the job as its user writes it; a TFJob also has the status that the training operator writes."""
    spec, meta = job.spec, _old(old, "metadata")
    notes = {MIN_WORKERS: str(spec.min_workers), MAX_WORKERS: str(spec.max_workers), UTILITY: f"{spec.utility:g}"}
    marks = {RELEASED: "true"} if job.released else {}
    notes |= _training_notes(spec)
    metadata: Json = {
        **meta,
        "name": spec.name,
        "namespace": spec.namespace,
        "uid": job.uid,
        "creationTimestamp": timestamp(job.created),
        "labels": {**_old(meta, "labels"), **spec.labels},
        "annotations": {**notes, WORK_SECONDS: f"{spec.work_seconds:g}", **marks, **spec.annotations},
    }
    if spec.kind is not WorkloadKind.TFJOB:
        status_fields = _batch_status(job) if spec.kind is WorkloadKind.INDEXED_JOB else {}
        return typed(RESOURCE_OF[spec.kind], {"metadata": metadata, "spec": _own_spec(job), "status": status_fields})
    run: Json = {"cleanPodPolicy": spec.clean_pods.value, "suspend": job.suspended}
    replicas = {KEY_OF_ROLE[role.name]: _replicas(role, spec.scheduler) for role in spec.roles}
    return typed(
        TFJOBS,
        {
            "metadata": metadata,
            "spec": {TFJOB.elastic_if: True, "runPolicy": run, TFJOB.replicas_at: replicas},
            "status": {"conditions": list(_job_conditions(job)), **_job_times(job)},
        },
    )


def _training_notes(spec: JobSpec) -> dict[str, str]:
    """Return the annotations in which a user describes the training and says whether the job may be migrated and its ps
    changed.
    """
    said = {MIGRATABLE: spec.migratable, ELASTIC_PS: spec.ps_elastic}
    notes = {name: "true" for name, holds in said.items() if holds}
    if spec.training is None:
        return notes
    stated, default = dataclasses.asdict(spec.training), dataclasses.asdict(Training())
    stated["goal"], default["goal"] = spec.training.goal.value, default["goal"].value
    fields = {key: stated[name] for key, (name, _) in FIELDS.items() if stated[name] != default[name]}
    return {**notes, TRAINING: yaml.safe_dump(fields, default_flow_style=True, width=LONGEST)}


def _own_spec(job: JobObject) -> Json:
    """Return the spec of a job of a kind that has only workers, in the form that docs/jobkinds.md requires."""
    spec, labels = job.spec, {"app": job.spec.name}
    worker = spec.role(WORKER) or Role(WORKER, 0, Resources({}))
    body = template_spec(worker.requests, worker.constraints, spec.scheduler, spec.kind)
    template = {"metadata": {"labels": {**spec.labels, **labels}}, "spec": body}
    if spec.kind is WorkloadKind.INDEXED_JOB:
        counts = dict.fromkeys(INDEXED_JOB.counts, worker.replicas)
        return {**counts, "completionMode": "Indexed", "suspend": job.suspended, "template": template}
    shared: Json = {"replicas": worker.replicas, "selector": {"matchLabels": labels}, "template": template}
    if spec.kind is WorkloadKind.STATEFULSET:
        return {**shared, "serviceName": spec.name, "podManagementPolicy": "Parallel"}
    return {**shared, "strategy": {"type": "Recreate"}}


def _batch_status(job: JobObject) -> Json:
    """Return the status of a batch/v1 Job as JSON."""
    status_fields: Json = {"completedIndexes": ",".join(map(str, job.over))} if job.over else {}
    if job.phase.ended:
        word = {JobPhase.SUCCEEDED: "Complete", JobPhase.FAILED: "Failed"}[job.phase]
        status_fields["conditions"] = [condition(word, "True", "", "", job.ended or job.created)]
    return status_fields


def _replicas(role: Role, scheduler: str) -> Json:
    template = {"spec": template_spec(role.requests, role.constraints, scheduler)}
    return {"replicas": role.replicas, "restartPolicy": "OnFailure", "template": template}


def _job_conditions(job: JobObject) -> Iterator[Json]:
    yield condition("Created", "True", "TFJobCreated", f"TFJob {job.key} is created.", job.created)
    if job.started is not None:
        running = "True" if job.phase is JobPhase.RUNNING else "False"
        yield condition("Running", running, "TFJobRunning", f"TFJob {job.key} is running.", job.started)
    if job.phase.ended:
        word = job.phase.value
        yield condition(word, "True", f"TFJob{word}", f"TFJob {job.key} has {word.lower()}.", job.ended or job.created)


def _job_times(job: JobObject) -> Mapping[str, str]:
    found = (("startTime", job.started), ("completionTime", job.ended))
    return {key: timestamp(at) for key, at in found if at is not None}


def _old(item: Json | None, key: str) -> Json:
    part = (item or {}).get(key)
    return part if isinstance(part, dict) else {}

"""The objects of a scenario's job by its kind."""

from __future__ import annotations

from typing import Any

from tests.e2e.gangs import on_node
from tests.e2e.observer import NAME_LABEL
from tests.e2e.scenario import GROUPS, KINDS, Arrival

Json = dict[str, Any]
RUN, STOP = "demo.kohort.dev/run-seconds", "demo.kohort.dev/stop-seconds"


def objects(job: Arrival, namespace: str) -> list[tuple[str, Json]]:
    """Return (path, object) in order: the job itself first, then the pods of a group, which no controller creates."""
    made = [(job.list_path(namespace), _itself(job, namespace))]
    if job.kind in GROUPS:
        pods = f"/api/v1/namespaces/{namespace}/pods"
        made += [(pods, _member(job, index)) for index in range(job.asked)]
    return made


def _itself(job: Arrival, namespace: str) -> Json:
    notes: Json = {"utility": job.utility}
    if job.least < job.most:
        notes |= {"min-workers": job.least, "max-workers": job.most}
    notes |= {"training": job.training} if job.training else {}
    notes |= {"elastic-ps": "true"} if job.elastic_ps else {}
    return {
        "apiVersion": KINDS[job.kind].api,
        "kind": "PodGroup" if job.kind in GROUPS else job.kind,
        "metadata": {
            "name": job.name,
            "namespace": namespace,
            "annotations": {f"kohort.dev/{name}": str(value) for name, value in notes.items()},
        },
        "spec": _spec(job),
    }


def _spec(job: Arrival) -> Json:
    match job.kind:
        case "Job":
            return _indexed(job, job.asked, job.cores)
        case "StatefulSet":
            return _replicas(job) | {"serviceName": job.name, "podManagementPolicy": "Parallel"}
        case "Deployment":
            return _replicas(job) | {"strategy": {"type": "Recreate"}}
        case "PodGroup" | "VolcanoGroup":
            return {"minMember": job.asked}
        case "JobSet":
            asked = {"driver": (1, 1), "workers": (job.asked, job.cores)}
            jobs = {role: _indexed(job, count, cores) for role, (count, cores) in asked.items()}
            return {"replicatedJobs": [{"name": r, "replicas": 1, "template": {"spec": s}} for r, s in jobs.items()]}
        case _:
            return _roles(job)


def _roles(job: Arrival) -> Json:
    asked = {role: (count, 1) for role, count in job.rigid.items()} | {"Worker": (job.asked, job.cores)}
    roles = {
        role: {"replicas": count, "restartPolicy": "OnFailure", "template": _template(job, cores)}
        for role, (count, cores) in asked.items()
    }
    spec: Json = {"runPolicy": {"cleanPodPolicy": "Running"}, KINDS[job.kind].roles_at: roles}
    if job.kind == "TFJob":
        spec["enableDynamicWorker"] = True
    if job.kind == "PyTorchJob" and job.least < job.most:
        spec["elasticPolicy"] = {"minReplicas": job.least, "maxReplicas": job.most, "rdzvBackend": "c10d"}
    return spec


def _indexed(job: Arrival, count: int, cores: int) -> Json:
    template = _template(job, cores, restartPolicy="Never")
    return {"parallelism": count, "completions": count, "completionMode": "Indexed", "template": template}


def _replicas(job: Arrival) -> Json:
    return {
        "replicas": job.asked,
        "selector": {"matchLabels": {NAME_LABEL: job.name}},
        "template": _template(job, job.cores),
    }


def _member(job: Arrival, index: int) -> Json:
    pod = {"apiVersion": "v1", "kind": "Pod", **_template(job, job.cores, restartPolicy="Never")}
    named = {
        "PodGroup": ("labels", "scheduling.x-k8s.io/pod-group"),
        "VolcanoGroup": ("annotations", "scheduling.k8s.io/group-name"),
    }
    field, key = named[job.kind]
    pod["metadata"]["name"] = f"{job.name}-{index}"
    pod["metadata"][field][key] = job.name
    return pod


def _template(job: Arrival, cores: int, **spec: Any) -> Json:
    kind = KINDS[job.kind]
    requests = {"cpu": str(cores), "memory": "1Gi", "ephemeral-storage": "1Mi"}
    container = {"name": kind.container, "image": "none", "command": ["train"], "resources": {"requests": requests}}
    notes = {STOP: "1"} | ({} if kind.lasts else {RUN: str(job.seconds)})
    where = on_node(job.node) if job.node else {}
    return {
        "metadata": {"labels": {NAME_LABEL: job.name}, "annotations": notes},
        "spec": {"schedulerName": "kohort", "containers": [container], **where, **spec},
    }

"""A stand-in for the JobSet controller: it creates a JobSet's Jobs, suspends them, and reports their end."""

from __future__ import annotations

import copy
from typing import Any

from tests.controlplane import ControlPlane

Json = dict[str, Any]
JOBSET = "jobset.x-k8s.io/v1alpha2"
ROLE_OF_SET, INDEX_OF_SET = "jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/job-index"


def child(owner: Json, role: str) -> Json:
    """Return the Job object for one entry of the JobSet's ``replicatedJobs``."""
    name, space = owner["metadata"]["name"], owner["metadata"]["namespace"]
    asked = next(one for one in owner["spec"]["replicatedJobs"] if one["name"] == role)
    spec = copy.deepcopy(asked["template"]["spec"]) | {"suspend": _suspended(owner)}
    labels = {"jobset.sigs.k8s.io/jobset-name": name, ROLE_OF_SET: role, INDEX_OF_SET: "0"}
    spec["template"].setdefault("metadata", {}).setdefault("labels", {}).update(labels)
    reference = {"apiVersion": JOBSET, "kind": "JobSet", "name": name, "uid": owner["metadata"]["uid"]}
    meta = {"name": f"{name}-{role}-0", "namespace": space, "ownerReferences": [reference | {"controller": True}]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def reconcile(plane: ControlPlane, space: str) -> None:
    """Do once for every JobSet of the namespace what its controller would do."""
    jobs_at = f"/apis/batch/v1/namespaces/{space}/jobs"
    sets_at = f"/apis/{JOBSET}/namespaces/{space}/jobsets"
    jobs = {job["metadata"]["name"]: job for job in plane.api.get(jobs_at)["items"]}
    for owner in plane.api.get(sets_at)["items"]:
        made = [child(owner | {"apiVersion": JOBSET}, one["name"]) for one in owner["spec"]["replicatedJobs"]]
        found = [jobs.get(job["metadata"]["name"]) or plane.api.create(jobs_at, job) for job in made]
        if all(_is_complete(job) for job in found):
            _complete(plane, f"{sets_at}/{owner['metadata']['name']}", owner)
            continue
        for job in found:
            if _suspended(job) != _suspended(owner) and not _is_complete(job):
                change = {"spec": {"suspend": _suspended(owner)}}
                plane.api.patch(f"{jobs_at}/{job['metadata']['name']}", change)


def _suspended(item: Json) -> bool:
    return bool(item["spec"].get("suspend"))


def _is_complete(job: Json) -> bool:
    return any((c["type"], c["status"]) == ("Complete", "True") for c in job.get("status", {}).get("conditions") or ())


def _complete(plane: ControlPlane, path: str, owner: Json) -> None:
    if not owner.get("status", {}).get("conditions"):
        told = {"type": "Completed", "status": "True", "reason": "AllJobsCompleted", "message": "jobset completed"}
        told["lastTransitionTime"] = owner["metadata"]["creationTimestamp"]
        plane.api.patch(f"{path}/status", {"status": {"conditions": [told]}})

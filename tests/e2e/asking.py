"""Queries of the API server and of Kohort for end-to-end tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort
from tests.e2e.tfjobs import TFJob

Json = dict[str, Any]
JOB = "training.kubeflow.org/job-name"


def pods(plane: ControlPlane, namespace: str, job: str = "") -> list[Json]:
    """Return the pods of a namespace (or of one job) that are not being deleted."""
    query = {"labelSelector": f"{JOB}={job}"} if job else {}
    items: list[Json] = plane.api.get(f"/api/v1/namespaces/{namespace}/pods", **query)["items"]
    return [item for item in items if "deletionTimestamp" not in item["metadata"]]


def gone(plane: ControlPlane, namespace: str) -> bool:
    """Tell whether the namespace has no pod left, not even a terminating one."""
    return not plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]


def nodes_of(plane: ControlPlane, namespace: str, job: str = "") -> dict[str, str]:
    """Return the node of each bound pod by the pod's name."""
    found = pods(plane, namespace, job)
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in found if pod["spec"].get("nodeName")}


def refusal(pod: Json) -> str:
    """Return kube-scheduler's message in PodScheduled=False; "" if there is none or the pod is gated."""
    conditions = pod.get("status", {}).get("conditions", [])
    found: Json = next((c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), {})
    return "" if found.get("reason") == "SchedulingGated" else str(found.get("message", ""))


def explained(kohort: Kohort, namespace: str, name: str) -> tuple[str, str]:
    """Return reason and detail from ``/v1/explain`` of a waiting job; ("", "") if the job is unknown or not waiting."""
    answer = httpx.get(f"{kohort.url}/v1/explain/{namespace}/{name}", timeout=60, trust_env=False)
    if answer.status_code == httpx.codes.NOT_FOUND:
        return "", ""
    answer.raise_for_status()
    waits = answer.json()["waits"] or {}
    return waits.get("reason", ""), waits.get("detail", "")


def cli(kohort: Kohort, *arguments: str) -> str:
    """Run ``kohort`` with these arguments against this service; return its output with all blanks as single spaces."""
    command = [str(Path(sys.executable).with_name("kohort")), *arguments, "--server", kohort.url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"COLUMNS": "1000", "PATH": ""})
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def metric(url: str, name: str, **labels: str) -> float:
    """Return the sum of the samples of a metric at ``url`` that have these labels; 0 if there are none."""
    total = 0.0
    for line in httpx.get(f"{url}/metrics", timeout=60, trust_env=False).text.splitlines():
        head, _, value = line.rpartition(" ")
        found, _, marks = head.partition("{")
        if found == name and all(f'{key}="{wanted}"' in marks for key, wanted in labels.items()):
            total += float(value)
    return total


def job_view(kohort: Kohort, job: TFJob) -> Json:
    """Return Kohort's view of the job and its members; empty while the job is unknown."""
    try:
        view: Json = kohort.get(f"/v1/jobs/{job.namespace}/{job.name}")
    except httpx.HTTPStatusError:
        return {}
    return view


def both_sides(plane: ControlPlane, kohort: Kohort, job: TFJob) -> str:
    """Return as text what Kohort and the API server show of a job and its pods, for a failed test's message."""
    found = pods(plane, job.namespace, job.name)
    gates = {pod["metadata"]["name"]: (pod["spec"].get("schedulingGates"), pod["status"]) for pod in found}
    return f"\nKohort: {job_view(kohort, job)}\nAPI server: {gates}"


def reason(kohort: Kohort, job: TFJob) -> str:
    """Return the code of the reason for which the job waits, or "" if it does not wait."""
    waits = job_view(kohort, job).get("waits") or {}
    return str(waits.get("reason", ""))


def plan_of(kohort: Kohort, job: TFJob) -> Json:
    """Return the job's entry in ``/v1/plans``; empty if it has no plan."""
    plans = kohort.get("/v1/plans")["plans"]
    mine = (plan for plan in plans if (plan["namespace"], plan["name"]) == (job.namespace, job.name))
    return next(mine, {})


def at_barrier(kohort: Kohort, job: TFJob) -> int:
    """Return how many of the job's bind calls the barrier holds now."""
    return len(plan_of(kohort, job).get("at_barrier", ()))


def summary(kohort: Kohort, namespace: str) -> Json:
    """Return state, workers and members' nodes of every job of a namespace, which a restart must restore."""
    jobs = [job for job in kohort.get("/v1/jobs")["jobs"] if job["namespace"] == namespace]
    details = [kohort.get(f"/v1/jobs/{job['namespace']}/{job['name']}") for job in jobs]
    return {
        job["name"]: (
            job["state"],
            job["workers"],
            sorted((m["role"], m["index"], m["node"], m["state"]) for m in job["members"]),
        )
        for job in details
    }

"""What the end-to-end tests ask the API server and Kohort."""

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
    """The pods of a namespace (of one job), which are not going."""
    query = {"labelSelector": f"{JOB}={job}"} if job else {}
    items: list[Json] = plane.api.get(f"/api/v1/namespaces/{namespace}/pods", **query)["items"]
    return [item for item in items if "deletionTimestamp" not in item["metadata"]]


def gone(plane: ControlPlane, namespace: str) -> bool:
    """Whether no pod is left, not even one that is going."""
    return not plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]


def nodes_of(plane: ControlPlane, namespace: str, job: str = "") -> dict[str, str]:
    """The node of each bound pod, by the pod's name."""
    found = pods(plane, namespace, job)
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in found if pod["spec"].get("nodeName")}


def refusal(pod: Json) -> str:
    """What kube-scheduler wrote into PodScheduled=False; empty where it wrote nothing or the pod is gated."""
    conditions = pod.get("status", {}).get("conditions", [])
    found: Json = next((c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), {})
    return "" if found.get("reason") == "SchedulingGated" else str(found.get("message", ""))


def explained(kohort: Kohort, namespace: str, name: str) -> tuple[str, str]:
    """Reason and detail of ``/v1/explain``; two empty texts while the job is unknown or does not wait."""
    answer = httpx.get(f"{kohort.url}/v1/explain/{namespace}/{name}", timeout=60, trust_env=False)
    if answer.status_code == httpx.codes.NOT_FOUND:
        return "", ""
    answer.raise_for_status()
    waits = answer.json()["waits"] or {}
    return waits.get("reason", ""), waits.get("detail", "")


def cli(kohort: Kohort, *arguments: str) -> str:
    """What the command says, on one line."""
    command = [str(Path(sys.executable).with_name("kohort")), *arguments, "--server", kohort.url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"COLUMNS": "1000", "PATH": ""})
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def metric(url: str, name: str, **labels: str) -> float:
    """The sum of a metric's samples that carry these labels; 0 where there is none."""
    total = 0.0
    for line in httpx.get(f"{url}/metrics", timeout=60, trust_env=False).text.splitlines():
        head, _, value = line.rpartition(" ")
        found, _, marks = head.partition("{")
        if found == name and all(f'{key}="{wanted}"' in marks for key, wanted in labels.items()):
            total += float(value)
    return total


def job_view(kohort: Kohort, job: TFJob) -> Json:
    """What Kohort says of the job and its members; empty while it does not know it."""
    try:
        view: Json = kohort.get(f"/v1/jobs/{job.namespace}/{job.name}")
    except httpx.HTTPStatusError:
        return {}
    return view


def both_sides(plane: ControlPlane, kohort: Kohort, job: TFJob) -> str:
    """The job and its pods as Kohort and as the API server have them: for a failure that must be understood later."""
    found = pods(plane, job.namespace, job.name)
    gates = {pod["metadata"]["name"]: (pod["spec"].get("schedulingGates"), pod["status"]) for pod in found}
    return f"\nKohort: {job_view(kohort, job)}\nAPI server: {gates}"


def reason(kohort: Kohort, job: TFJob) -> str:
    """Why the job waits, as Kohort says; empty when it does not."""
    waits = job_view(kohort, job).get("waits") or {}
    return str(waits.get("reason", ""))


def plan_of(kohort: Kohort, job: TFJob) -> Json:
    """The job's plan; empty where it has none."""
    plans = kohort.get("/v1/plans")["plans"]
    mine = (plan for plan in plans if (plan["namespace"], plan["name"]) == (job.namespace, job.name))
    return next(mine, {})


def at_barrier(kohort: Kohort, job: TFJob) -> int:
    """How many members are held in bind."""
    return len(plan_of(kohort, job).get("at_barrier", ()))


def summary(kohort: Kohort, namespace: str) -> Json:
    """State, workers and the members' nodes of every job of a namespace: what a restart must find again."""
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

"""What the end-to-end tests ask the API server and Kohort, and how they wait for an answer."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort

Json = dict[str, Any]


def pods(plane: ControlPlane, namespace: str) -> list[Json]:
    items: list[Json] = plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return items


def nodes_of(plane: ControlPlane, namespace: str, job: str = "") -> dict[str, str]:
    """The node of every bound pod of the namespace, or of one job there."""
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in pods(plane, namespace)
        if pod["spec"].get("nodeName") and pod["metadata"]["name"].startswith(f"{job}-" if job else "")
    }


def refusal(pod: Json) -> str:
    """What kube-scheduler wrote into PodScheduled=False; empty where it wrote nothing or the pod is gated."""
    conditions = pod.get("status", {}).get("conditions", [])
    found: Json = next((c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), {})
    return "" if found.get("reason") == "SchedulingGated" else str(found.get("message", ""))


def explained(kohort: Kohort, namespace: str, name: str) -> tuple[str, str]:
    """Reason and detail of ``/v1/explain``; two empty texts while the job is unknown or does not wait."""
    answer = httpx.get(f"{kohort.url}/v1/explain/{namespace}/{name}", timeout=15, trust_env=False)
    if answer.status_code == httpx.codes.NOT_FOUND:
        return "", ""
    answer.raise_for_status()
    waits = answer.json()["waits"] or {}
    return waits.get("reason", ""), waits.get("detail", "")


def metric(url: str, name: str, **labels: str) -> float:
    """The sum of a metric's samples that carry these labels; 0 where there is none."""
    total = 0.0
    for line in httpx.get(f"{url}/metrics", timeout=10, trust_env=False).text.splitlines():
        head, _, value = line.rpartition(" ")
        found, _, marks = head.partition("{")
        if found == name and all(f'{key}="{wanted}"' in marks for key, wanted in labels.items()):
            total += float(value)
    return total


@contextmanager
def namespace_of(plane: ControlPlane, name: str) -> Iterator[str]:
    """A namespace of a test's own; afterwards it is emptied, so that the next test finds the nodes free."""
    name = f"{re.sub('[^a-z0-9]+', '-', name.lower())[:40].strip('-')}-{zlib.crc32(name.encode()):08x}"
    plane.kubectl("create", "namespace", name)
    yield name
    plane.kubectl("delete", "tfjobs,pods", "--all", "-n", name, "--wait=true", "--timeout=60s")

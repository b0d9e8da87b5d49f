"""Simulated training on fake nodes: a job computes only while all members that its spec asks for run.

An annotation tells each pod when to end (the kit's KWOK stages obey it). A partly running job computes nothing and
holds its room, which is the deadlock that a gang scheduler prevents.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.controlplane import ControlPlane, ControlPlaneError
from tests.e2e.background import Background
from tests.e2e.tfjobs import TFJOBS

Json = dict[str, Any]
RUN_SECONDS = "demo.kohort.dev/run-seconds"


@dataclass(slots=True)
class Trainer(Background):
    """A thread that lets every job of a namespace compute for ``seconds`` once all its members run."""

    plane: ControlPlane
    namespace: str
    seconds: float
    started: dict[str, float] = field(default_factory=dict)

    def run(self) -> None:
        """Start the computation of each job that has become whole; look four times a second."""
        while not self.stopped.wait(0.25):
            jobs = self.plane.api.get(TFJOBS.format(namespace=self.namespace))["items"]
            pods = self.plane.api.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
            for job in jobs:
                self._look(job, [pod for pod in pods if _owner(pod) == job["metadata"]["uid"]])

    def _look(self, job: Json, pods: list[Json]) -> None:
        name = job["metadata"]["name"]
        asked = sum(role.get("replicas", 1) for role in job["spec"]["tfReplicaSpecs"].values())
        running = [pod for pod in pods if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in
                   pod["metadata"]]  # fmt: skip
        if name not in self.started and len(running) < asked:
            return
        self.started.setdefault(name, time.monotonic())
        for pod in running:
            if RUN_SECONDS not in pod["metadata"].get("annotations", {}) and not _is_ps(pod):
                self._end(pod, self.started[name] + self.seconds - time.monotonic())

    def _end(self, pod: Json, left: float) -> None:
        ran = (datetime.now(UTC) - datetime.fromisoformat(pod["status"]["startTime"])).total_seconds()
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
        with contextlib.suppress(ControlPlaneError):  # The pod may be gone by now.
            self.plane.api.patch(path, {"metadata": {"annotations": {RUN_SECONDS: f"{max(0.1, ran + left):.2f}"}}})


def _owner(pod: Json) -> str:
    return str(pod["metadata"].get("ownerReferences", [{}])[0].get("uid", ""))


def _is_ps(pod: Json) -> bool:
    return bool(pod["metadata"]["labels"].get("training.kubeflow.org/replica-type") == "ps")


def finished(plane: ControlPlane, namespace: str) -> set[str]:
    jobs = plane.api.get(TFJOBS.format(namespace=namespace))["items"]
    return {
        job["metadata"]["name"]
        for job in jobs
        if any(c["type"] == "Succeeded" and c["status"] == "True" for c in job.get("status", {}).get("conditions", []))
    }

"""What has to take place under a policy, beside the jobs that come: workers taken and given back, a job moved."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tests.controlplane import ControlPlane, ControlPlaneError
from tests.e2e.asking import nodes_of, pods
from tests.e2e.background import Background
from tests.e2e.gangs import on_node, submit, until
from tests.e2e.tfjobs import TFJob

Json = dict[str, Any]
RUN = "demo.kohort.dev/run-seconds"
CROWDED = "node-2"
BROAD, RIVAL, DONE, GROWS = "broad", "rival", "done", "grows"


def running(plane: ControlPlane, space: str, job: str) -> dict[str, str]:
    """The nodes of its members that run, by name."""
    found = (pod for pod in pods(plane, space, job) if pod["status"].get("phase") == "Running")
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in found}


def uids(plane: ControlPlane, space: str, job: str) -> set[str]:
    """Of its members."""
    return {pod["metadata"]["uid"] for pod in pods(plane, space, job)}


def end(plane: ControlPlane, *jobs: TFJob) -> None:
    """Their training is done."""
    for job in jobs:
        for pod in pods(plane, job.namespace, job.name):
            path = f"/api/v1/namespaces/{job.namespace}/pods/{pod['metadata']['name']}"
            with contextlib.suppress(ControlPlaneError):  # gone meanwhile
                plane.api.patch(path, {"metadata": {"annotations": {RUN: "0.1"}}})


class Chapter:
    """It has jobs of its own, which run for as long as it takes."""

    def __init__(self, plane: ControlPlane, space: str) -> None:
        self.plane, self.space = plane, space

    def begin(self, beside: ExitStack) -> None:
        """Before the others come. ``beside``: what goes on until all is over."""

    def finish(self) -> None:
        """Once the others have ended: wait for what has to take place, and let its jobs end."""


class Taken(Chapter):
    """A job grows over a whole node, a heavier one needs some of that, and it grows back; then both have ended."""

    def begin(self, beside: ExitStack) -> None:
        """All of it."""
        broad = TFJob(self.space, BROAD, workers=4, least=2, most=9, extra=on_node(CROWDED))
        submit(self.plane, broad, stop_seconds=1)
        until(self._is_full, "grown over its node", 60)
        submit(self.plane, TFJob(self.space, RIVAL, workers=1, utility="100", run_seconds=1.0, extra=on_node(CROWDED)))
        until(lambda: len(nodes_of(self.plane, self.space, RIVAL)) == 2, "the heavier job bound", 60)
        until(self._is_full, "grown back", 60)
        end(self.plane, broad)

    def _is_full(self) -> bool:
        return len(running(self.plane, self.space, BROAD)) == 10


@dataclass(slots=True)
class Noting(Background):
    """Training that tells ``metric(n)`` by the annotation of its job; n counts the reports."""

    plane: ControlPlane
    job: TFJob
    metric: Callable[[int], float]
    seconds: float

    def run(self) -> None:
        """Until it is stopped."""
        sent = 0
        while not self.stopped.wait(self.seconds):
            told = json.dumps({"metric": self.metric(sent), "time": time.time()})
            with contextlib.suppress(ControlPlaneError):  # told again in a moment
                self.plane.api.patch(self.job.path, {"metadata": {"annotations": {"kohort.dev/progress": told}}})
                sent += 1


class Moved(Chapter):
    """Of two jobs on a node one has converged and the other grows: once there is room, the first leaves, whole."""

    def __init__(self, plane: ControlPlane, space: str, interval: float) -> None:
        """interval: of the policy's rounds."""
        super().__init__(plane, space)
        self._done = TFJob(space, DONE, workers=1, notes={"migratable": "true"})
        self._interval = interval
        self._first = set[str]()

    def begin(self, beside: ExitStack) -> None:
        """The second is told to come to the first."""
        submit(self.plane, self._done)
        until(lambda: len(running(self.plane, self.space, DONE)) == 2, "running", 60)
        (host,) = set(running(self.plane, self.space, DONE).values())
        self._first = uids(self.plane, self.space, DONE)
        self._grows = TFJob(self.space, GROWS, workers=1, notes={"migratable": "true"}, extra=on_node(host))
        submit(self.plane, self._grows)
        beside.enter_context(Noting(self.plane, self._done, lambda n: 1.0 + 1.0 / (1 + n) ** 2, self._interval / 6))
        beside.enter_context(Noting(self.plane, self._grows, lambda n: -(1.02**n), self._interval / 6))

    def finish(self) -> None:
        """It runs anew, on one node."""
        until(self._has_moved, "moved", 60 + 8 * self._interval)
        end(self.plane, self._done, self._grows)

    def _has_moved(self) -> bool:
        found = running(self.plane, self.space, DONE)
        one_node = len(found) == 2 and len(set(found.values())) == 1
        return one_node and self._first.isdisjoint(uids(self.plane, self.space, DONE))

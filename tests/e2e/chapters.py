"""Scenes that run beside a stream of arriving jobs: workers are taken and given back, or a job migrates.

Each scene (`Chapter`) submits its own jobs, and fails unless the event happens.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tests.controlplane import ControlPlane, ControlPlaneError
from tests.e2e.asking import pods
from tests.e2e.background import Background
from tests.e2e.gangs import on_node, submit
from tests.e2e.people import People
from tests.e2e.scenario import Arrival
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

Json = dict[str, Any]
RUN = "demo.kohort.dev/run-seconds"
CROWDED = "node-2"
BROAD, RIVAL, DONE, GROWS = "broad", "rival", "done", "grows"
# These jobs do not end by themselves; each has a node of its own.
SERVICES = tuple(
    Arrival(f"{BROAD}-{kind.lower()}", kind, least=2, asked=4, most=10, cores=1, seconds=math.inf, node=node)
    for kind, node in (("StatefulSet", "node-0"), ("Deployment", "node-1"))
)
# Mapping from each job that gives workers to the name of the heavier job that gets them, and the node of both.
RIVALS = {BROAD: (RIVAL, CROWDED)} | {job.name: (job.name.replace(BROAD, RIVAL), job.node) for job in SERVICES}


def running(plane: ControlPlane, space: str, job: str) -> dict[str, str]:
    """Return a mapping from the names of the job's running pods to their nodes."""
    found = (pod for pod in pods(plane, space, job) if pod["status"].get("phase") == "Running")
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in found}


def uids(plane: ControlPlane, space: str, job: str) -> set[str]:
    """Return the UIDs of the job's pods, without terminating ones."""
    return {pod["metadata"]["uid"] for pod in pods(plane, space, job)}


def end(plane: ControlPlane, *jobs: TFJob) -> None:
    """Let the pods of these jobs succeed, by an annotation that shortens their simulated run time to 0.1 s."""
    for job in jobs:
        for pod in pods(plane, job.namespace, job.name):
            path = f"/api/v1/namespaces/{job.namespace}/pods/{pod['metadata']['name']}"
            with contextlib.suppress(ControlPlaneError):  # The pod may be gone by now.
                plane.api.patch(path, {"metadata": {"annotations": {RUN: "0.1"}}})


class Chapter:
    """A scene with jobs of its own that waits for one event, for example a migration, and then lets its jobs end."""

    def __init__(self, plane: ControlPlane, space: str) -> None:
        self.plane, self.space = plane, space

    def begin(self, beside: ExitStack) -> None:
        """Submit the scene's jobs before all others; contexts entered in ``beside`` last until the scenario ends."""

    def finish(self) -> None:
        """Wait for the scene's event after the other jobs have ended, and let the scene's jobs end."""


class Taken(Chapter):
    """Three elastic jobs grow over a whole node each, give workers to heavier jobs, grow back, and end.

    The three are a TFJob, a StatefulSet and a Deployment (``SERVICES``).
    """

    def __init__(self, plane: ControlPlane, space: str, people: People) -> None:
        """Create the scene; ``people`` submit and delete the StatefulSet and the Deployment."""
        super().__init__(plane, space)
        self._people = people

    def begin(self, beside: ExitStack) -> None:
        """Play the whole scene, from the submission of the elastic jobs to their end."""
        broad = TFJob(self.space, BROAD, workers=4, least=2, most=9, extra=on_node(CROWDED))
        submit(self.plane, broad, stop_seconds=1)
        for job in SERVICES:
            self._people.submit(job)
        until(self._are_full, "grown over their nodes", seen=self._sizes)
        for name, node in RIVALS.values():
            submit(self.plane, TFJob(self.space, name, workers=1, utility="100", run_seconds=1.0, extra=on_node(node)))
        observer = self._people.observer  # The observer also remembers rivals that end before the last rival is bound.
        for name, _ in RIVALS.values():
            until(lambda name=name: len(observer.first_nodes(name)) == 2, f"{name} bound")  # type: ignore[misc]
        until(self._are_full, "grown back", seen=self._sizes)
        end(self.plane, broad)
        for job in SERVICES:
            self._people.delete(job)

    def _sizes(self) -> str:
        bound = {name: self._people.observer.bound_now(name) for name in RIVALS}
        return str({name: [f"{one.role}-{one.index} {one.phase}" for one in found] for name, found in bound.items()})

    def _are_full(self) -> bool:
        bound = (self._people.observer.bound_now(name) for name in RIVALS)
        return all([one.phase for one in found] == ["Running"] * 10 for found in bound)


@dataclass(slots=True)
class Noting(Background):
    """A thread that reports a job's progress by annotation every ``seconds``; report number n has ``metric(n)``."""

    plane: ControlPlane
    job: TFJob
    metric: Callable[[int], float]
    seconds: float

    def run(self) -> None:
        """Write a progress report every ``seconds`` until the context ends."""
        sent = 0
        while not self.stopped.wait(self.seconds):
            told = json.dumps({"metric": self.metric(sent), "time": time.time()})
            with contextlib.suppress(ControlPlaneError):  # The next report makes up for a failed write.
                self.plane.api.patch(self.job.path, {"metadata": {"annotations": {"kohort.dev/progress": told}}})
                sent += 1


class Moved(Chapter):
    """Two jobs share a node; the job whose training has converged must migrate as soon as another node has room."""

    def __init__(self, plane: ControlPlane, space: str, interval: float) -> None:
        """Create the scene; ``interval`` is the time in seconds between two rounds in which the policy moves jobs."""
        super().__init__(plane, space)
        self._done = TFJob(space, DONE, workers=1, notes={"migratable": "true"})
        self._interval = interval
        self._first = set[str]()

    def begin(self, beside: ExitStack) -> None:
        """Run a converged and a still improving job on one node, and report the progress of both."""
        submit(self.plane, self._done)
        until(lambda: len(running(self.plane, self.space, DONE)) == 2, "running")
        (host,) = set(running(self.plane, self.space, DONE).values())
        self._first = uids(self.plane, self.space, DONE)
        self._grows = TFJob(self.space, GROWS, workers=1, notes={"migratable": "true"}, extra=on_node(host))
        submit(self.plane, self._grows)
        beside.enter_context(Noting(self.plane, self._done, lambda n: 1.0 + 1.0 / (1 + n) ** 2, self._interval / 6))
        beside.enter_context(Noting(self.plane, self._grows, lambda n: -(1.02**n), self._interval / 6))

    def finish(self) -> None:
        """Wait until the converged job runs with new pods on another node, and let both jobs end."""
        until(self._has_moved, "moved", 60 + 8 * self._interval)
        end(self.plane, self._done, self._grows)

    def _has_moved(self) -> bool:
        found = running(self.plane, self.space, DONE)
        one_node = len(found) == 2 and len(set(found.values())) == 1
        return one_node and self._first.isdisjoint(uids(self.plane, self.space, DONE))

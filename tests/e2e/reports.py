"""Progress reports as the pods of a job send them, with a token bound to the pod."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.controlplane import ControlPlane, ControlPlaneError
from tests.e2e.background import Background

Json = dict[str, Any]
AUDIENCE = "kohort.dev"


def token(plane: ControlPlane, pod: str, namespace: str = "team", audience: str = AUDIENCE) -> str:
    """Return a token of that pod, as the kubelet would project it."""
    uid = plane.api.get(f"/api/v1/namespaces/{namespace}/pods/{pod}")["metadata"]["uid"]
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={pod}", f"--bound-object-uid={uid}")
    return plane.kubectl("create", "token", "default", "-n", namespace, f"--audience={audience}", *bound).strip()


def post(port: int, token: str, body: object, job: str = "", namespace: str = "team") -> httpx.Response:
    """Send one progress report; a body of bytes is sent unchanged, so that a test can send NaN, which JSON lacks."""
    path = f"/v1/jobs/{namespace}/{job}/progress" if job else "/v1/progress"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"http://127.0.0.1:{port}{path}"
    if isinstance(body, bytes):
        return httpx.post(url, content=body, headers=headers, timeout=60, trust_env=False)
    return httpx.post(url, json=body, headers=headers, timeout=60, trust_env=False)


@dataclass(slots=True)
class Trainee(Background):
    """A thread that reports progress for a job's first worker every ``seconds``; report number n has ``metric(n)``.

    ``saves``: the thread reports a checkpoint when the service asks for one. ``answers`` has the HTTP statuses, and
    ``asked`` counts the service's requests for a checkpoint.
    """

    plane: ControlPlane
    port: int
    namespace: str
    job: str
    metric: Callable[[int], float]
    seconds: float = 1.0
    saves: bool = True
    answers: list[int] = field(default_factory=list)
    asked: int = 0

    def run(self) -> None:
        """Report until the context ends; get a new token when the worker's pod has been replaced."""
        known, held, sent = "", "", 0
        pod = f"{self.job}-worker-0"
        while not self.stopped.wait(self.seconds):
            try:
                uid = self.plane.api.get(f"/api/v1/namespaces/{self.namespace}/pods/{pod}")["metadata"]["uid"]
                if uid != known:
                    known, held = uid, token(self.plane, pod, self.namespace)
                answer = post(self.port, held, {"metric": self.metric(sent)})
            except (ControlPlaneError, httpx.TransportError):
                continue  # The worker may have no pod at this moment, or the extender may be starting.
            self.answers.append(answer.status_code)
            sent += 1
            if answer.status_code == 200 and answer.json().get("checkpoint"):
                self.asked += 1
                if self.saves:
                    self.answers.append(post(self.port, held, {"saved": True}).status_code)


@dataclass(slots=True)
class Flood(Background):
    """A thread that sends progress reports with one token as fast as they are answered, and counts the answers."""

    port: int
    token: str
    bodies: tuple[tuple[object, str], ...]
    namespace: str
    answers: dict[int, int] = field(default_factory=dict)

    def run(self) -> None:
        """Send until stopped."""
        while not self.stopped.is_set():
            for body, job in self.bodies:
                try:
                    status = post(self.port, self.token, body, job, self.namespace).status_code
                except httpx.TransportError:
                    continue
                self.answers[status] = self.answers.get(status, 0) + 1
                time.sleep(0.02)  # A short pause leaves CPU to the other processes.

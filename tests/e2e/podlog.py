"""A record of every version of every pod of a namespace, in the order in which the API server showed them."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from tests.controlplane import ControlPlane

Json = dict[str, Any]


@dataclass(slots=True)
class PodLog:
    """Follows the pods of one namespace in a thread; enter its context before they exist."""

    plane: ControlPlane
    namespace: str
    versions: dict[str, list[Json]] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="podlog", daemon=True)
        self._thread.start()
        assert started.wait(60), "the watch did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(10)

    def _run(self, started: threading.Event) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        with httpx.Client(base_url=self.plane.url, verify=self.plane.tls, timeout=None, trust_env=False) as client:
            version = client.get(path).json()["metadata"]["resourceVersion"]
            started.set()
            while not self._stop.is_set():
                query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "1"}
                with client.stream("GET", path, params=query) as answer:
                    for line in answer.iter_lines():
                        pod = json.loads(line)["object"]
                        version = pod["metadata"]["resourceVersion"]
                        self.versions.setdefault(pod["metadata"]["name"], []).append(pod)

    def before_bound(self, name: str) -> Json:
        """Return the last version of the pod in which it had no node yet."""
        unbound = [pod for pod in self.versions.get(name, []) if not pod["spec"].get("nodeName")]
        return unbound[-1] if unbound else {}

    def bound(self, name: str) -> str:
        """Return the node to which the pod was bound first, or ""."""
        nodes = [pod["spec"]["nodeName"] for pod in self.versions.get(name, []) if pod["spec"].get("nodeName")]
        return nodes[0] if nodes else ""

"""Measure latency and CPU of the extender verbs over loopback, beside a route that only echoes.

The real app runs in a process of its own (uvicorn on uvloop, with Kohort's limits) and knows 10,000 pods; one client
sends one request after the other over a kept connection. ``echo`` is a FastAPI route that decodes the same body with
msgspec and sends it back. CPU is the server's, per call.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import command, scenes
from benchmarks.report import BenchmarkReport, progress

Json = dict[str, Any]
CALLS, WARM_UP = 400, 100
TICK = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Server:
    """A server in a process of its own; ``said`` is the first line of its output, read as JSON."""

    process: subprocess.Popen[str]
    said: Json

    def cpu(self) -> float:
        """Return the server's CPU seconds so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK


@contextmanager
def serving(nodes: int, pods: int, *more: str) -> Iterator[Server]:
    """Start the server with this number of nodes and pods in memory, yield it, and stop it at the end."""
    command_line = [sys.executable, "-m", "benchmarks.verbs_server", str(nodes), str(pods), *more]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the server did not start")
        try:
            yield Server(process, json.loads(line))
        finally:
            process.terminate()


def measure(options: argparse.Namespace) -> BenchmarkReport:
    """Measure every kind of request, for each number of nodes, once per round, and return the report."""
    setup = {"nodes": options.nodes, "pods": options.pods, "rounds": options.rounds, "calls": CALLS}
    report = BenchmarkReport("verbs", setup)
    for nodes in options.nodes:
        with serving(nodes, options.pods) as server:
            progress(f"{nodes} nodes, server knows {server.said['pods']} pods")
            assert server.said["refused"] == "waiting"
            sizes = {f"{nodes} names": cases_of(nodes), f"1 name of {nodes}": filters(server.said["planned"][:1])}
            for number in range(options.rounds):
                for size, cases in sizes.items():
                    found = {name: _ask(server, path, body, WARM_UP, CALLS) for name, (path, body) in cases.items()}
                    _note(report, size, found)
                progress(f"round {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}")
    return report


def cases_of(nodes: int) -> dict[str, tuple[str, bytes]]:
    """Return the requests to measure: URL path and body by the request's name. Each body names all nodes of the
    cluster.
    """
    names = [scenes.name_of(number) for number in range(nodes)]
    cases = filters(names)
    binding = {"PodName": "stranger", "PodNamespace": "team", "PodUID": "uid-stranger", "Node": names[-1]}
    return {
        **cases,
        "prioritize, planned": ("/scheduler/v1/prioritize", cases["echo"][1]),
        "bind, not opted in": ("/scheduler/v1/bind", json.dumps(binding).encode()),
    }


def filters(names: list[str]) -> dict[str, tuple[str, bytes]]:
    """Return the filter requests to measure: URL path and body by the request's name.

    They are for a planned, a refused and a foreign pod; ``echo`` has the body of the first.
    """
    ours = args_of(pod_of("planned-ps-0", "planned", "kohort"), names)
    refused = args_of(pod_of("refused-ps-0", "refused", "kohort"), names)
    other = args_of(pod_of("stranger", "", "default-scheduler"), names)
    return {
        "echo": ("/echo", ours),
        "filter, planned": ("/scheduler/v1/filter", ours),
        "filter, refused": ("/scheduler/v1/filter", refused),
        "filter, not opted in": ("/scheduler/v1/filter", other),
    }


def args_of(pod: Json, names: list[str]) -> bytes:
    """Return the body of a filter or prioritize request for this pod and these nodes, as Go encodes it: JSON without
    blanks.
    """
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}, separators=(",", ":")).encode()


def pod_of(name: str, owner: str, scheduler: str) -> Json:
    role, index = name.rsplit("-", 2)[1:] if owner else ("", "")
    meta: Json = {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "1"}
    if owner:
        labels = {"training.kubeflow.org/replica-type": role, "training.kubeflow.org/replica-index": index}
        ref = {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "name": owner,
            "uid": f"job-{owner}",
            "controller": True,
        }
        meta |= {"labels": labels, "ownerReferences": [ref]}
    container = {"name": "tensorflow", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}
    return {"metadata": meta, "spec": {"schedulerName": scheduler, "containers": [container]}, "status": {}}


def _ask(server: Server, path: str, body: bytes, warm_up: int, calls: int) -> tuple[list[float], float]:
    """Return the seconds of each call as the client sees them, and the server's CPU seconds per call."""
    client = http.client.HTTPConnection("127.0.0.1", server.said["port"])
    found, cpu = [], 0.0
    for number in range(-warm_up, calls):
        if number == 0:
            cpu = server.cpu()
        began = time.perf_counter()
        client.request("POST", path, body)
        answer = client.getresponse()
        content = answer.read()
        if number >= 0:
            found.append(time.perf_counter() - began)
        elif number == -1 and (answer.status != 200 or b'"Error":"kohort' in content):
            raise RuntimeError(f"{path}: {answer.status} {content[:200]!r}")
    client.close()
    return found, (server.cpu() - cpu) / calls


def _note(report: BenchmarkReport, size: str, found: dict[str, tuple[list[float], float]]) -> None:
    for name, (seconds, cpu) in found.items():
        report.times(f"{name}, {size}", seconds)
        report.add(f"{name}, {size} CPU", 1000 * cpu, "ms")
    middle = {name: sorted(seconds)[len(seconds) // 2] for name, (seconds, _) in found.items()}
    for name in ("filter, planned", "filter, refused", "filter, not opted in"):
        report.ratio(f"p50 {name}/echo, {size}", middle[name], middle["echo"])


def main() -> None:
    made = command.parser("verbs", __doc__, (100, 1000, 5000), 3)
    made.add_argument("--pods", type=command.positive, default=10_000, help="pods that the server knows")
    command.run(made, measure)


if __name__ == "__main__":
    main()

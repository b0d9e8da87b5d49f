"""Measure the time from process start to ready, with a cluster that is already full of pods.

A local fake API server returns lists that were encoded beforehand (pages of 500, pods of about 3 KB like real ones), so
that only ``kohort serve`` is measured: its imports, its lists, its ledger. Every pod is a bound member of a gang of
five. ``rebuilt`` counts from the first list request, ``ready`` from the start of the process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import yaml

from benchmarks import command, scenes
from benchmarks.report import BenchmarkReport, progress
from tests.controlplane.ports import LOOPBACK, free_ports

Json = dict[str, Any]
PAGE, GANG = 500, 5
LIMIT_SECONDS = 120.0
PADDING = "x" * 1900  # This text makes a pod as large as a real one, with its status and managed fields.


@dataclass(slots=True)
class FakeApi:
    """An API server in a thread of its own that answers lists from memory and leaves watches open."""

    lists: dict[str, list[bytes]]
    port: int = 0
    first_list: float = 0.0
    _thread: threading.Thread | None = None
    _end: Callable[[], object] = lambda: None

    def start(self) -> None:
        """Start listening."""
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(started)), daemon=True, name="fake-api")
        self._thread.start()
        started.wait()

    def stop(self) -> None:
        """Stop the thread and close all connections."""
        self._end()
        if self._thread is not None:
            self._thread.join(10)

    async def _run(self, started: threading.Event) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        self._end = lambda: loop.call_soon_threadsafe(ended.set)
        server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await ended.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                if length := re.search(r"content-length: (\d+)", head, re.IGNORECASE):
                    await reader.readexactly(int(length[1]))
                target = urlsplit(head.split(" ", 2)[1])
                query = parse_qs(target.query)
                if "watch" in query:
                    writer.write(
                        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                    )
                    await writer.drain()
                    await reader.read()  # The watch stays open and silent until the client disconnects.
                    return
                body = self._page(target.path, int(query.get("continue", ["0"])[0]))
                status = b"200 OK" if body else b"404 Not Found"
                body = body or b'{"kind":"Status","code":404}'
                writer.write(
                    b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
                )
                writer.write(body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _page(self, path: str, number: int) -> bytes:
        pages = self.lists.get(path)
        if pages is None:
            return b""
        self.first_list = self.first_list or time.monotonic()
        return pages[number]


def cluster(nodes: int, pods: int) -> dict[str, list[bytes]]:
    """Return the encoded pages of the lists of all resources, by URL path, for a cluster with this number of nodes and
    pods.
    """
    jobs = pods // GANG
    made_nodes = [_node(scenes.name_of(number)) for number in range(nodes)]
    made_jobs = [_job(number) for number in range(jobs)]
    made_pods = [_pod(number, index, nodes) for number in range(jobs) for index in range(GANG)]
    return {
        "/api/v1/nodes": _pages("NodeList", made_nodes),
        "/api/v1/pods": _pages("PodList", made_pods),
        "/apis/kubeflow.org/v1/tfjobs": _pages("TFJobList", made_jobs),
    }


def _pages(kind: str, items: list[Json]) -> list[bytes]:
    parts = [items[start : start + PAGE] for start in range(0, len(items), PAGE)] or [[]]
    last = len(parts) - 1
    return [
        json.dumps({"kind": kind, "metadata": {"resourceVersion": "9"} | ({"continue": str(n + 1)} if n < last else {}),
                    "items": part}, separators=(",", ":")).encode()
        for n, part in enumerate(parts)
    ]  # fmt: skip


def _meta(name: str, **more: Any) -> Json:
    return {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "5",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        **more,
    }


def _node(name: str) -> Json:
    given = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True"}]
    labels = {"kubernetes.io/hostname": name}
    return {"metadata": _meta(name, labels=labels), "status": {"allocatable": given, "conditions": conditions}}


def _template() -> Json:
    requests = {"cpu": "1", "memory": "2Gi"}
    container = {"name": "tensorflow", "image": "none", "resources": {"requests": requests}}
    return {"schedulerName": "kohort", "containers": [container]}


def _job(number: int) -> Json:
    roles = {"PS": 1, "Worker": GANG - 1}
    specs = {role: {"replicas": count, "template": {"spec": _template()}} for role, count in roles.items()}
    meta = _meta(f"job-{number}", namespace="team")
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": meta, "spec": {"tfReplicaSpecs": specs}}


def _pod(number: int, index: int, nodes: int) -> Json:
    role, place = ("ps", 0) if index == 0 else ("worker", index - 1)
    prefix, owner = "training.kubeflow.org", f"job-{number}"
    labels = {f"{prefix}/job-name": owner, f"{prefix}/replica-type": role, f"{prefix}/replica-index": str(place)}
    ref = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": owner, "uid": f"uid-{owner}", "controller": True}
    notes = {"kohort.dev/plan": "1-1", "kohort.dev/slot": f"{role}-{place}", "padding": PADDING}
    meta = _meta(f"{owner}-{role}-{place}", namespace="team", labels=labels, ownerReferences=[ref], annotations=notes)
    spec = _template() | {"nodeName": scenes.name_of(number % nodes)}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}


def measure(options: argparse.Namespace) -> BenchmarkReport:
    """Start ``kohort serve``, wait until it is ready, and stop it, once per round for each size of cluster; return the
    report.
    """
    report = BenchmarkReport(
        "rebuild", {"nodes": options.nodes, "pods a node": options.pods_per_node, "rounds": options.rounds}
    )
    sizes = {nodes: cluster(nodes, nodes * options.pods_per_node) for nodes in options.nodes}
    for number in range(options.rounds + 1):
        for nodes, lists in sizes.items():
            api = FakeApi(lists)
            api.start()
            name = f"{nodes} nodes, {nodes * options.pods_per_node} pods"
            ready, rebuilt, cpu, memory = _start(api)
            api.stop()
            progress(f"round {number}: {name}: ready after {ready:.2f} s, load {os.getloadavg()[0]:.1f}")
            if number:  # The first round is not counted, because it only fills the disk cache.
                report.add(f"ready, {name}", ready, "s")
                report.add(f"rebuilt, {name}", rebuilt, "s")
                report.add(f"CPU, {name}", cpu, "s")
                report.add(f"memory, {name}", memory, "MiB")
    return report


@dataclass(frozen=True, slots=True)
class Served:
    """A running `kohort serve` that is ready; ``began`` is the value of time.monotonic() at its start."""

    process: subprocess.Popen[bytes]
    port: int
    began: float


@contextmanager
def serving(api: FakeApi) -> Iterator[Served]:
    """Start `kohort serve` against that API server, yield it once it is ready, and stop it at the end."""
    port, health = free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig, config = Path(folder) / "kubeconfig", Path(folder) / "kohort.yaml"
        kubeconfig.write_text(yaml.safe_dump(_kubeconfig(api.port)))
        settings = {
            "lease": {"identity": "*"},
            "server": {"port": port, "health_port": health, "health_host": LOOPBACK},
        }
        config.write_text(yaml.safe_dump(settings))
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "extender", "serve", "--config", str(config)],
            env=os.environ | {"KOHORT_KUBECONFIG": str(kubeconfig)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _await_ready(process, f"http://{LOOPBACK}:{health}/readyz")
            yield Served(process, port, began)
        finally:
            process.terminate()
            process.wait(10)


def _start(api: FakeApi) -> tuple[float, float, float, float]:
    """Start `kohort serve` until it is ready.

    Return the seconds from its start, the seconds from its first list request, its CPU seconds and its resident memory
    in MiB.
    """
    with serving(api) as served:
        now = time.monotonic()
        stat = Path(f"/proc/{served.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        status = Path(f"/proc/{served.process.pid}/status").read_text()
    memory = int(status.split("VmRSS:")[1].split()[0]) / 1024
    return now - served.began, now - api.first_list, (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"), memory


def _await_ready(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    with httpx.Client(trust_env=False, timeout=30) as client:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise RuntimeError(f"kohort serve ended with {process.returncode}")
            try:
                if client.get(url).is_success:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.01)
    raise TimeoutError("not ready")


def _kubeconfig(port: int) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fake",
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        "clusters": [{"name": "fake", "cluster": {"server": f"http://{LOOPBACK}:{port}"}}],
        "users": [{"name": "fake", "user": {"token": "none"}}],
    }


def main() -> None:
    made = command.parser("rebuild", __doc__, (1000,), 3)
    made.add_argument("--pods-per-node", type=command.positive, default=10)
    command.run(made, measure)


if __name__ == "__main__":
    main()

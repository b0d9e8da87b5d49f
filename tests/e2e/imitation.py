"""One interface to the real kube-scheduler and to the laboratory's imitation of it, both calling a stub extender."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import yaml

from extender.clock import Clock
from extender.kube.api import NODES
from lab.embedded.apiserver import ApiServer
from lab.embedded.config import read_config
from lab.embedded.embeddedapi import EmbeddedApi
from lab.embedded.embeddedcluster import served
from lab.embedded.embeddedscheduler import EmbeddedScheduler
from lab.embedded.objectstore import ObjectStore
from tests.controlplane import ControlPlane, NodeShape

Json = dict[str, Any]
SHAPE = NodeShape(count=3)
NODE_NAMES = ["node-0", "node-1", "node-2"]
PLAIN, PREEMPTING = "imitated", "imitated-preempting"
HTTP_TIMEOUT = 2.0
# A FilterAnswer takes the offered nodes and returns the answer's body, or its HTTP status and body.
FilterAnswer = Callable[[list[str]], Any]


def keep(names: list[str]) -> Any:
    return {"NodeNames": names}


def refuse(names: list[str]) -> Any:
    return {"NodeNames": [], "FailedAndUnresolvableNodes": dict.fromkeys(names, "the gang waits")}


@dataclass(frozen=True)
class ExtenderCall:
    at: float
    verb: str
    pod: str
    nodes: tuple[str, ...]


@dataclass
class Stub:
    """A stub extender: a test sets its answers by pod name, and it records all calls in order."""

    filters: dict[str, FilterAnswer] = field(default_factory=dict)
    binds: dict[str, Callable[[Json], str]] = field(default_factory=dict)
    calls: list[ExtenderCall] = field(default_factory=list)
    bind: Callable[[Json], str] = lambda args: "no API server yet"

    def answer(self, verb: str, body: Json) -> Any:
        pod = body["PodName"] if verb == "bind" else body["Pod"]["metadata"]["name"]
        nodes = (body["Node"],) if verb == "bind" else tuple(body["NodeNames"])
        self.calls.append(ExtenderCall(time.monotonic(), verb, pod, nodes))
        if verb == "bind":
            return {"Error": self.binds.get(pod, self.bind)(body)}
        if verb == "prioritize":
            return [{"Host": name, "Score": 0} for name in nodes]
        return self.filters.get(pod, keep)(list(nodes))

    def of(self, pod: str, verb: str = "filter") -> list[ExtenderCall]:
        return [call for call in self.calls if (call.pod, call.verb) == (pod, verb)]

    def clear(self) -> None:
        self.filters.clear()
        self.binds.clear()
        self.calls.clear()


@contextmanager
def serving(stub: Stub) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # Head and body of an answer are sent in one packet.

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = stub.answer(self.path.rsplit("/", 1)[1], body)
            status, answer = answer if isinstance(answer, tuple) else (200, answer)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/ext"
        server.shutdown()


def scheduler_config(url: str) -> Json:
    no_preemption = {"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": PLAIN, "plugins": no_preemption}, {"schedulerName": PREEMPTING}],
        "extenders": [
            {
                "urlPrefix": url,
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "bindVerb": "bind",
                "weight": 20,
                "nodeCacheCapable": True,
                "httpTimeout": f"{HTTP_TIMEOUT:g}s",
            }
        ],
    }


class ImitatedSide:
    """A cluster whose kube-scheduler, real or imitated, calls the stub extender; tests act through the API."""

    def __init__(self, name: str, url: str, stub: Stub, tls: ssl.SSLContext | None = None) -> None:
        self.name = name
        self.stub = stub
        self.http = httpx.Client(base_url=url, verify=tls or False, timeout=60, trust_env=False)
        stub.bind = self.bind_as_asked

    # -- The methods below create, read and patch pods. ----------------------------------------

    def create(self, name: str, *, cpu: str = "100m", gated: bool = False, scheduler: str = PLAIN) -> Json:
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
        spec: Json = {"schedulerName": scheduler, "containers": [container]}
        if gated:
            spec["schedulingGates"] = [{"name": "test.kohort.dev/gate"}]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        answer = self.http.post("/api/v1/namespaces/default/pods", json=pod)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def pod(self, name: str) -> Json:
        return dict(self.http.get(f"/api/v1/namespaces/default/pods/{name}").json())

    def node_of(self, name: str) -> str:
        return str(self.pod(name).get("spec", {}).get("nodeName", ""))

    def scheduled(self, name: str) -> tuple[str, str, str]:
        for found in self.pod(name).get("status", {}).get("conditions", []):
            if found["type"] == "PodScheduled":
                return found["status"], found.get("reason", ""), found.get("message", "")
        return "", "", ""

    def patch(self, path: str, change: Any, kind: str = "merge") -> httpx.Response:
        headers = {"content-type": f"application/{kind}-patch+json"}
        return self.http.patch(path, content=json.dumps(change), headers=headers)

    def patch_pod(self, name: str, change: Any, kind: str = "merge", subresource: str = "") -> httpx.Response:
        return self.patch(f"/api/v1/namespaces/default/pods/{name}{subresource}", change, kind)

    def annotate(self, name: str, text: str) -> None:
        assert self.patch_pod(name, {"metadata": {"annotations": {"test": text}}}).is_success

    def ungate(self, name: str) -> None:
        assert self.patch_pod(name, [{"op": "remove", "path": "/spec/schedulingGates/0"}], "json").is_success

    def nominate(self, name: str, node: str | None) -> None:
        assert self.patch_pod(name, {"status": {"nominatedNodeName": node}}, subresource="/status").is_success

    def delete(self, name: str, **preconditions: str) -> httpx.Response:
        body = {"gracePeriodSeconds": 0, **({"preconditions": preconditions} if preconditions else {})}
        return self.http.request("DELETE", f"/api/v1/namespaces/default/pods/{name}", json=body)

    def bind(self, name: str, node: str, uid: str = "", **annotations: str) -> httpx.Response:
        meta = {"name": name, "annotations": annotations, **({"uid": uid} if uid else {})}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": {"kind": "Node", "name": node}}
        return self.http.post(f"/api/v1/namespaces/default/pods/{name}/binding", json=body)

    def bind_as_asked(self, args: Json) -> str:
        answer = self.bind(args["PodName"], args["Node"], args["PodUID"])
        return "" if answer.is_success else str(answer.json()["message"])

    def clean(self) -> None:
        for item in self.http.get("/api/v1/namespaces/default/pods").json()["items"]:
            self.delete(item["metadata"]["name"])
        eventually(lambda: self.http.get("/api/v1/namespaces/default/pods").json()["items"], [])
        self.stub.clear()


def eventually(look: Callable[[], Any], want: object, limit: float = 15) -> None:
    """Wait until ``look()`` returns ``want``."""
    deadline = time.monotonic() + limit
    while (seen := look()) != want:
        assert time.monotonic() < deadline, f"after {limit} s still {seen!r}, not {want!r}"
        time.sleep(0.02)


@contextmanager
def real_side(folder: Path) -> Iterator[ImitatedSide]:
    """Yield a cluster with the real API server and kube-scheduler, without the training operator."""
    stub = Stub()
    with serving(stub) as url, ControlPlane.start(SHAPE, operator=False, workdir=folder / "plane") as plane:
        config = folder / "scheduler.yaml"
        config.write_text(yaml.safe_dump(scheduler_config(url)))
        side = ImitatedSide("real", plane.url, stub, plane.tls)
        plane.start_scheduler(config, "imitated-scheduler")
        with side.http:
            yield side


@contextmanager
def embedded_side() -> Iterator[ImitatedSide]:
    """Yield a cluster with the laboratory's API server and imitated kube-scheduler, in a thread of their own."""
    stub, started = Stub(), threading.Event()
    found: dict[str, Any] = {}
    with serving(stub) as url:
        thread = threading.Thread(target=lambda: asyncio.run(_embedded(url, found, started)), daemon=True)
        thread.start()
        assert started.wait(60)
        side = ImitatedSide("embedded", found["url"], stub)
        with side.http:
            yield side
        found["loop"].call_soon_threadsafe(found["stop"].set)
        thread.join(10)
        assert not thread.is_alive()


async def _embedded(url: str, found: dict[str, Any], started: threading.Event) -> None:
    clock, chance = Clock(), random.Random(0)
    server = ApiServer(ObjectStore(), clock, chance)
    for manifest in SHAPE.manifests("node"):
        server.create(NODES, "", manifest)
    scheduler = EmbeddedScheduler(read_config(scheduler_config(url)), EmbeddedApi(server, clock), clock, chance)
    async with served(server) as kubeconfig:
        config = yaml.safe_load(Path(kubeconfig).read_text())  # noqa: ASYNC240 - a line of a test
        stop = asyncio.Event()
        found |= {"url": config["clusters"][0]["cluster"]["server"], "loop": asyncio.get_running_loop(), "stop": stop}
        running = asyncio.create_task(scheduler.run())
        started.set()
        await stop.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

"""A server that is both Kohort and an API server with one TFJob, and commands that are run against it."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from extender.cli import commands
from tests.unit.cli.bodies import ANSWERS, TFJOB, WHAT_IF

PROXY = "/api/v1/namespaces/kohort-system/services/https:kohort:8900/proxy"
NO_PODS = "/api/v1/namespaces/kohort-system/pods"
JOB_PATH = "/apis/kubeflow.org/v1/namespaces/team/tfjobs/mnist"
Json = dict[str, Any]


class Server(ThreadingHTTPServer):
    """A server that is both Kohort and an API server.

    asked: the requests that came. job: the one job. hurdles: the statuses with which the next writes are refused, and
    words: the message of these refusals. cluster: other objects, by path. forwards: the status of a request to forward
    a pod's port. refuses: the problem that answers a what-if question.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.renew()

    def renew(self) -> None:
        self.asked: list[Any] = []
        self.job: Json = copy.deepcopy(TFJOB)
        self.hurdles: list[int] = []
        self.words = "you may not"
        self.proxied: Json | None = None
        self.headers: list[dict[str, str]] = []
        self.followers = 0
        self.cluster: Json = {NO_PODS: {"kind": "PodList", "items": []}}
        self.forwards = 404
        self.refuses: Json = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        if self.server.proxied is not None and self.path.startswith("/api/"):
            self._say(self.server.proxied["code"], self.server.proxied)
        elif self.server.followers:
            self.server.followers -= 1
            self._say(503, {"detail": "this replica does not lead", "status": 503})
        elif self.path.endswith("/portforward?ports=8900"):
            self._say(self.server.forwards, {"kind": "Status", "code": self.server.forwards})
        elif (found := self.server.cluster.get(self.path.partition("?")[0])) is not None:
            self._say(found.get("code", 200), found)
        elif self.path == JOB_PATH:
            self._say(200, self.server.job)
        elif self.path.startswith("/apis/"):
            self._say(404, {"kind": "Status", "code": 404, "reason": "NotFound"})
        else:
            path = self.path.removeprefix(PROXY).partition("?")[0]
            unknown = {"field": "name", "value": "x", "allowed": "big", "detail": "no job team/x is known; one of big"}
            found = ANSWERS.get(path)
            self._say(200 if found else 404, found or unknown)

    def do_POST(self) -> None:
        self.server.asked.append((self.path, self._body()))
        self._say(self.server.refuses.get("status", 200), self.server.refuses or WHAT_IF)

    def do_PATCH(self) -> None:
        body = self._body()
        self.server.asked.append((self.path, body))
        if self.server.hurdles:
            code = self.server.hurdles.pop(0)
            self._say(code, {"kind": "Status", "code": code, "reason": "Hurdle", "message": self.server.words})
            return
        self.server.job["spec"].update({k: v for k, v in body["spec"].items() if k == "runPolicy"})
        self._say(200, self.server.job)

    def _body(self) -> Json:
        found: Json = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return found

    def _say(self, status: int, body: Json) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="session")
def running() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def server(running: Server) -> Server:
    running.renew()
    return running


@pytest.fixture(autouse=True)
def nobodys_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the tests away from the kubeconfig and the service of the machine that runs them."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-such-kubeconfig"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("extender.cli.service.DEFAULT_SERVER", "http://127.0.0.1:1")


@pytest.fixture
def kubeconfig(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a kubeconfig that names the server and the namespace ``team``, and make it the one in force."""
    file = tmp_path / "kubeconfig"
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": "here",
                "clusters": [{"name": "c", "cluster": {"server": server.url}}],
                "users": [{"name": "u", "user": {"token": "none"}}],
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
            }
        )
    )  # fmt: skip
    monkeypatch.setenv("KUBECONFIG", str(file))
    return file


@pytest.fixture
def kohort(server: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run ``kohort ARGS`` against the service."""
    monkeypatch.setenv("KOHORT_CLI_SERVER", server.url)
    return lambda *args: CliRunner().invoke(commands.app, list(args))


@pytest.fixture
def by_kubeconfig(kubeconfig: Path) -> Callable[..., Result]:
    """Run ``kohort ARGS`` with a kubeconfig alone, and no address of a service."""
    return lambda *args: CliRunner().invoke(commands.app, list(args))

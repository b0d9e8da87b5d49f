"""A proxy between kube-scheduler and the extender that records calls and answers.

The extender listens on ``port``; kube-scheduler, the controller and the tests keep using the original address, on which
this proxy listens.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import urlsplit

from tests.controlplane.kohort import Kohort
from tests.controlplane.ports import LOOPBACK

Json = dict[str, Any]
VERBS = "/scheduler/v1/"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call of a verb by kube-scheduler, with the bodies of the request and of the answer."""

    verb: str
    asked: Json
    answered: Any

    @property
    def pod(self) -> str:
        """Return the name of the pod for which kube-scheduler made the call."""
        return str(self.asked.get("PodName") or self.asked["Pod"]["metadata"]["name"])


@dataclass(slots=True)
class Recorder:
    """The recorded calls in the order of their answers."""

    exchanges: list[Exchange] = field(default_factory=list)

    def of(self, verb: str, pod: str) -> list[Exchange]:
        """Return the calls of one verb about one pod."""
        return [each for each in list(self.exchanges) if (each.verb, each.pod) == (verb, pod)]


class _Forward(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    port: ClassVar[int]
    recorder: ClassVar[Recorder]

    def do_POST(self) -> None:
        self._forward()

    def do_GET(self) -> None:
        self._forward()

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        connection = http.client.HTTPConnection(LOOPBACK, self.port)
        try:
            connection.request(self.command, self.path, body, {k: v for k, v in self.headers.items() if k != "Host"})
            answer = connection.getresponse()
            told = answer.read()
        except OSError:
            self.send_error(502)
            return
        finally:
            connection.close()
        if self.path.startswith(VERBS):
            self.recorder.exchanges.append(Exchange(self.path.removeprefix(VERBS), json.loads(body), json.loads(told)))
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_: object) -> None:
        """Log nothing, because the extender has its own log."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Ignore callers that have disconnected."""


@contextmanager
def recorded(kohort: Kohort, port: int) -> Iterator[Recorder]:
    """Run the proxy on the extender's original address, and yield its record; the extender listens on ``port``."""
    recorder = Recorder()
    handler = type("Forward", (_Forward,), {"port": port, "recorder": recorder})
    server = _Server((LOOPBACK, urlsplit(kohort.url).port or 0), handler)
    thread = threading.Thread(target=server.serve_forever, name="recorder", daemon=True)
    thread.start()
    try:
        yield recorder
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)

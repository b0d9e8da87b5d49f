"""API servers that record their clients, and proxies that record their connections, all on one machine."""

from __future__ import annotations

import json
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import BaseRequestHandler, StreamRequestHandler, TCPServer, ThreadingMixIn
from typing import Any

import trustme

NAME = "api.cluster.invalid"  # No DNS server knows this name, so only a proxy can connect to it.
OTHER_NAME = "other.cluster.invalid"  # This name is in certificates, and no DNS server knows it.
JOB = "/apis/kubeflow.org/v1/namespaces/team/tfjobs/j"
LOGIN = ("proxy-user", "proxy:password")
SECONDS = 5.0


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """One request as the server got it; ``via`` is the proxy that it came through, or ""."""

    server: str
    via: str
    method: str
    path: str
    certificate: str
    authorization: str
    acts_as: tuple[tuple[str, str], ...]
    server_name: str


@dataclass
class Record:
    """The requests that the servers got since the last `take`."""

    requests: list[Request] = field(default_factory=list)
    # `through` maps the local port of a proxy's connection to the proxy's name.
    through: dict[int, str] = field(default_factory=dict)

    def take(self) -> tuple[Request, ...]:
        taken, self.requests = tuple(self.requests), []
        self.through.clear()
        return taken


class Listener(ThreadingMixIn, TCPServer):
    """A server on a free port of every address of this machine."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(
        self, name: str, record: Record, handler: type[BaseRequestHandler], tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(("0.0.0.0", 0), handler)
        self.name, self.record, self.tls = name, record, tls

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(SECONDS)
        if self.tls is not None:
            request = self.tls.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)
        with suppress(OSError):
            request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that do not trust the certificate and disconnect."""


class ApiHandler(BaseHTTPRequestHandler):
    """Answers every request; the token `wrong` is refused."""

    server: Listener
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        tls = self.connection if isinstance(self.connection, ssl.SSLSocket) else None
        names = dict(part[0] for part in (tls.getpeercert() or {}).get("subject", ())) if tls else {}  # type: ignore[misc]
        headers = sorted((name.lower(), value) for name, value in self.headers.items())
        found = Request(
            server=self.server.name,
            via=self.server.record.through.get(self.client_address[1], ""),
            method=self.command,
            path=self.path.partition("?")[0],  # kubectl appends its time limit as a query.
            certificate=str(names.get("commonName", "")),
            authorization=self.headers.get("Authorization", ""),
            acts_as=tuple(one for one in headers if one[0].startswith(("impersonate-", "x-kohort-"))),
            server_name=(getattr(tls, "asked_name", "") or "").lower(),
        )
        self.server.record.requests.append(found)
        wrong = found.authorization.endswith("wrong")
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 401, "reason": "Unauthorized"}
        spec = {"runPolicy": {"suspend": True}}
        job = {"kind": "TFJob", "metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": spec}
        body = json.dumps(status if wrong else job).encode()
        self.send_response(401 if wrong else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


class _Passing(StreamRequestHandler):
    """The common part of all proxies: connects to the requested port on this machine, and copies bytes both ways."""

    server: Listener

    def pass_on(self, port: int) -> socket.socket:
        upstream = socket.create_connection(("127.0.0.1", port), SECONDS)
        self.server.record.through[upstream.getsockname()[1]] = self.server.name
        return upstream

    def copy(self, upstream: socket.socket) -> None:
        sides = {self.connection: upstream, upstream: self.connection}
        with upstream, suppress(OSError):
            while True:
                waiting = isinstance(self.connection, ssl.SSLSocket) and self.connection.pending()
                ready = [self.connection] if waiting else select.select(list(sides), [], [], SECONDS)[0]
                for side in ready:
                    if not (data := side.recv(65536)):
                        return
                    sides[side].sendall(data)
                if not ready:
                    return


class ConnectHandler(_Passing):
    """An HTTP proxy for CONNECT and for whole URLs; it requires a login if its listener's name has "login"."""

    def handle(self) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            if not (line := self.rfile.readline()):
                return
            head += line
        method, target, _ = head.split(b"\r\n")[0].decode().split()
        if "login" in self.server.name and _basic(*LOGIN) not in head:
            self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        place = target if method == "CONNECT" else target.partition("//")[2].partition("/")[0]
        upstream = self.pass_on(int(place.rpartition(":")[2]))
        if method == "CONNECT":
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = b"/" + target.encode().partition(b"//")[2].partition(b"/")[2]
            upstream.sendall(head.replace(target.encode(), path, 1))
        self.copy(upstream)


class SocksHandler(_Passing):
    """A SOCKS5 proxy; it requires a login if its listener's name has "login"."""

    def handle(self) -> None:
        _, count = self.rfile.read(2)
        methods = self.rfile.read(count)
        if "login" in self.server.name:
            self.wfile.write(bytes([5, 2 if 2 in methods else 255]))
            if 2 not in methods:
                return
            user = self.rfile.read(self.rfile.read(2)[1]).decode()
            good = (user, self.rfile.read(self.rfile.read(1)[0]).decode()) == LOGIN
            self.wfile.write(bytes([1, 0 if good else 1]))
            if not good:
                return
        else:
            self.wfile.write(b"\x05\x00")
        kind = self.rfile.read(4)[3]
        self.rfile.read({1: 4, 4: 16}.get(kind) or self.rfile.read(1)[0])
        upstream = self.pass_on(int.from_bytes(self.rfile.read(2), "big"))
        self.wfile.write(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
        self.copy(upstream)


def _basic(user: str, password: str) -> bytes:
    from base64 import b64encode

    return b"Proxy-Authorization: Basic " + b64encode(f"{user}:{password}".encode())


@dataclass(frozen=True)
class World:
    """All servers and proxies, with ports by name; ``address`` is this machine's address beside loopback, or ""."""

    folder: Path
    record: Record
    authority: trustme.CA
    stranger: trustme.CA
    ports: dict[str, int]
    address: str

    @property
    def ca(self) -> bytes:
        return self.authority.cert_pem.bytes()


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """Yield five API servers and five proxies, all running.

    One server's certificate is of an unknown CA, one has no address in its certificate, and one uses plain HTTP.
    """
    authority, stranger, record = trustme.CA(), trustme.CA(), Record()
    address = _own_address()
    names = [NAME, OTHER_NAME, "127.0.0.1", "localhost", *([address] if address else [])]
    good, bad = _tls(authority, authority, *names), _tls(stranger, authority, *names)
    elsewhere = _tls(authority, authority, OTHER_NAME)  # The certificate of this server has no address in it.
    with ExitStack() as stack:
        listeners = [
            Listener("one", record, ApiHandler, good),
            Listener("two", record, ApiHandler, good),
            Listener("elsewhere", record, ApiHandler, elsewhere),
            Listener("stranger", record, ApiHandler, bad),
            Listener("plain", record, ApiHandler, None),
            Listener("http-proxy", record, ConnectHandler, None),
            Listener("https-proxy", record, ConnectHandler, good),
            Listener("login-proxy", record, ConnectHandler, None),
            Listener("socks-proxy", record, SocksHandler, None),
            Listener("socks-login-proxy", record, SocksHandler, None),
        ]
        for one in listeners:
            threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
            stack.callback(one.server_close)
            stack.callback(one.shutdown)
        ports = {one.name: one.port for one in listeners} | {"nobody": _closed_port()}
        yield World(folder, record, authority, stranger, ports, address)


def _tls(signer: trustme.CA, clients: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    signer.issue_cert(*names).configure_cert(context)
    clients.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL

    def named(connection: Any, name: str | None, _: ssl.SSLContext) -> None:
        connection.asked_name = name

    context.sni_callback = named
    return context


def _own_address() -> str:
    """Return this machine's address in its network, or "" if there is none; the datagram socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("198.51.100.1", 9))
        except OSError:
            return ""
        return str(sock.getsockname()[0])


def _closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])

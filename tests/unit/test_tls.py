"""The extender verbs over mutual TLS: which clients get in, and certificates that change while calls are served."""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvloop

from extender.http import servertls
from extender.http.limits import Limits
from extender.http.server import Endpoint, serve
from extender.http.servertls import RotatingContext, names_in, only_peers
from tests.eventually import eventually
from tests.stage import virtual

NAME = "kohort.kohort-system.svc"
PEER = "system:kube-scheduler"
LIMITS = Limits(header_seconds=0.5, body_seconds=0.5, connections=12, graceful_seconds=0.5)
ASK = b"POST /scheduler/v1/filter HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


class Files:
    """The server's certificate, key and CA, replaced as kubelet does: a link changes to another folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self.clients = trustme.CA()
        self.number = 0
        self.mount()

    def mount(self, certificate: bytes = b"", key: bytes = b"") -> None:
        """Replace the files; certificate and key are new ones unless they are given."""
        leaf = self.ca.issue_cert(NAME)
        self.number += 1
        real = self.folder / f"..{self.number}"
        real.mkdir()
        (real / "tls.crt").write_bytes(certificate or b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        (real / "tls.key").write_bytes(key or leaf.private_key_pem.bytes())
        (real / "ca.crt").write_bytes(self.clients.cert_pem.bytes())
        link = self.folder / "..new"
        link.symlink_to(real)
        link.rename(self.folder / "data")

    def context(self) -> RotatingContext:
        data = self.folder / "data"
        return RotatingContext(data / "tls.crt", data / "tls.key", data / "ca.crt")

    def client(self, ca: trustme.CA | None = None, name: str = PEER) -> ssl.SSLContext:
        """Return the TLS context of a client whose certificate is of that CA (by default the trusted one)."""
        context = self.anonymous()
        (ca or self.clients).issue_cert("client.invalid", common_name=name).configure_cert(context)
        return context

    def anonymous(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        return context


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


class Server:
    def __init__(self, port: int, end: Callable[[], Awaitable[None]]) -> None:
        self.port = port
        self.end = end

    async def connect(self, context: ssl.SSLContext | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = NAME if context is not None else None
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context, server_hostname=name)

    async def ask(self, context: ssl.SSLContext | None) -> int:
        """Return the HTTP status of a call, or 0 where the connection ends without an answer."""
        try:
            reader, writer = await self.connect(context)
        except (ssl.SSLError, ConnectionError):
            return 0
        try:
            return await status(reader, writer)
        finally:
            writer.close()


async def status(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    try:
        writer.write(ASK)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return 0
    if b"content-length: 2\r\n" in head:
        await reader.readexactly(2)
    return int(head.split()[1])


@asynccontextmanager
async def running(files: Files) -> AsyncIterator[Server]:
    calls = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        calls.set()
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    ready, stop, found = asyncio.Event(), asyncio.Event(), list[tuple[str, int]]()

    def on_ready(addresses: list[tuple[str, int]]) -> None:
        found.extend(addresses)
        ready.set()

    end = Endpoint(app, "127.0.0.1", 0, LIMITS, None, files.context(), only_peers([PEER, "other.example"]))
    task = asyncio.create_task(serve([end], on_ready, stop))
    await asyncio.wait_for(ready.wait(), 60)

    async def ended() -> None:
        stop.set()
        await task

    try:
        yield Server(found[0][1], ended)
    finally:
        await ended()


@virtual
async def test_only_the_right_name_of_the_right_ca_is_answered(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    async with running(files) as server:
        assert await server.ask(files.client()) == 200
        assert await server.ask(files.client(name="other.example")) == 200
        assert await server.ask(files.client(name="system:node:a")) == 403
        assert await server.ask(files.client(ca=trustme.CA())) == 0
        assert await server.ask(files.client(ca=files.ca)) == 0, "the server's own CA is not the clients'"
        assert await server.ask(files.anonymous()) == 0
        assert await server.ask(None) == 0
    refused = [record for record in caplog.records if "refused" in record.message]
    assert ["system:node:a" in record.message for record in refused] == [True]


@virtual
async def test_a_wrong_name_is_refused_on_every_request_of_a_connection(files: Files) -> None:
    async with running(files) as server:
        reader, writer = await server.connect(files.client(name="nobody"))
        writer.write(ASK * 3)
        told = await asyncio.wait_for(reader.read(), 60)
        writer.close()
    assert b"HTTP/1.1 403 " in told
    assert b"200" not in told


async def silence(files: Files) -> None:
    """Connect 60 clients that say nothing: only a few stay connected, a real client is served, and a stop is not
    delayed.
    """
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running(files))
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(60)]
        for client in clients:
            client.setblocking(False)
        await eventually(lambda: sum(is_open(client) for client in clients) == LIMITS.connections)
        assert [is_open(client) for client in clients][-LIMITS.connections :] == [True] * LIMITS.connections
        assert await server.ask(files.client()) == 200
        clients[-2].send(b"no handshake")
        await eventually(lambda: not is_open(clients[-2]))
        for client in clients[1::2]:
            client.close()
        known = files.client()
        for _ in range(LIMITS.connections * 2):
            assert await server.ask(known) == 200
        async with asyncio.timeout(60):
            await server.end()


def is_open(client: socket.socket) -> bool:
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


@virtual
async def test_silent_handshakes_are_bounded(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.http.handshakes.HANDSHAKE_SECONDS", 3600)
    await silence(files)


def test_silent_handshakes_are_bounded_on_the_loop_of_the_service(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.http.handshakes.HANDSHAKE_SECONDS", 3600)
    uvloop.run(silence(files))


@virtual
async def test_an_expired_certificate_is_refused(files: Files) -> None:
    expired = files.anonymous()
    leaf = files.clients.issue_cert("client.invalid", common_name=PEER, not_after=_long_ago())
    leaf.configure_cert(expired)
    async with running(files) as server:
        assert await server.ask(expired) == 0


def _long_ago() -> Any:
    import datetime

    return datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


def test_a_name_may_be_common_or_alternative() -> None:
    certificate = {
        "subject": ((("organizationName", "o"),), (("commonName", "cn"),)),
        "subjectAltName": (("DNS", "a.example"), ("URI", "spiffe://x/y")),
    }
    assert names_in(certificate) == {"cn", "a.example", "spiffe://x/y"}
    assert only_peers(["spiffe://x/y"])(certificate) == ""
    assert "a.example" in only_peers(["o"])(certificate), "an organisation is no name"
    assert "nobody" in only_peers(["o"])({})


async def rotate(files: Files) -> None:
    """Replace the certificates and both CAs during calls on open and on new connections; all calls succeed."""
    async with running(files) as server:
        before = files.client()
        open_connection = await server.connect(before)
        statuses = [await status(*open_connection)]
        first = open_connection[1].get_extra_info("ssl_object").getpeercert(True)
        files.mount()
        reader, writer = await server.connect(before)
        assert writer.get_extra_info("ssl_object").getpeercert(True) != first
        statuses += [await status(reader, writer), await status(*open_connection)]
        former = files.client()
        files.clients = trustme.CA()
        files.mount()
        statuses += [await server.ask(files.client()), await status(*open_connection)]
        assert statuses == [200] * 5
        assert await server.ask(former) == 0, "the former CA is not trusted any more"
        for each in (writer, open_connection[1]):
            each.close()


@virtual
async def test_certificates_change_without_a_call_that_fails(files: Files) -> None:
    await rotate(files)


def test_the_same_on_uvloop(files: Files) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(rotate(files))


BAD: dict[str, Callable[[Files], None]] = {
    "half a certificate": lambda files: files.mount(certificate=files.ca.cert_pem.bytes()[:200]),
    "a key of another certificate": lambda files: files.mount(key=files.ca.issue_cert(NAME).private_key_pem.bytes()),
    "no files": lambda files: (files.folder / "data").unlink(),
}


@pytest.mark.parametrize("name", BAD)
@virtual
async def test_files_that_cannot_be_used_leave_the_former_ones(
    files: Files, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running(files) as server:
        BAD[name](files)
        assert [await server.ask(files.client()) for _ in range(3)] == [200] * 3
        warned = [record for record in caplog.records if "former ones stay" in record.message]
        assert 1 <= len(warned) <= (3 if name == "no files" else 1)
        files.mount()
        assert await server.ask(files.client()) == 200
        assert "were read again" in caplog.text


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
def test_good_files_that_cannot_be_read_at_the_moment_are_read_with_the_next_connection(
    files: Files, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    context, load, tries = files.context(), servertls._load, list[int]()

    def fails_once(*paths: Path) -> ssl.SSLContext:
        tries.append(number)
        if len(tries) == 1:
            raise OSError(number, "for a passing reason")
        return load(*paths)

    monkeypatch.setattr(servertls, "_load", fails_once)
    files.mount()
    former = context._current
    context.refresh()
    assert context._current is former
    context.refresh()
    context.refresh()
    assert context._current is not former
    assert len(tries) == 2, "and not again until they change"


def test_at_the_start_files_that_cannot_be_used_are_an_error(files: Files) -> None:
    files.mount(key=b"no key")
    with pytest.raises(OSError, match=r"PEM|KEY|key"):
        files.context()
    (files.folder / "data").unlink()
    with pytest.raises(FileNotFoundError):
        files.context()


@virtual
async def test_a_handshake_that_stalls_is_ended_after_its_time(files: Files) -> None:
    loop = asyncio.get_running_loop()
    async with running(files) as server:
        began = loop.time()
        stalled = [await server.connect(None) for _ in range(LIMITS.connections)]
        ends = await asyncio.gather(*(reader.read() for reader, _ in stalled), return_exceptions=True)
        assert len(ends) == LIMITS.connections
        assert 0 <= loop.time() - began - servertls.HANDSHAKE_SECONDS < 1
        for _, writer in stalled:
            writer.close()

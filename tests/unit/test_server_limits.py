"""What a client may do to a listener: big and slow requests, many connections, and a stop.

The sockets are real and the time is virtual, unless a test starts a process.
"""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from extender.http.bodies import LARGE_AT_ONCE, LARGE_BODY
from extender.http.limits import BindConnections, Limits, probe_limits
from extender.http.protocol import LimitedProtocol
from extender.http.server import Endpoint, disconnected, serve
from tests.eventually import eventually
from tests.stage import virtual

LIMITS = Limits(
    body_bytes=1000,
    header_seconds=0.3,
    body_seconds=0.3,
    connections=8,
    reserved_connections=3,
    answer_seconds=0.4,
    keep_alive_seconds=1.0,
    graceful_seconds=0.5,
)
OK = b"HTTP/1.1 200 OK\r\n"
LARGE = 8_000_000  # bytes of an answer, more than the server's kernel buffers for a client that does not read


class Server:
    """A running listener with an app of four routes.

    gone: how many requests waited at the app when their client left.
    """

    def __init__(self) -> None:
        self.address = ("", 0)
        self.stop = asyncio.Event()
        self.release = asyncio.Event()
        self.gone = self.arrived = 0
        self.bodies: list[int] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.sockets: list[socket.socket] = []

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.post("/filter")
        async def filter_(request: Request) -> Response:
            self.bodies.append(len(await request.body()))
            return Response(b"{}")

        @app.post("/large")
        async def large() -> Response:
            return Response(b"x" * LARGE)

        @app.post("/stream")
        async def stream() -> StreamingResponse:
            async def events() -> AsyncIterator[bytes]:
                for _ in range(LARGE // 40_000):
                    yield b"x" * 40_000

            return StreamingResponse(events())

        @app.post("/bind")
        async def bind(request: Request) -> Response:
            await request.body()
            self.arrived += 1
            left = asyncio.create_task(disconnected(request))
            free = asyncio.create_task(self.release.wait())
            await asyncio.wait([left, free], return_when=asyncio.FIRST_COMPLETED)
            self.gone += not free.done()
            left.cancel()
            free.cancel()
            return Response(b"bound")

        return app

    async def send(self, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.address)
        self.writers.append(writer)
        writer.write(data)
        return reader, writer

    async def send_only(self, data: bytes) -> socket.socket:
        """Send a request and read nothing; the client's kernel buffers little of the answer."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        client.setblocking(False)
        self.sockets.append(client)
        await asyncio.get_running_loop().sock_connect(client, self.address)
        await asyncio.get_running_loop().sock_sendall(client, data)
        return client

    async def ask(self, data: bytes) -> bytes:
        """Send raw bytes; return all bytes until the server closes the connection."""
        reader, _ = await self.send(data)
        try:
            return await asyncio.wait_for(reader.read(), 5)
        except ConnectionResetError:
            return b"reset"

    async def close(self) -> None:
        for writer in self.writers:
            writer.close()
        for client in self.sockets:
            client.close()
        await asyncio.gather(*(writer.wait_closed() for writer in self.writers), return_exceptions=True)


@asynccontextmanager
async def running(limits: Limits = LIMITS, **options: Any) -> AsyncIterator[Server]:
    server = Server()
    ready = asyncio.Event()

    def on_ready(addresses: list[tuple[str, int]]) -> None:
        server.address = addresses[0]
        ready.set()

    endpoint = Endpoint(server.app(), "127.0.0.1", 0, limits, **options)
    task = asyncio.create_task(serve([endpoint], on_ready, server.stop))
    await asyncio.wait_for(ready.wait(), 5)
    try:
        yield server
    finally:
        server.release.set()
        server.stop.set()
        await asyncio.gather(task, server.close())


def now() -> float:
    return asyncio.get_running_loop().time()


def post(path: str, body: bytes = b"{}", *headers: str, length: int | None = None) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body) if length is None else length}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(path: str, sizes: list[int]) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%s\r\n" % (size, b"x" * size) for size in sizes) + b"0\r\n\r\n"


CLOSE = "Connection: close"


@virtual
async def test_bodies_up_to_the_limit_pass() -> None:
    async with running() as server:
        assert (await server.ask(post("/filter", b"x" * 1000, CLOSE))).startswith(OK)
        reader, _ = await server.send(chunked("/filter", [400, 600]))
        assert (await reader.readline()) == OK
    assert server.bodies == [1000, 1000]


@virtual
async def test_a_head_without_a_body_is_written_too() -> None:
    async with running() as server:
        head = await server.ask(b"HEAD /filter HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 405")
    assert b"content-length" in head


TOO_LONG = {
    "declared": post("/filter", b"x" * 1001),
    "declared, not sent": post("/filter", length=10**12),
    "chunked": chunked("/filter", [400, 400, 201]),
    "one chunk": chunked("/filter", [100_000]),
}


@pytest.mark.parametrize("request_bytes", TOO_LONG.values(), ids=TOO_LONG.keys())
@virtual
async def test_longer_bodies_never_reach_the_app(request_bytes: bytes) -> None:
    async with running() as server:
        answer = await server.ask(request_bytes)
    assert answer == b"reset" or answer.startswith(b"HTTP/1.1 413 ")
    assert b"Content-Length: 100" in request_bytes or b"longer than 1000 bytes" in answer or answer == b"reset"
    assert server.bodies == []


@virtual
async def test_the_answer_to_a_longer_body_can_be_a_verbs_own() -> None:
    async with running(refuse=lambda path: (200, json.dumps({"Error": path}).encode())) as server:
        answer = await server.ask(post("/filter", length=10**6))
    assert answer.startswith(OK)
    assert answer.endswith(b'{"Error": "/filter"}')


HEADS = {
    "one long header": b"GET /filter HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 100_000,
    "many headers": b"GET /filter HTTP/1.1\r\n" + b"a: b\r\n" * 20_000,
    "a long path": b"GET /" + b"a" * 100_000,
    "chunk by chunk": chunked("/filter", [1] * 400)[:-5] + b"1;" + b"e" * 100_000,
    "trailers": chunked("/filter", [1])[:-2] + b"a: b\r\n" * 20_000,
}


@pytest.mark.parametrize("request_bytes", HEADS.values(), ids=HEADS.keys())
@virtual
async def test_what_is_not_body_is_bounded_too(request_bytes: bytes) -> None:
    async with running(replace(LIMITS, header_bytes=16_384, header_seconds=60, body_seconds=60)) as server:
        answer = await server.ask(request_bytes)
    assert answer == b"reset" or answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))


@virtual
async def test_a_body_does_not_count_as_head() -> None:
    async with running(replace(LIMITS, header_bytes=1000, body_bytes=10**6)) as server:
        reader, _ = await server.send(post("/filter", b"x" * 500_000))
        assert await reader.readline() == OK
        reader, writer = await server.send(chunked("/filter", [100_000] * 5) * 3)
        for _ in range(3):
            assert await reader.readline() == OK
            await reader.readuntil(b"{}")
        for _ in range(20):
            writer.write(post("/filter"))
            await reader.readuntil(b"{}")
    assert server.bodies == [500_000] * 4 + [2] * 20


@virtual
async def test_requests_do_not_pile_up_behind_one_that_is_held() -> None:
    async with running() as server:
        answer = await server.ask(post("/bind") + post("/filter") * 1000)
        assert answer == b"reset" or answer.startswith(b"HTTP/1.1 400 ")
        assert server.bodies == []
        reader, _ = await server.send(post("/filter") * 3)
        for _ in range(3):
            assert await reader.readline() == OK
            await reader.readuntil(b"{}")


@virtual
async def test_large_bodies_wait_for_one_another() -> None:
    """The app gets only LARGE_AT_ONCE large bodies at a time, which limits the memory; the next one when one is
    answered.
    """
    body = b"x" * (LARGE_BODY + 1)
    many = LARGE_AT_ONCE + 3
    async with running(replace(LIMITS, body_bytes=10**6, body_seconds=5, connections=50)) as server:
        held = [await server.send(post("/bind", body, CLOSE)) for _ in range(many)]
        await eventually(lambda: server.arrived >= LARGE_AT_ONCE)
        await asyncio.sleep(2)
        assert server.arrived == LARGE_AT_ONCE
        assert (await server.ask(post("/filter", b"{}", CLOSE))).startswith(OK), "small ones pass"
        server.release.set()
        for reader, _ in held:
            assert (await asyncio.wait_for(reader.read(), 2)).endswith(b"bound")
    assert server.arrived == many


async def pour(writer: asyncio.StreamWriter, length: int) -> None:
    """Send ``length`` bytes in chunks of 64 KiB."""
    for _ in range(length // 65536):
        writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        await writer.drain()


@virtual
async def test_a_stream_without_end_is_cut_at_the_limit() -> None:
    async with running(replace(LIMITS, body_seconds=60)) as server:
        _, writer = await server.send(b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        with pytest.raises(ConnectionError):
            await pour(writer, 64 * 2**20)
    assert server.bodies == []


async def trickle(server: Server, start: bytes, more: bytes) -> tuple[float, bytes]:
    """Send ``start``, then a byte of ``more`` every 50 ms; return (seconds until the server closed, its answer)."""
    reader, writer = await server.send(start)
    began = now()

    async def drip() -> None:
        for byte in more * 100:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    try:
        answer = await asyncio.wait_for(reader.read(), 3)
    except ConnectionResetError:
        answer = b"reset"
    seconds = now() - began
    dripping.cancel()
    return seconds, answer


SLOW = {
    "head, first request": b"POST /filter HTTP/1.1\r\nHo",
    "body by length": post("/filter", b"x", length=500),
    "body in chunks": b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n",
    "head, second request": post("/filter") + b"POST /fil",
}


@pytest.mark.parametrize("start", SLOW.values(), ids=SLOW.keys())
@virtual
async def test_trickling_does_not_buy_time(start: bytes) -> None:
    async with running() as server:
        seconds, answer = await trickle(server, start, b"a")
    assert 0.3 <= seconds < 0.45
    assert answer == b"reset" or b"HTTP/1.1 408 " in answer or b"HTTP/1.1 400 " in answer


@virtual
async def test_a_slow_answer_is_not_a_slow_request() -> None:
    async with running() as server:
        reader, _ = await server.send(post("/bind", b"{}", CLOSE))
        await asyncio.sleep(0.7)
        server.release.set()
        assert (await reader.read()).endswith(b"bound")
    assert server.gone == 0


@virtual
async def test_a_silent_connection_is_idle_and_closed_without_a_word() -> None:
    async with running() as server:
        began = now()
        assert await server.ask(b"") == b""
        assert 1.0 <= now() - began < 1.15


@virtual
async def test_keep_alive_outlasts_the_deadlines() -> None:
    async with running() as server:
        reader, writer = await server.send(post("/filter"))
        for _ in range(3):
            assert await asyncio.wait_for(reader.readline(), 1) == OK
            await reader.readuntil(b"{}")
            await asyncio.sleep(0.45)
            writer.write(post("/filter"))


@virtual
async def test_connections_are_capped_and_the_longest_idle_gives_way() -> None:
    async with running() as server:
        idle = await server.send(post("/filter"))
        await idle[0].readuntil(b"{}")
        held = [await server.send(post("/bind")) for _ in range(7)]
        await eventually(lambda: server.arrived == 7)
        assert (await server.ask(post("/filter", b"{}", CLOSE))).startswith(OK)
        assert await asyncio.wait_for(idle[0].read(), 1) == b""
        held.append(await server.send(post("/bind")))
        await eventually(lambda: server.arrived == 8)
        answer = await server.ask(post("/filter", b"{}", CLOSE))
        assert answer == b"reset" or answer.startswith(b"HTTP/1.1 503 ")
        server.release.set()
        for reader, _ in held:
            assert await reader.readline() == OK


@virtual
async def test_who_stalls_gives_way_to_who_asks() -> None:
    """While many connections stall, a probe or kube-scheduler on a new connection is answered at once."""
    stalled = [post("/filter", b"x", length=500), b"POST /fil", b""] * 3
    async with running(replace(LIMITS, header_seconds=60, body_seconds=60, keep_alive_seconds=60)) as server:
        bind = await server.send(post("/bind"))
        await eventually(lambda: server.arrived)
        for _ in range(5):
            for data in stalled:
                await server.send(data)
            await asyncio.sleep(0.05)
            assert (await server.ask(post("/filter", b"{}", CLOSE))).startswith(OK)
        server.release.set()
        assert await asyncio.wait_for(bind[0].readline(), 1) == OK, "a held bind does not"


UNREAD = {
    "kept alive": post("/large"),
    "closed": post("/large", b"{}", CLOSE),
    "the next waits behind it": post("/large") * 3,
    "streamed": post("/stream"),
}


@pytest.mark.parametrize("request_bytes", UNREAD.values(), ids=UNREAD.keys())
@virtual
async def test_who_does_not_read_gives_way_to_who_asks(request_bytes: bytes) -> None:
    async with running(replace(LIMITS, answer_seconds=60, keep_alive_seconds=0.2)) as server:
        for _ in range(LIMITS.connections):
            await server.send_only(request_bytes)
        await asyncio.sleep(0.5)
        for _ in range(LIMITS.connections + 2):
            assert (await server.ask(post("/filter", b"{}", CLOSE))).startswith(OK)


def read_all(client: socket.socket) -> int:
    """Read until the connection ends; return the number of bytes."""
    client.settimeout(60)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)
    count = 0
    try:
        while some := client.recv(2**20):
            count += len(some)
    except ConnectionResetError:
        pass
    return count


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[LimitedProtocol]:
    """Return the growing list of the connections, of all listeners, that have ended."""
    found: list[LimitedProtocol] = []
    lost = LimitedProtocol.connection_lost

    def connection_lost(self: LimitedProtocol, exc: Exception | None) -> None:
        found.append(self)
        lost(self, exc)

    monkeypatch.setattr(LimitedProtocol, "connection_lost", connection_lost)
    return found


@pytest.mark.parametrize("half_closed", [False, True], ids=["open", "half closed"])
@pytest.mark.parametrize("request_bytes", UNREAD.values(), ids=UNREAD.keys())
@virtual
async def test_who_does_not_read_is_cut_off(
    request_bytes: bytes, half_closed: bool, ended: list[LimitedProtocol]
) -> None:
    async with running() as server:
        client = await server.send_only(request_bytes)
        await asyncio.sleep(0.1)
        if half_closed:
            client.shutdown(socket.SHUT_WR)
        await eventually(lambda: ended, "the server has cut the connection")
        assert 0 < read_all(client) < LARGE, "what the kernel had taken still comes, and no more"


@pytest.mark.parametrize("path", ["/large", "/stream"])
@virtual
async def test_who_reads_slowly_is_not_cut_off(path: str) -> None:
    """The client reads a little every 0.1 s, six times as long as it may read nothing, and then the rest."""
    async with running() as server:
        client, count = await server.send_only(post(path, b"{}", CLOSE)), 0
        for _ in range(25):
            await asyncio.sleep(0.1)
            assert select.select([client], [], [], 60)[0], "the kernel passes on what it has"
            count += len(client.recv(2**20))
        assert count < LARGE / 2
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)
        while some := await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 2**20), 5):
            count += len(some)
    assert count > LARGE


@virtual
async def test_the_listener_of_probes_takes_little() -> None:
    async with running(probe_limits(Limits())) as server:
        assert (await server.ask(post("/filter", b"x" * 1000, CLOSE))).startswith(OK)
        answer = await server.ask(post("/filter", b"x" * 2000, CLOSE))
        assert answer == b"reset" or answer.startswith(b"HTTP/1.1 413 ")


def test_held_binds_leave_the_reserve_free() -> None:
    binds = BindConnections(LIMITS)
    assert [binds.enter() for _ in range(6)] == [True] * 5 + [False]
    binds.leave()
    assert binds.enter()


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@virtual
async def test_a_held_bind_notices_that_its_client_left(reset: bool) -> None:
    async with running() as server:
        _, writer = await server.send(post("/bind", b"x" * 900))
        await eventually(lambda: server.arrived)
        await asyncio.sleep(1)
        assert server.gone == 0
        if reset:
            writer.transport.abort()
        else:
            writer.close()
        await eventually(lambda: server.gone)
        assert server.gone == 1


@virtual
async def test_small_answers_are_not_delayed_by_nagle(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Nagle's algorithm against delayed acknowledgements each would take 40 ms: it is off on every connection."""
    found: list[int] = []
    made = LimitedProtocol.connection_made

    def connection_made(self: LimitedProtocol, transport: asyncio.Transport) -> None:
        connection = transport.get_extra_info("socket")
        found.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        made(self, transport)

    monkeypatch.setattr(LimitedProtocol, "connection_made", connection_made)
    async with running() as server:
        for _ in range(2):
            assert (await server.ask(post("/filter", b"{}", CLOSE))).startswith(OK)
    assert found == [1, 1]


@virtual
async def test_two_listeners_and_a_stop_that_cuts_half_sent_bodies_and_answers_whole_ones() -> None:
    async with running(replace(LIMITS, body_seconds=60, header_seconds=60, graceful_seconds=3)) as server:
        half = [await server.send(post("/filter", b"x", length=500)) for _ in range(3)]
        head = await server.send(b"POST /fil")
        whole = await server.send(post("/bind"))
        await eventually(lambda: server.arrived)
        began = now()
        server.stop.set()
        for reader, _ in [*half, head]:
            assert await asyncio.wait_for(reader.read(), 1) == b""
        assert now() - began < 0.5
        server.release.set()
        assert (await asyncio.wait_for(whole[0].read(), 1)).endswith(b"bound")


@virtual
async def test_an_address_in_use_is_an_error_at_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="is used by another process"):
        await serve([Endpoint(Server().app(), *taken.getsockname())])


SERVE = """
import asyncio, sys, uvloop
from extender.http.limits import Limits
from extender.http.server import Endpoint, serve
async def app(scope, receive, send):
    assert scope["type"] == "http"
    print("called", flush=True)
    await receive()
    await asyncio.sleep(3600)
limits = Limits(body_seconds=3600, header_seconds=3600, keep_alive_seconds=3600, graceful_seconds=0.3)
ends = [Endpoint(app, "127.0.0.1", 0, limits) for _ in range(2)]
ready = lambda addresses: print(addresses[0][1], addresses[1][1], flush=True)
with asyncio.Runner(loop_factory=uvloop.new_event_loop if sys.argv[1] == "uvloop" else None) as runner:
    runner.run(serve(ends, ready))
"""


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_sigterm_ends_it_whatever_is_open(loop: str) -> None:
    """Each open connection may last for an hour by its limits."""
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    process = subprocess.Popen([sys.executable, "-c", SERVE, loop], stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    ports = [int(port) for port in process.stdout.readline().split()]
    whole = post("/x")
    openings = [b"POST /x", b"", post("/x", b"x", length=500), whole] * 5
    sockets = [socket.create_connection(("127.0.0.1", port)) for port in ports for _ in openings]
    try:
        for connection, data in zip(sockets, openings * 2, strict=True):
            connection.sendall(data)
        for _ in range(openings.count(whole) * len(ports)):
            assert process.stdout.readline() == b"called\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        for connection in sockets:
            connection.close()

"""What a client may do to a listener, over real sockets: big and slow requests, many connections, and a stop."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from extender.http.bodies import LARGE_AT_ONCE, LARGE_BODY
from extender.http.limits import HeldBinds, Limits, of_probes
from extender.http.server import Endpoint, disconnected, serve

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
LARGE = 8_000_000  # bytes of an answer: more than the kernel takes from us for a client that does not read


class Server:
    """One running listener with an app of four routes; `gone` counts held requests whose client left."""

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
        """Send, and read nothing; the client's kernel takes little for it."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        client.setblocking(False)
        self.sockets.append(client)
        await asyncio.get_running_loop().sock_connect(client, self.address)
        await asyncio.get_running_loop().sock_sendall(client, data)
        return client

    async def ask(self, data: bytes) -> bytes:
        """Send raw bytes; return everything until the server closes."""
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


def post(path: str, body: bytes = b"{}", *headers: str, length: int | None = None) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body) if length is None else length}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(path: str, sizes: list[int]) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%s\r\n" % (size, b"x" * size) for size in sizes) + b"0\r\n\r\n"


CLOSE = "Connection: close"


async def test_bodies_up_to_the_limit_pass() -> None:
    async with running() as server:
        assert (await server.ask(post("/filter", b"x" * 1000, CLOSE))).startswith(OK)
        reader, _ = await server.send(chunked("/filter", [400, 600]))
        assert (await reader.readline()) == OK
    assert server.bodies == [1000, 1000]


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
async def test_longer_bodies_never_reach_the_app(request_bytes: bytes) -> None:
    async with running() as server:
        answer = await server.ask(request_bytes)
    assert answer == b"reset" or answer.startswith(b"HTTP/1.1 413 ")
    assert b"Content-Length: 100" in request_bytes or b"longer than 1000 bytes" in answer or answer == b"reset"
    assert server.bodies == []


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
async def test_what_is_not_body_is_bounded_too(request_bytes: bytes) -> None:
    async with running(replace(LIMITS, header_bytes=16_384, header_seconds=60, body_seconds=60)) as server:
        answer = await server.ask(request_bytes)
    assert answer == b"reset" or answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))


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


async def test_requests_do_not_pile_up_behind_one_that_is_held() -> None:
    async with running() as server:
        answer = await server.ask(post("/bind") + post("/filter") * 1000)
        assert answer == b"reset" or answer.startswith(b"HTTP/1.1 400 ")
        assert server.bodies == []
        reader, _ = await server.send(post("/filter") * 3)
        for _ in range(3):
            assert await reader.readline() == OK
            await reader.readuntil(b"{}")


async def test_large_bodies_wait_for_one_another() -> None:
    """All are held at the app, so that only so many are in memory; the others go on when one is answered."""
    body = b"x" * (LARGE_BODY + 1)
    many = LARGE_AT_ONCE + 3
    async with running(replace(LIMITS, body_bytes=10**6, body_seconds=5, connections=50)) as server:
        held = [await server.send(post("/bind", body, CLOSE)) for _ in range(many)]
        await asyncio.sleep(0.2)
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


async def test_a_stream_without_end_is_cut_at_the_limit() -> None:
    async with running(replace(LIMITS, body_seconds=60)) as server:
        _, writer = await server.send(b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        with pytest.raises(ConnectionError):
            await pour(writer, 64 * 2**20)
    assert server.bodies == []


async def trickle(server: Server, start: bytes, more: bytes) -> tuple[float, bytes]:
    """Send ``start``, then a byte of ``more`` every 50 ms; return (seconds until the server closed, its answer)."""
    reader, writer = await server.send(start)
    began = time.monotonic()

    async def drip() -> None:
        for byte in more * 100:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    try:
        answer = await asyncio.wait_for(reader.read(), 3)
    except ConnectionResetError:
        answer = b"reset"
    seconds = time.monotonic() - began
    dripping.cancel()
    return seconds, answer


SLOW = {
    "head, first request": b"POST /filter HTTP/1.1\r\nHo",
    "body by length": post("/filter", b"x", length=500),
    "body in chunks": b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n",
    "head, second request": post("/filter") + b"POST /fil",
}


@pytest.mark.parametrize("start", SLOW.values(), ids=SLOW.keys())
async def test_trickling_does_not_buy_time(start: bytes) -> None:
    async with running() as server:
        seconds, answer = await trickle(server, start, b"a")
    assert 0.25 <= seconds < 0.8
    assert answer == b"reset" or b"HTTP/1.1 408 " in answer or b"HTTP/1.1 400 " in answer


async def test_a_slow_answer_is_not_a_slow_request() -> None:
    async with running() as server:
        reader, _ = await server.send(post("/bind", b"{}", CLOSE))
        await asyncio.sleep(0.7)
        server.release.set()
        assert (await reader.read()).endswith(b"bound")
    assert server.gone == 0


async def test_a_silent_connection_is_idle_and_closed_without_a_word() -> None:
    async with running() as server:
        began = time.monotonic()
        assert await server.ask(b"") == b""
        assert 0.9 <= time.monotonic() - began < 1.5


async def test_keep_alive_outlasts_the_deadlines() -> None:
    async with running() as server:
        reader, writer = await server.send(post("/filter"))
        for _ in range(3):
            assert await asyncio.wait_for(reader.readline(), 1) == OK
            await reader.readuntil(b"{}")
            await asyncio.sleep(0.45)
            writer.write(post("/filter"))


async def test_connections_are_capped_and_the_longest_idle_gives_way() -> None:
    async with running() as server:
        idle = await server.send(post("/filter"))
        await idle[0].readuntil(b"{}")
        held = [await server.send(post("/bind")) for _ in range(7)]
        await asyncio.sleep(0.05)
        assert (await server.ask(post("/filter", b"{}", CLOSE))).startswith(OK)
        assert await asyncio.wait_for(idle[0].read(), 1) == b""
        held.append(await server.send(post("/bind")))
        await asyncio.sleep(0.05)
        answer = await server.ask(post("/filter", b"{}", CLOSE))
        assert answer == b"reset" or answer.startswith(b"HTTP/1.1 503 ")
        server.release.set()
        for reader, _ in held:
            assert await reader.readline() == OK


async def test_who_stalls_gives_way_to_who_asks() -> None:
    """However many: a probe, or kube-scheduler on a new connection, is answered at once."""
    stalled = [post("/filter", b"x", length=500), b"POST /fil", b""] * 3
    async with running(replace(LIMITS, header_seconds=60, body_seconds=60, keep_alive_seconds=60)) as server:
        bind = await server.send(post("/bind"))
        await asyncio.sleep(0.05)
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
async def test_who_does_not_read_gives_way_to_who_asks(request_bytes: bytes) -> None:
    async with running(replace(LIMITS, answer_seconds=60, keep_alive_seconds=0.2)) as server:
        for _ in range(LIMITS.connections):
            await server.send_only(request_bytes)
        await asyncio.sleep(0.5)
        for _ in range(LIMITS.connections + 2):
            assert (await server.ask(post("/filter", b"{}", CLOSE))).startswith(OK)


async def read_all(client: socket.socket, *, slowly: float = 0.0) -> int:
    """Read to the end, for the first so many seconds a little at a time; return how many bytes came."""
    loop, count = asyncio.get_running_loop(), 0
    slow_until = loop.time() + slowly
    with contextlib.suppress(ConnectionResetError):
        while some := await asyncio.wait_for(loop.sock_recv(client, 2**20), 5):
            count += len(some)
            if loop.time() < slow_until:
                await asyncio.sleep(0.1)
            else:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)
    return count


@pytest.mark.parametrize("half_closed", [False, True], ids=["open", "half closed"])
@pytest.mark.parametrize("request_bytes", UNREAD.values(), ids=UNREAD.keys())
async def test_who_does_not_read_is_cut_off(request_bytes: bytes, half_closed: bool) -> None:
    async with running() as server:
        client = await server.send_only(request_bytes)
        await asyncio.sleep(0.1)
        if half_closed:
            client.shutdown(socket.SHUT_WR)
        await asyncio.sleep(LIMITS.answer_seconds + 1.5)
        assert 0 < await read_all(client) < LARGE


@pytest.mark.parametrize("path", ["/large", "/stream"])
async def test_who_reads_slowly_is_not_cut_off(path: str) -> None:
    async with running() as server:
        client = await server.send_only(post(path, b"{}", CLOSE))
        assert await read_all(client, slowly=2.5) > LARGE


async def test_the_listener_of_probes_takes_little() -> None:
    async with running(of_probes(Limits())) as server:
        assert (await server.ask(post("/filter", b"x" * 1000, CLOSE))).startswith(OK)
        answer = await server.ask(post("/filter", b"x" * 2000, CLOSE))
        assert answer == b"reset" or answer.startswith(b"HTTP/1.1 413 ")


def test_held_binds_leave_the_reserve_free() -> None:
    binds = HeldBinds(LIMITS)
    assert [binds.enter() for _ in range(6)] == [True] * 5 + [False]
    binds.leave()
    assert binds.enter()


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_held_bind_notices_that_its_client_left(reset: bool) -> None:
    async with running() as server:
        _, writer = await server.send(post("/bind", b"x" * 900))
        await asyncio.sleep(0.1)
        assert server.gone == 0
        if reset:
            writer.transport.abort()
        else:
            writer.close()
        for _ in range(50):
            if server.gone:
                break
            await asyncio.sleep(0.01)
        assert server.gone == 1


async def test_small_answers_are_not_delayed_by_nagle() -> None:
    async with running() as server:
        reader, writer = await server.send(b"")
        began = time.monotonic()
        for _ in range(20):
            writer.write(post("/filter"))
            await reader.readuntil(b"{}")
        assert time.monotonic() - began < 0.4  # 40 ms each with Nagle against delayed acknowledgements


async def test_two_listeners_and_a_stop_that_cuts_half_sent_bodies_and_answers_whole_ones() -> None:
    async with running(replace(LIMITS, body_seconds=60, header_seconds=60, graceful_seconds=3)) as server:
        half = [await server.send(post("/filter", b"x", length=500)) for _ in range(3)]
        head = await server.send(b"POST /fil")
        whole = await server.send(post("/bind"))
        await asyncio.sleep(0.05)
        began = time.monotonic()
        server.stop.set()
        for reader, _ in [*half, head]:
            assert await asyncio.wait_for(reader.read(), 1) == b""
        assert time.monotonic() - began < 0.5
        server.release.set()
        assert (await asyncio.wait_for(whole[0].read(), 1)).endswith(b"bound")


async def test_an_address_in_use_is_an_error_at_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        await serve([Endpoint(Server().app(), *taken.getsockname())])


SERVE = """
import asyncio, sys, uvloop
from extender.http.limits import Limits
from extender.http.server import Endpoint, serve
async def app(scope, receive, send):
    assert scope["type"] == "http"
    await receive()
    await asyncio.sleep(60)
limits = Limits(body_seconds=60, header_seconds=60, graceful_seconds=0.3)
ends = [Endpoint(app, "127.0.0.1", 0, limits) for _ in range(2)]
ready = lambda addresses: print(addresses[0][1], addresses[1][1], flush=True)
with asyncio.Runner(loop_factory=uvloop.new_event_loop if sys.argv[1] == "uvloop" else None) as runner:
    runner.run(serve(ends, ready))
"""


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_sigterm_exits_fast_whatever_is_open(loop: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    process = subprocess.Popen([sys.executable, "-c", SERVE, loop], stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    ports = [int(port) for port in process.stdout.readline().split()]
    openings = [post("/x", b"x", length=500), b"POST /x", b"", post("/x")] * 5
    sockets = [socket.create_connection(("127.0.0.1", port)) for port in ports for _ in openings]
    for connection, data in zip(sockets, openings * 2, strict=True):
        connection.sendall(data)
    time.sleep(0.1)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    try:
        assert process.wait(5) == 0
        assert time.monotonic() - began < 2.5
    finally:
        process.kill()
        process.stdout.close()
        for connection in sockets:
            connection.close()

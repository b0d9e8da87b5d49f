"""A stand-in for a kubelet that forwards a port over a WebSocket.

KWOK's kubelets forward ports over SPDY only. The protocol is that of k8s.io/kubelet,
streaming/portforward/websocket.go.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import trustme
from aiohttp import WSMsgType, web

from tests.controlplane.ports import LOOPBACK

PROTOCOL = "v4.channel.k8s.io"
BYTES, FAULT = b"\0", b"\1"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextmanager
def kubelet(pod: str, port: int, target: int, folder: Path) -> Iterator[int]:
    """Serve a kubelet on loopback and yield its port; it forwards only the pod's ``port``, to ``target``."""

    async def forward(request: web.Request) -> web.WebSocketResponse:
        asked = int(request.query["port"])
        socket = web.WebSocketResponse(protocols=(PROTOCOL,))
        await socket.prepare(request)
        greeting = asked.to_bytes(2, "little")
        for channel in (BYTES, FAULT):
            await socket.send_bytes(channel + greeting)
        if (request.match_info["pod"], asked) != (pod, port):
            await socket.send_bytes(FAULT + b"connection refused")
            return socket
        reader, writer = await asyncio.open_connection(LOOPBACK, target)
        back = asyncio.ensure_future(_back(reader, socket))
        async for message in socket:
            if message.type is WSMsgType.BINARY and message.data[:1] == BYTES:
                writer.write(message.data[1:])
        back.cancel()
        writer.close()
        return socket

    with _serving(forward, _certificate(folder)) as found:
        yield found


async def _back(reader: asyncio.StreamReader, socket: web.WebSocketResponse) -> None:
    """Send the pod's bytes in small pieces, so that an answer comes in many messages."""
    while data := await reader.read(1000):
        await socket.send_bytes(BYTES + data)
    await socket.close()


def _certificate(folder: Path) -> ssl.SSLContext:
    """Return a certificate; an API server without a CA for kubelets accepts any."""
    leaf, context = trustme.CA().issue_cert(LOOPBACK), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pem = folder / "kubelet.pem"
    leaf.private_key_and_cert_chain_pem.write_to_path(str(pem))
    context.load_cert_chain(pem)
    return context


@contextmanager
def _serving(handler: Handler, context: ssl.SSLContext) -> Iterator[int]:
    ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]] = Future()

    async def serve() -> None:
        app, stop = web.Application(), asyncio.Event()
        app.router.add_get("/portForward/{namespace}/{pod}", handler)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, 0, ssl_context=context).start()
        ready.set_result((asyncio.get_running_loop(), stop, runner.addresses[0][1]))
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    loop, stop, port = ready.result(60)
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)

"""Runs apps on their listeners, with limits; for example the verbs on loopback, and health and metrics on another one.

SIGTERM or SIGINT (or the caller's event) stops the listeners one after the other, in the caller's order: requests that
have arrived get ``graceful_seconds``, those still arriving are cut. Callers put the verbs first and health behind them,
so that the stop can be observed. This module knows sockets and signals; it must not know what is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import uvicorn
from starlette.requests import Request

from extender.http.asgi import App
from extender.http.bodies import BodyLimit, Refuse
from extender.http.handshakes import Handshakes
from extender.http.limits import Limits
from extender.http.protocol import LimitedProtocol, limited
from extender.http.servertls import Guard

BACKLOG = 1024
LOOK_TICKS = 5  # uvicorn ticks every 0.1 s; after this many ticks it looks for clients that do not read their answers


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One app with the address and limits of its listener.

    ``port``: 0 takes any free one. ``refuse``: makes the answer to a body that is too long. ``tls``: the TLS context of
    the connections, None for plain HTTP; with it ``guard`` decides which clients may call.
    """

    app: App
    host: str
    port: int
    limits: Limits = Limits()  # noqa: RUF009 - the default is frozen, so sharing it is safe
    refuse: Refuse | None = None
    tls: ssl.SSLContext | None = None
    guard: Guard | None = None


class AddressError(OSError):
    """The process cannot listen on an address; the text says why."""

    def __init__(self, host: str, port: int, why: OSError) -> None:
        taken = why.errno == errno.EADDRINUSE
        super().__init__(f"port {port} of {host} {'is used by another process' if taken else f'cannot be used: {why}'}")
        self.port = port


OnReady = Callable[[list[tuple[str, int]]], None]


async def serve(endpoints: list[Endpoint], on_ready: OnReady | None = None, stop: asyncio.Event | None = None) -> None:
    """Serve all endpoints until ``stop`` is set, by a signal or by the caller; they stop one after the other, in order.

    ``on_ready``: is called with the (host, port) of each endpoint, in order, once all accept connections. Raises
    AddressError where an address cannot be used; nothing is served then. Apps are started and stopped by their ASGI
    lifespan, where they have one.
    """
    stop = stop or asyncio.Event()
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(listen(e.host, e.port)) for e in endpoints]
        servers = [_server(e) for e in endpoints]
        running = [asyncio.create_task(s.serve([sock])) for s, sock in zip(servers, sockets, strict=True)]
        try:
            with stop_on_signals(stop):
                await _until_started(servers, running)
                if on_ready:
                    on_ready([sock.getsockname()[:2] for sock in sockets])
                await _until_stop(stop, running)
        finally:
            await _end(servers, running)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, IPv4 or IPv6. Raises AddressError where the address cannot be used.

    Connections inherit TCP_NODELAY from this socket; without it an answer that is sent in two writes waits 40 ms for an
    acknowledgement. asyncio sets it only on sockets made with an explicit IPPROTO_TCP, which these are not.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise AddressError(host, port, error) from None
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


async def disconnected(request: Request) -> None:
    """Return once the client of ``request``, whose body was read, has disconnected.

    The barrier waits for this beside the outcome of a bind. It also returns when the answer was sent, so that a caller
    cancels it or ignores its result then. Only one task may await it.
    """
    while (await request.receive())["type"] != "http.disconnect":
        pass


@contextlib.contextmanager
def stop_on_signals(stop: asyncio.Event) -> Iterator[None]:
    """Set ``stop`` on SIGTERM and SIGINT; do nothing outside the main thread, where no signal can be handled."""
    loop = asyncio.get_running_loop()
    taken = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(RuntimeError, ValueError):
            loop.add_signal_handler(number, stop.set)
            taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handling, since several run in one process, and with a limit on
    handshakes.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on the given sockets, with a limit on TLS handshakes.

        uvicorn alone would let any number of clients stay in their handshake for 60 s.
        """
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise RuntimeError("a listener did not start; the log has the error")
        self.servers = [await self._listen(one) for one in sockets or ()]
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        """Disconnect clients that do not read their answers; uvicorn alone would wait for them without end."""
        if counter % LOOK_TICKS == 0:
            for connection in list(self.server_state.connections):
                cast(LimitedProtocol, connection).cut_if_unread()
        return await super().on_tick(counter)

    async def _listen(self, one: socket.socket) -> asyncio.Server:
        if (tls := self.config.ssl) is not None:
            most = cast(type[LimitedProtocol], self.config.http_protocol_class).limits.connections
            return cast(asyncio.Server, Handshakes(one, self._protocol, tls, most))
        return await asyncio.get_running_loop().create_server(self._protocol, sock=one, backlog=BACKLOG)

    def _protocol(self) -> asyncio.Protocol:
        make = cast(Any, self.config.http_protocol_class)
        made: asyncio.Protocol = make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        return made


def _server(endpoint: Endpoint) -> _Server:
    limits = endpoint.limits
    config = uvicorn.Config(
        cast(Any, BodyLimit(endpoint.app, limits.body_bytes, endpoint.refuse)),
        http=limited(limits, endpoint.guard),
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=cast(int, limits.keep_alive_seconds),  # uvicorn's type is int, but it accepts any number
        timeout_graceful_shutdown=cast(int, limits.graceful_seconds),
    )
    config.load()
    config.ssl = endpoint.tls
    return _Server(config)


async def _until_started(servers: list[_Server], running: list[asyncio.Task[None]]) -> None:
    while not all(server.started for server in servers):
        _raise_ended(running)
        await asyncio.sleep(0.01)


async def _until_stop(stop: asyncio.Event, running: list[asyncio.Task[None]]) -> None:
    """Wait until ``stop`` is set; raise the error of a listener that ends before, because that is a fault."""
    waiting = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([waiting, *running], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    _raise_ended(running)


def _raise_ended(running: list[asyncio.Task[None]]) -> None:
    for task in running:
        if task.done():
            task.result()
            raise RuntimeError("a listener ended by itself, so the service stops; the log has the error")


async def _end(servers: list[_Server], running: list[asyncio.Task[None]]) -> None:
    for server, task in zip(servers, running, strict=True):
        server.should_exit = True
        await asyncio.wait([task])

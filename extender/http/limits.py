"""Limits of one connection and one request, which stock uvicorn lacks (measured: it waits for ever and reads 256 MiB).

`LimitedProtocol` gives a request's head and body an absolute time each, so that trickling bytes does not help, and
bounds heads, pipelined requests and connections. `BodyLimit` bounds the body by the bytes that arrive, whatever the
head says, and how many large ones are in memory.
`HeldBinds` keeps a share of the connections free for filter, since each bind held at the barrier is one.
This room knows bytes, seconds and connections; it must not know the verbs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from extender.http.onewrite import OneWrite
from extender.http.tls import Guard

_log = logging.getLogger(__name__)
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
LARGE_BODY: Final = 256 * 1024  # bytes; filter's body with 5,000 node names is half of it
LARGE_AT_ONCE: Final = 8
PIPELINED: Final = 8  # requests that may wait behind another on their connection; Go sends none

Refuse = Callable[[str], tuple[int, bytes]]
"""Path of a request whose body is too long -> status and JSON body of the answer."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one listener; times in seconds."""

    body_bytes: int = 3 * 1024 * 1024  # the API server's own MaxRequestBodyBytes
    header_bytes: int = 64 * 1024  # of all that is not body: head, chunk sizes, trailers
    header_seconds: float = 5.0
    body_seconds: float = 5.0
    connections: int = 2048
    reserved_connections: int = 64
    keep_alive_seconds: float = 120.0  # Go's client gives an idle connection up after 90
    graceful_seconds: float = 5.0


def of_probes(limits: Limits) -> Limits:
    """Limits of the listener that the whole pod network reaches: few connections, and no body to speak of."""
    return replace(limits, body_bytes=1024, header_bytes=16 * 1024, connections=64, reserved_connections=1)


def of_reports(limits: Limits) -> Limits:
    """Limits of the listener for reports of training code: short bodies, from every training pod."""
    return replace(of_probes(limits), connections=512)


def of_people(limits: Limits) -> Limits:
    """Limits of the listener for people: few connections, and bodies no longer than a job's manifest."""
    return replace(of_probes(limits), body_bytes=min(limits.body_bytes, 1024 * 1024), connections=256)


class TooManyRequestsError(Exception):
    """A connection sends requests faster than it takes answers."""


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with deadlines for head and body, and bounds on heads and connections; see `limited`."""

    limits: ClassVar[Limits]
    guards: ClassVar[tuple[Guard, ...]] = ()
    _deadline: asyncio.TimerHandle | None = None
    _asked = False  # a request's head has arrived on this connection
    _head_bytes = 0  # of the request that is arriving, whatever is not body
    _waiting_since = 0.0  # idle, or for the rest of a request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or turn it away when there are too many and every other one has a whole request."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections and not self._close_the_longest_waiting():
            self._turn_away(503, "too many connections")
            return
        certificate = transport.get_extra_info("peercert") or {} if self.guards else {}
        if why := next(filter(None, (guard(certificate) for guard in self.guards)), ""):
            _log.warning("a caller was refused: %s", why, extra={"peer": str(self.client)})
            self.app = forbidden
        # Go dials ahead: a connection without a byte is idle, not slow, and gets the time of an idle one.
        self._waiting_since = self.loop.time()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline with the connection."""
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Start the head's time with the first byte after an idle stretch."""
        if self.transport.is_closing():
            return
        if self._deadline is None and self.idle:
            self._arm(self.limits.header_seconds)
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > self.limits.header_bytes:
            self._end(431, "the request's head is too long")

    def on_headers_complete(self) -> None:
        """Raise TooManyRequestsError, which the parser makes a 400, where requests pile up behind one another."""
        super().on_headers_complete()
        if self.scope["method"] != "HEAD":
            self.cycle.transport = cast(asyncio.Transport, OneWrite(self.transport))
        if len(self.pipeline) > PIPELINED:
            raise TooManyRequestsError

    def on_body(self, body: bytes) -> None:
        """Take what is body off the count."""
        self._head_bytes = max(0, self._head_bytes - len(body))
        super().on_body(body)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Start the body's time when the app starts to read it (a pipelined request waits for its turn)."""
        self._asked = True
        super()._start_asgi_task(cycle, app)
        self._disarm()
        if cycle.more_body:
            self._arm(self.limits.body_seconds)

    def on_message_complete(self) -> None:
        """Stop the clock: the whole request is here."""
        self._head_bytes = 0
        super().on_message_complete()
        if not self.pipeline:
            self._disarm()

    def on_response_complete(self) -> None:
        """Note when the idle time began."""
        self._waiting_since = self.loop.time()
        super().on_response_complete()

    def shutdown(self) -> None:
        """Let a request that is here be answered, and cut one that is still arriving: it may never."""
        if not self.idle and self.cycle.more_body:
            self.transport.close()
        super().shutdown()

    @property
    def idle(self) -> bool:
        """Tell whether no request is being answered."""
        return not self._asked or self.cycle.response_complete

    @property
    def evictable(self) -> bool:
        """Tell whether the connection only waits for a request or for the rest of one; a whole one is answered."""
        return (self.idle or self.cycle.more_body) and not self.transport.is_closing()

    def _close_the_longest_waiting(self) -> bool:
        """Make room for this connection; False where all others have a whole request.

        So those who stall, however many, keep nobody out who does not: neither kube-scheduler nor a probe.
        """
        others = cast(Iterable[LimitedProtocol], self.connections)
        waiting = [other for other in others if other is not self and other.evictable]
        if not waiting:
            return False
        min(waiting, key=lambda other: other._waiting_since).transport.close()
        return True

    def _turn_away(self, status: int, why: str) -> None:
        """Answer without the app and close; what has arrived is dropped."""
        head = STATUS_LINE[status] + b"content-type: text/plain\r\nconnection: close\r\n"
        self.transport.write(head + b"content-length: %d\r\n\r\n%s" % (len(why), why.encode()))
        self.transport.close()

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._waiting_since = self.loop.time()
        self._deadline = self.loop.call_later(seconds, self._too_late)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        self._end(408, "the request took too long to arrive")

    def _end(self, status: int, why: str) -> None:
        """End the connection, with a word where no answer has begun."""
        if self.transport.is_closing():
            return
        if self.idle or not self.cycle.response_started:
            self._turn_away(status, why)
        else:
            self.transport.abort()


def limited(limits: Limits, guard: Guard | None = None) -> type[LimitedProtocol]:
    """Return the protocol class for a listener with these limits.

    ``guard`` is given the certificate of each TLS peer, and says why it may not call (`tls.only`).
    """
    guards = () if guard is None else (guard,)
    return type("LimitedProtocol", (LimitedProtocol,), {"limits": limits, "guards": guards})


async def forbidden(_scope: Scope, _receive: Receive, send: Send) -> None:
    """The app of those who may not call."""
    await _answer(send, 403, b'{"error":"this caller is not allowed"}')


class BodyLimit:
    """ASGI middleware: hands the app the whole body at once, or answers for it when the body is too long.

    The body is gathered here and not in the app, where frameworks turn an exception out of `receive` into a 500.
    ``refuse`` forms the answer by path: kube-scheduler reads a reason only out of a 200 with ``Error``. Without it the
    answer is 413. A client that is still sending may see a reset before it reads the answer.
    At most `LARGE_AT_ONCE` bodies above `LARGE_BODY` are in memory: the next is not read on until one is answered, and
    runs into its deadline if that takes too long.
    """

    def __init__(self, app: App, limit: int, refuse: Refuse | None = None) -> None:
        """Allow ``limit`` bytes."""
        self._app = app
        self._limit = limit
        self._refuse = refuse or self._too_large
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if _declared(scope) > self._limit:
            await _answer(send, *self._refuse(scope["path"]))
            return
        async with contextlib.AsyncExitStack() as held:
            body = await self._gather(receive, held)
            if body is None:
                await _answer(send, *self._refuse(scope["path"]))
            elif isinstance(body, bytes):
                await self._app(scope, _replay(body, receive), send)

    async def _gather(self, receive: Receive, held: contextlib.AsyncExitStack) -> bytes | bool | None:
        """Return the body, None when it is too long, False when the client left; a large one enters ``held``."""
        parts: list[bytes] = []
        length, is_large = 0, False
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return False
            parts.append(message.get("body", b""))
            length += len(parts[-1])
            if length > self._limit:
                return None
            if length > LARGE_BODY and not is_large:
                is_large = True
                await held.enter_async_context(self._large)
            if not message.get("more_body", False):
                return b"".join(parts)

    def _too_large(self, _path: str) -> tuple[int, bytes]:
        return 413, b'{"error":"the body is longer than %d bytes"}' % self._limit


class HeldBinds:
    """Counts connections that the barrier holds, at most ``connections - reserved``."""

    def __init__(self, limits: Limits) -> None:
        """Start with none."""
        self.limit = max(1, limits.connections - limits.reserved_connections)
        self.held = 0

    def enter(self) -> bool:
        """Take a place if there is one; whoever got True must `leave`."""
        if self.held >= self.limit:
            return False
        self.held += 1
        return True

    def leave(self) -> None:
        """Give the place back."""
        self.held -= 1


def _declared(scope: Scope) -> int:
    """Return Content-Length, 0 where it is absent; the HTTP parser has refused what is no number."""
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body once and then waits for the client's leaving."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed


async def _answer(send: Send, status: int, body: bytes) -> None:
    """Answer in one go and close, since the rest of the body is not read."""
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

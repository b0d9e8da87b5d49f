"""Limits what one connection may do; uvicorn alone has no such limits, and was measured to wait without end.

`LimitedProtocol` gives a request's head and body a fixed time each, which does not grow while a client sends byte by
byte. It limits the length of heads, pipelined requests and connections. A client that does not read its answer is
disconnected, one that reads slowly is not; but if too many connections are open, both are. This module knows bytes,
seconds and connections; it must not know the verbs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import Iterable
from typing import Any, ClassVar, Final, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from extender.http.asgi import Receive, Scope, Send, answer
from extender.http.limits import Limits
from extender.http.onewrite import OneWrite
from extender.http.servertls import Guard

_log = logging.getLogger(__name__)
# at most this many requests wait behind another one on the same connection; Go's client pipelines none
PIPELINED: Final = 8


class TooManyRequestsError(Exception):
    """A connection sends requests faster than it reads answers."""


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with deadlines for head and body, and limits on heads and connections; see `limited`."""

    limits: ClassVar[Limits]
    guards: ClassVar[tuple[Guard, ...]] = ()
    _deadline: asyncio.TimerHandle | None = None
    _asked = False  # _asked tells whether a request's head has arrived on this connection.
    _head_bytes = 0  # _head_bytes counts the bytes of the arriving request that are not body.
    # _waiting_since is the loop's time since when the connection is idle, or waits for the rest of a request or for its
    # client to read.
    _waiting_since = 0.0
    # _taken is the result of the function `_taken()` at the last check; it is None if there was nothing for the client
    # to read.
    _taken: tuple[int, int] | None = None
    _taken_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection. If too many connections are open, disconnect another one that waits for its client; if
        no connection waits for its client, refuse the new one.
        """
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections and not self._cut_the_longest_waiting():
            self._turn_away(503, f"all {self.limits.connections} connections of this port are in use; try again later")
            return
        certificate = transport.get_extra_info("peercert") or {} if self.guards else {}
        if why := next(filter(None, (guard(certificate) for guard in self.guards)), ""):
            _log.warning("a client's connection was refused: %s", why, extra={"peer": str(self.client)})
            self.app = forbidden
        # Go opens connections in advance. A connection on which nothing was sent is therefore idle, not slow, and may
        # stay open for ``keep_alive_seconds``.
        self._waiting_since = self.loop.time()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline, because the connection has ended."""
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived; the first byte after an idle period starts the time allowed for the head."""
        if self.transport.is_closing():
            return
        if self._deadline is None and self.idle:
            self._arm(self.limits.header_seconds)
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > self.limits.header_bytes:
            self._end(431, f"the head of the request is longer than the allowed {self.limits.header_bytes} bytes")

    def on_headers_complete(self) -> None:
        """Have the answer's head and body sent in one write.

        Raises TooManyRequestsError, which the parser turns into a 400, where too many requests are pipelined.
        """
        super().on_headers_complete()
        answered = OneWrite(self.transport, has_body=self.scope["method"] != "HEAD")
        self.cycle.transport = cast(asyncio.Transport, answered)
        if len(self.pipeline) > PIPELINED:
            raise TooManyRequestsError

    def on_body(self, body: bytes) -> None:
        """Subtract the body's bytes from the count of the head's bytes, to which `data_received` has added them."""
        self._head_bytes = max(0, self._head_bytes - len(body))
        super().on_body(body)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Start the app, and with it the time allowed for the body (a pipelined request waits for its turn first)."""
        self._asked = True
        super()._start_asgi_task(cycle, app)
        self._disarm()
        if cycle.more_body:
            self._arm(self.limits.body_seconds)

    def on_message_complete(self) -> None:
        """Cancel the deadline, because the whole request has arrived."""
        self._head_bytes = 0
        super().on_message_complete()
        if not self.pipeline:
            self._disarm()

    def on_response_complete(self) -> None:
        """Record that the connection is idle from now on."""
        self._waiting_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Record that an answer waits from now on for its client to read."""
        self._waiting_since = self.loop.time()
        super().pause_writing()

    def cut_if_unread(self) -> None:
        """Disconnect a client that has read nothing of its answer for ``answer_seconds``.

        The method must be called regularly, since no callback tells when a client reads, or when a close waits for it
        to read.
        """
        taken = _taken(self.transport) if self.unread else None
        if taken is None or taken != self._taken:
            self._taken, self._taken_at = taken, self.loop.time()
        elif self.loop.time() - self._taken_at >= self.limits.answer_seconds:
            self.transport.abort()

    def shutdown(self) -> None:
        """End the connection when the server stops.

        A request that has arrived is still answered. One that is still arriving is cut, because it may never end.
        """
        if not self.idle and self.cycle.more_body:
            self.transport.close()
        super().shutdown()

    @property
    def idle(self) -> bool:
        """Tell whether the connection has no request that is being answered."""
        return not self._asked or self.cycle.response_complete

    @property
    def unread(self) -> bool:
        """Tell whether the connection waits only for its client to read, either the answer or the last bytes before the
        connection closes.
        """
        return self.flow.write_paused or self.transport.is_closing()

    @property
    def evictable(self) -> bool:
        """Tell whether the connection only waits for its client: to send a request or the rest of one, or to read the
        answer.
        """
        return self.idle or self.cycle.more_body or self.unread

    def _cut_the_longest_waiting(self) -> bool:
        """Disconnect the client that has kept its connection waiting longest; return False where there is none.

        Clients that stall, however many, therefore never keep out kube-scheduler or a probe. Connections whose request
        is being answered are left alone.
        """
        others = cast(Iterable[LimitedProtocol], self.connections)
        waiting = [other for other in others if other is not self and other.evictable]
        if not waiting:
            return False
        longest = min(waiting, key=lambda other: other._waiting_since)
        # abort() ends the connection at once; close() would wait for a client that does not read
        longest.transport.abort()
        self.connections.discard(longest)  # the connection is removed at once, so that the next call picks another one
        return True

    def _turn_away(self, status: int, why: str) -> None:
        """Answer with the status without calling the app, and close; what has arrived is dropped."""
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
        allowed = f"{self.limits.header_seconds:g} s for its head, {self.limits.body_seconds:g} s for its body"
        self._end(408, f"the request did not arrive in time; allowed: {allowed}")

    def _end(self, status: int, why: str) -> None:
        """End the connection, with an error answer unless another answer has begun."""
        if self.transport.is_closing():
            return
        if self.idle or not self.cycle.response_started:
            self._turn_away(status, why)
        else:
            self.transport.abort()


def _taken(transport: asyncio.Transport) -> tuple[int, int]:
    """Return numbers that change with every byte that the client reads.

    The first number counts the bytes that the client has acknowledged (tcpi_bytes_acked); it is 0 where the kernel does
    not report them. The second is the rest of our write buffer. The second number alone is not enough: the kernel's own
    buffer holds megabytes and takes more only in large steps, so that a slow reader would seem to read nothing.
    """
    acknowledged = 0
    # The errors are raised where the kernel has no such field, or where the socket is closed already.
    with contextlib.suppress(AttributeError, OSError, struct.error):
        info = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128)
        (acknowledged,) = struct.unpack_from("=Q", info, 120)
    return acknowledged, transport.get_write_buffer_size()


def limited(limits: Limits, guard: Guard | None = None) -> type[LimitedProtocol]:
    """Return the protocol class for a listener with these limits.

    ``guard``: tells for a TLS client's certificate whether that client may call (`servertls.only_peers`).
    """
    guards = () if guard is None else (guard,)
    return type("LimitedProtocol", (LimitedProtocol,), {"limits": limits, "guards": guards})


async def forbidden(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer 403; this is the app for callers that the guard refuses."""
    await answer(send, 403, b'{"error":"this caller is not allowed"}')

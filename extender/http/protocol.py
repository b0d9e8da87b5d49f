"""Limits one connection, which uvicorn alone does not (measured: it waits for ever).

`LimitedProtocol` gives a request's head and body an absolute time each, so that sending byte by byte does not extend
it, and limits heads, pipelined requests and connections. A client that does not read its answer is disconnected, one
that reads slowly is not; but both are disconnected where connections run short. This module knows bytes, seconds and
connections; it must not know the verbs.
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
from extender.http.tls import Guard

_log = logging.getLogger(__name__)
PIPELINED: Final = 8  # requests that may wait behind another on their connection; Go's client pipelines none


class TooManyRequestsError(Exception):
    """A connection sends requests faster than it reads answers."""


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with deadlines for head and body, and limits on heads and connections; see `limited`."""

    limits: ClassVar[Limits]
    guards: ClassVar[tuple[Guard, ...]] = ()
    _deadline: asyncio.TimerHandle | None = None
    _asked = False  # a request's head has arrived on this connection
    _head_bytes = 0  # bytes of the arriving request that are not body
    _waiting_since = 0.0  # since when the connection waits: idle, for the rest of a request, or for its client to read
    _taken: tuple[int, int] | None = None  # `_taken` at the last check; None where the client has no answer to read
    _taken_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, or refuse it when there are too many and every other one is being answered."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections and not self._cut_the_longest_waiting():
            self._turn_away(503, "too many connections")
            return
        certificate = transport.get_extra_info("peercert") or {} if self.guards else {}
        if why := next(filter(None, (guard(certificate) for guard in self.guards)), ""):
            _log.warning("a client was refused, because %s", why, extra={"peer": str(self.client)})
            self.app = forbidden
        # Go opens connections in advance: one without a byte is idle, not slow, and gets the time of an idle one.
        self._waiting_since = self.loop.time()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline."""
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Start the time of the head with the first byte after an idle period."""
        if self.transport.is_closing():
            return
        if self._deadline is None and self.idle:
            self._arm(self.limits.header_seconds)
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > self.limits.header_bytes:
            self._end(431, "the head of the request is too long")

    def on_headers_complete(self) -> None:
        """Raise TooManyRequestsError, which the parser turns into a 400, where too many requests are pipelined."""
        super().on_headers_complete()
        answered = OneWrite(self.transport, has_body=self.scope["method"] != "HEAD")
        self.cycle.transport = cast(asyncio.Transport, answered)
        if len(self.pipeline) > PIPELINED:
            raise TooManyRequestsError

    def on_body(self, body: bytes) -> None:
        """Subtract the body from the count of the head's bytes."""
        self._head_bytes = max(0, self._head_bytes - len(body))
        super().on_body(body)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Start the time of the body when the app starts to read it (a pipelined request waits for its turn)."""
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
        """Record when the idle time began."""
        self._waiting_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Record since when an answer waits for its client."""
        self._waiting_since = self.loop.time()
        super().pause_writing()

    def cut_if_unread(self) -> None:
        """Disconnect a client that has read nothing of its answer for ``answer_seconds``.

        This is called regularly, since no callback reports a close that waits, or bytes that are read.
        """
        taken = _taken(self.transport) if self.unread else None
        if taken is None or taken != self._taken:
            self._taken, self._taken_at = taken, self.loop.time()
        elif self.loop.time() - self._taken_at >= self.limits.answer_seconds:
            self.transport.abort()

    def shutdown(self) -> None:
        """Let a request that has arrived be answered, and disconnect one that is still arriving, because it may never
        end.
        """
        if not self.idle and self.cycle.more_body:
            self.transport.close()
        super().shutdown()

    @property
    def idle(self) -> bool:
        """Tell whether no request is being answered."""
        return not self._asked or self.cycle.response_complete

    @property
    def unread(self) -> bool:
        """Tell whether the connection only waits for its client to read; a close waits for that as well."""
        return self.flow.write_paused or self.transport.is_closing()

    @property
    def evictable(self) -> bool:
        """Tell whether the connection only waits for its client: to send, to end its request, or to read."""
        return self.idle or self.cycle.more_body or self.unread

    def _cut_the_longest_waiting(self) -> bool:
        """Disconnect the client that has been waited for longest; return False where all others are being answered.

        So clients that stall, however many, never keep out kube-scheduler or a probe.
        """
        others = cast(Iterable[LimitedProtocol], self.connections)
        waiting = [other for other in others if other is not self and other.evictable]
        if not waiting:
            return False
        longest = min(waiting, key=lambda other: other._waiting_since)
        longest.transport.abort()  # close() would wait for a client that does not read
        self.connections.discard(longest)  # removed here, so that the next call picks another
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
        """End the connection, with an error answer where no answer has begun."""
        if self.transport.is_closing():
            return
        if self.idle or not self.cycle.response_started:
            self._turn_away(status, why)
        else:
            self.transport.abort()


def _taken(transport: asyncio.Transport) -> tuple[int, int]:
    """Return numbers that change with every byte that the client reads.

    The kernel's own buffer holds megabytes and is refilled only in large steps, so that a slow reader would seem to
    stand still. So the bytes that the client has acknowledged count (tcpi_bytes_acked); where the kernel does not
    report them, only the rest of the write buffer counts.
    """
    acknowledged = 0
    # the kernel has no such field, or the socket is closed already
    with contextlib.suppress(AttributeError, OSError, struct.error):
        told = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128)
        (acknowledged,) = struct.unpack_from("=Q", told, 120)
    return acknowledged, transport.get_write_buffer_size()


def limited(limits: Limits, guard: Guard | None = None) -> type[LimitedProtocol]:
    """Return the protocol class for a listener with these limits.

    ``guard`` gets the certificate of each TLS peer, and returns why it may not call (`tls.only`).
    """
    guards = () if guard is None else (guard,)
    return type("LimitedProtocol", (LimitedProtocol,), {"limits": limits, "guards": guards})


async def forbidden(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer 403: the app of callers that the guard refuses."""
    await answer(send, 403, b'{"error":"this caller is not allowed"}')

"""Limits of one connection, which stock uvicorn lacks (measured: it waits for ever).

`LimitedProtocol` gives a request's head and body an absolute time each, so that trickling bytes does not help, and
bounds heads, pipelined requests and connections. This room knows bytes, seconds and connections; it must not know the
verbs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, ClassVar, Final, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from extender.http.asgi import Receive, Scope, Send, answer
from extender.http.limits import Limits
from extender.http.onewrite import OneWrite
from extender.http.tls import Guard

_log = logging.getLogger(__name__)
PIPELINED: Final = 8  # requests that may wait behind another on their connection; Go sends none


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
    await answer(send, 403, b'{"error":"this caller is not allowed"}')

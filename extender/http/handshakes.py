"""Takes TLS connections and counts them from their first moment.

asyncio tells a protocol of its connection once the handshake is done, and never of one that failed: the limit on
connections does not see those that say nothing. So the handshakes are bounded here.
This room knows sockets and TLS; it must not know what is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from extender.http.tls import HANDSHAKE_SECONDS

MOST: Final = 128  # handshakes at once on one listener; each takes milliseconds of a client that means it
SHUTDOWN_SECONDS: Final = 1.0
AGAIN_SECONDS: Final = 0.5
_log = logging.getLogger(__name__)


class Handshakes:
    """Accepts from ``listener`` until closed. Of more than ``most`` handshakes at once the oldest gives way."""

    def __init__(
        self, listener: socket.socket, make: Callable[[], asyncio.Protocol], tls: ssl.SSLContext, most: int
    ) -> None:
        """Begin; needs a running loop. ``make``: a protocol for each connection whose handshake is done."""
        listener.setblocking(False)
        self._listener, self._make, self._tls, self._most = listener, make, tls, min(most, MOST)
        self._running: dict[asyncio.Task[None], None] = {}  # oldest first
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Accept no more, and end the handshakes; connections that are open stay."""
        for task in (self._accepting, *self._running):
            task.cancel()

    async def wait_closed(self) -> None:
        """Return when that is done."""
        await asyncio.gather(self._accepting, *self._running, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except ConnectionError:
                continue  # the client has left already
            except OSError as error:
                _log.warning("no connection can be accepted: %s", error)
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if len(self._running) >= self._most:
                oldest = next(iter(self._running))
                del self._running[oldest]
                oldest.cancel()
            task = loop.create_task(self._shake(connection))
            self._running[task] = None
            task.add_done_callback(lambda ended: self._running.pop(ended, None))
            await asyncio.sleep(0)  # it begins, so that it has the socket and closes it

    async def _shake(self, connection: socket.socket) -> None:
        """Hand the connection to a protocol of its own; one whose handshake fails is closed without a word."""
        with contextlib.suppress(OSError):  # of TLS, of time, or the client's leaving
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make, connection, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )  # fmt: skip

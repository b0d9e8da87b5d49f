"""Accepts TLS connections and counts them from the start of their handshake.

asyncio reports a connection to a protocol when the handshake is done, and never one that failed, so that the limit on
connections does not count connections that stay silent. So the number of handshakes is limited here. This module knows
sockets and TLS; it must not know what is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from extender.http.servertls import HANDSHAKE_SECONDS

MOST: Final = 128  # handshakes at once on one listener; each takes an honest client milliseconds
SHUTDOWN_SECONDS: Final = 1.0
AGAIN_SECONDS: Final = 0.5
_log = logging.getLogger(__name__)


class Handshakes:
    """Accepts from ``listener`` until closed. When ``most`` handshakes run, a new one ends the oldest."""

    def __init__(
        self, listener: socket.socket, make: Callable[[], asyncio.Protocol], tls: ssl.SSLContext, most: int
    ) -> None:
        """Start accepting; needs a running loop. ``make`` returns a protocol for a connection whose handshake is
        done.
        """
        listener.setblocking(False)
        self._listener, self._make, self._tls, self._most = listener, make, tls, min(most, MOST)
        self._running: dict[asyncio.Task[None], None] = {}  # oldest first
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Stop accepting and end the handshakes; open connections stay."""
        for task in (self._accepting, *self._running):
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until accepting and all handshakes have ended."""
        await asyncio.gather(self._accepting, *self._running, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except ConnectionError:
                continue  # the client has left already
            except OSError as error:
                _log.warning("no connection can be accepted now; it is tried again: %s", error)
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if len(self._running) >= self._most:
                oldest = next(iter(self._running))
                del self._running[oldest]
                oldest.cancel()
            task = loop.create_task(self._handshake(connection))
            self._running[task] = None
            task.add_done_callback(lambda ended: self._running.pop(ended, None))
            await asyncio.sleep(0)  # the task starts now, so that it owns the socket and closes it

    async def _handshake(self, connection: socket.socket) -> None:
        """Give the connection to its own protocol; a connection whose handshake fails is closed without an answer."""
        with contextlib.suppress(OSError):  # the handshake failed or timed out, or the client left
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make, connection, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )  # fmt: skip

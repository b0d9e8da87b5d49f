"""Accepts TLS connections and counts them from the start of their handshake.

asyncio reports a connection to its protocol only when the handshake is done, so the limit on connections does not count
clients that connect and stay silent. The number of handshakes is therefore limited here. This module knows sockets and
TLS; it must not know what is served.
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

# at most this many handshakes run at a time on one listener; a well-behaved client needs milliseconds for one
MOST: Final = 128
SHUTDOWN_SECONDS: Final = 1.0
AGAIN_SECONDS: Final = 0.5
_log = logging.getLogger(__name__)


class Handshakes:
    """Accepts connections from ``listener`` until closed.

    When ``most`` handshakes are under way, a new connection ends the oldest of them.
    """

    def __init__(
        self, listener: socket.socket, make: Callable[[], asyncio.Protocol], tls: ssl.SSLContext, most: int
    ) -> None:
        """Start to accept connections, in the running event loop.

        ``make`` returns a new protocol, for a connection whose handshake is done.
        """
        listener.setblocking(False)
        self._listener, self._make, self._tls, self._most = listener, make, tls, min(most, MOST)
        # _running has the tasks of the handshakes under way, oldest first
        self._running: dict[asyncio.Task[None], None] = {}
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
                continue  # the error means that the client has already disconnected
            except OSError as error:
                _log.warning("the listener cannot accept connections now and tries again in a moment: %s", error)
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if len(self._running) >= self._most:
                oldest = next(iter(self._running))
                del self._running[oldest]
                oldest.cancel()
            task = loop.create_task(self._handshake(connection))
            self._running[task] = None
            task.add_done_callback(lambda ended: self._running.pop(ended, None))
            # the pause lets the new task start, so that it owns the socket and closes it if it is cancelled
            await asyncio.sleep(0)

    async def _handshake(self, connection: socket.socket) -> None:
        """Make the TLS handshake, then give the connection to a new protocol; close it if the handshake fails."""
        # the error means that the handshake failed or timed out, or that the client left
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make, connection, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )  # fmt: skip

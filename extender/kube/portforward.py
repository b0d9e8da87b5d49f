"""Makes one HTTP exchange over a forwarded port, as ``kubectl port-forward`` would for one request.

The API server checks the right and passes the connection to the kubelet. Each WebSocket message begins with its channel
number: channel 0 carries the bytes of the connection, channel 1 the error where there is no connection. The first two
bytes on each channel are the port. This module knows the messages; `userapi` opens the WebSocket.
"""

from __future__ import annotations

from typing import Final

import aiohttp
import httptools

from extender.kube.api import ClusterError

PROTOCOL: Final = "v4.channel.k8s.io"
BYTES, FAULT = 0, 1
PORT_BYTES: Final = 2


class _Answer:
    """Parses one HTTP answer as it arrives."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.whole = False
        self._parser = httptools.HttpResponseParser(self)

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.whole = True

    @property
    def status(self) -> int:
        return self._parser.get_status_code()

    def feed(self, data: bytes) -> None:
        """Parse what has arrived. Raises ClusterError where it is not HTTP."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ClusterError(
                0, "Unreadable", f"the port does not answer in HTTP ({error}); name the port of an HTTP server"
            ) from None


async def exchange(socket: aiohttp.ClientWebSocketResponse, request: bytes) -> tuple[int, bytes]:
    """Send the request and return the answer's status and body. Raises ClusterError where no whole answer comes."""
    await socket.send_bytes(bytes([BYTES]) + request)
    answer, ports = _Answer(), {BYTES: PORT_BYTES, FAULT: PORT_BYTES}
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        skipped = min(ports.get(channel, 0), len(data))
        ports[channel] = ports.get(channel, 0) - skipped
        if not (data := data[skipped:]):
            continue
        if channel == FAULT:
            raise ClusterError(0, "Unreachable", data.decode(errors="replace")[:300])
        answer.feed(data)
        if answer.whole:
            return answer.status, bytes(answer.body)
    raise ClusterError(0, "Unreachable", "the pod closed the connection before its answer was whole")

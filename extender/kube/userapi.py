"""Calls the API server as kubectl does, with the rights of the person at the command line.

A request to a pod goes over a forwarded port, as with ``kubectl port-forward``: the API server checks the right and
passes the connection to the kubelet. Each WebSocket message begins with its channel number: channel 0 carries the bytes
of the connection, channel 1 the error where there is no connection. The first two bytes on each channel are the port.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import httptools

from extender.clock import Clock
from extender.kube import responses
from extender.kube.api import PODS, ClusterError, Ref
from extender.kube.client import NO_HEADERS, KubeApi
from extender.kube.connection.kubectloptions import KubectlOptions
from extender.kube.connection.resolve import resolve

SECONDS: Final = 10.0  # One call may take this many seconds.
NO_LIMIT: Final = 1e6  # This many seconds (eleven days) stand for no limit, which --request-timeout 0 asks for.
PROTOCOL: Final = "v4.channel.k8s.io"
BYTES, FAULT = 0, 1
PORT_BYTES: Final = 2


class _Answer:
    """Parses one HTTP answer as it arrives; httptools calls the methods ``on_...``."""

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
        """Parse the next bytes of the answer. Raises ClusterError where they are not HTTP."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ClusterError(
                0, "Unreadable", f"the port does not answer in HTTP ({error}); name the port of an HTTP server"
            ) from None


async def exchange_over(socket: aiohttp.ClientWebSocketResponse, request: bytes) -> tuple[int, bytes]:
    """Send an HTTP request over a forwarded port, and return the answer's status and body.

    ``socket``: the WebSocket of the port-forward. ``request``: the bytes of the request. Raises ClusterError where no
    whole answer comes.
    """
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


class UserApi(KubeApi):
    """A `KubeApi` with the calls that only the command line makes: arbitrary requests, and requests to pods' ports."""

    async def exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any = None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> tuple[int, bytes]:
        """Send one request to the API server and return the answer's HTTP status and body, even of a failure.

        Raises ClusterError where no answer came.
        """
        async with self._in_time():
            response = await self._open(method, path, query, body, more=headers)
            return response.status, await self._body(response)

    async def ask_pod(self, pod: Ref, port: int, request: bytes, seconds: float) -> tuple[int, bytes]:
        """Send one HTTP/1.1 request to a port of the pod's loopback, and return the answer's status and body.

        ``seconds``: the time limit. Raises ClusterError: with status 403 where the right is lacking (get and create
        pods/portforward), with 0 where no answer came.
        """
        path = responses.url_path(PODS, pod.namespace, pod.name, "portforward")
        try:
            async with self._clock.timeout(seconds):
                socket = await self._transport.socket(path, {"ports": str(port)}, PROTOCOL)
                async with socket:
                    return await exchange_over(socket, request)
        except TimeoutError:
            raise ClusterError(0, "Timeout", f"the pod did not answer within {seconds:g} s") from None
        except aiohttp.WSServerHandshakeError as error:  # aiohttp does not expose the body of a refusal
            why = HTTPStatus(error.status).phrase if error.status in list(HTTPStatus) else str(error.status)
            raise ClusterError(error.status, why.replace(" ", ""), f"port {port} of pod {pod.name}: {why}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ClusterError(0, "Unreachable", responses.error_text(error)) from error


def connect(given: KubectlOptions) -> UserApi:
    """Return a client for the API server and credentials that kubectl would use with these options. Raises
    ClusterError.
    """
    connection = resolve(given)
    seconds = SECONDS if connection.timeout is None else connection.timeout or NO_LIMIT
    return UserApi(connection, deadline=seconds, clock=Clock(), chance=random.Random())


def proxy_path(service: Ref, port: str, path: str) -> str:
    """Return the URL path under which the API server proxies a request to a Service over TLS.

    ``port``: the number or name of the Service's port. ``path``: the path of the request at the Service.
    """
    named = Ref(service.resource, service.namespace, f"https:{service.name}:{port}")
    return f"{responses.url_path(named.resource, named.namespace, named.name, 'proxy')}{path}"

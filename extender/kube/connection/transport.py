"""Sends requests over a `Connection` and its proxy, with credentials that are renewed as they change.

aiohttp repeats a GET, PUT or DELETE once, by itself, on a kept connection that turns out to be closed; POST and PATCH
are never repeated.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import aiohttp
import msgspec

from extender.clock import Clock
from extender.kube.api import ClusterError
from extender.kube.connection import plugin
from extender.kube.connection.clienttls import tls_context
from extender.kube.connection.socks import SocksConnector
from extender.kube.connection.target import Connection, header_value, token_in

# Token and certificate files are read again after this many seconds; the kubelet renews a token minutes before it
# expires.
AGAIN_SECONDS: Final = 50.0
# A connection without a request is kept for this many seconds, so that the bindings of the next gang need no new TLS
# handshakes. kube-apiserver closes such a connection after 90 s.
KEPT_SECONDS: Final = 60.0
BUFFER: Final = 2**21  # the read buffer has this many bytes, because one event of a watch may be long
NO_LIMIT: Final = aiohttp.ClientTimeout(total=None)
AGENT: Final = "kohort"


class Transport:
    """Sends requests to one API server as one user. Each request first calls `sign_in`, so that nothing is sent without
    credentials.
    """

    def __init__(self, connection: Connection, clock: Clock, connections: int) -> None:
        """Read the certificates, and open no connection yet. Raises ClusterError where the certificates cannot be used.

        ``connections``: how many connections may be open at the same time.
        """
        self._connection = connection
        self._clock = clock
        self._limit = connections
        self._credential = plugin.Credential()
        self._runs = asyncio.Lock()
        self._signed = connection.plugin is None
        self._token = connection.token
        self._read_at = clock.monotonic()
        self._stamps = self._stamps_now()
        self._tls = self._tls_now()
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def sign_in(self) -> None:
        """Fetch the credentials, or renew those that have changed, expired or been refused. Raises ClusterError."""
        self._read_again()
        if (program := self._connection.plugin) is None or not self._is_due():
            return
        async with self._runs:
            if not self._is_due():
                return  # another request has renewed the credentials while this request waited
            found = await plugin.run(program)
            shown, self._credential, self._signed = self._credential.certificate, found, True
            if found.certificate != shown:
                self._tls = self._tls_now()

    async def open(
        self, method: str, path: str, query: Mapping[str, str], body: Any, headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        """Send one request and return the response as soon as its status and headers have arrived.

        This method sets no time limit. Raises ClusterError where the credentials cannot be fetched.
        """
        await self.sign_in()
        data = None if body is None else msgspec.json.encode(body)
        response = await self._opened().request(
            method, self._url(path, query), headers=self._headers(headers), data=data, timeout=NO_LIMIT,
            **self._way(),
        )  # fmt: skip
        if response.status == 401:
            # The server has refused the credentials. If they came from a plugin, the next request runs it again.
            self._signed = self._connection.plugin is None
        return response

    async def socket(self, path: str, query: Mapping[str, str], protocol: str) -> aiohttp.ClientWebSocketResponse:
        """Open a WebSocket with the subprotocol ``protocol``; the caller must close it.

        Raises ClusterError where the credentials cannot be fetched.
        """
        await self.sign_in()
        opened: aiohttp.ClientWebSocketResponse = await self._opened().ws_connect(
            self._url(path, query), headers=self._headers({}), protocols=(protocol,), **self._way()
        )
        return opened

    # -- The methods below make the parts that every request has. ------------------------------------

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            proxy = urlsplit(self._connection.proxy)
            connector = (
                SocksConnector(proxy, limit=self._limit, keepalive_timeout=KEPT_SECONDS)
                if proxy.scheme.startswith("socks")
                else aiohttp.TCPConnector(limit=self._limit, keepalive_timeout=KEPT_SECONDS)
            )
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), read_bufsize=BUFFER, trust_env=False
            )
        return self._session

    def _url(self, path: str, query: Mapping[str, str]) -> str:
        asked = f"?{urlencode(query)}" if query else ""
        return f"{self._connection.server}{path}{asked}"

    def _way(self) -> dict[str, Any]:
        proxy, name = self._connection.proxy, self._connection.server_name
        way: dict[str, Any] = {"ssl": self._tls} if self._tls is not None else {}
        if proxy and not proxy.startswith("socks"):
            way["proxy"] = proxy
        if name:
            way["server_hostname"] = name
        return way

    def _headers(self, more: Mapping[str, str]) -> list[tuple[str, str]]:
        shown = self._authorization()
        ours = [("User-Agent", AGENT), *([("Authorization", shown)] if shown else ()), *self._connection.impersonate]
        return [*ours, *more.items()]

    def _authorization(self) -> str:
        ours = self._connection
        if token := self._token or self._credential.token:
            return f"Bearer {token}"
        if ours.username:
            return f"Basic {base64.b64encode(f'{ours.username}:{ours.password}'.encode()).decode()}"
        return ""

    # -- The methods below renew credentials. --------------------------------------------------------

    def _is_due(self) -> bool:
        expires = self._credential.expires
        return not self._signed or (expires is not None and self._clock.now() > expires)

    def _read_again(self) -> None:
        """Read the token and certificate files again every `AGAIN_SECONDS`; an unreadable file keeps its last value."""
        if self._clock.monotonic() - self._read_at < AGAIN_SECONDS:
            return
        self._read_at = self._clock.monotonic()
        with suppress(ClusterError):  # the token's file may be half written, or missing for a moment
            self._token = header_value("token", token_in("user", self._connection.token_file)) or self._token
        if (stamps := self._stamps_now()) != self._stamps:
            with suppress(ClusterError):  # a certificate's file may be half written; it is read again next time
                self._tls, self._stamps = self._tls_now(), stamps

    def _stamps_now(self) -> tuple[int, ...]:
        files = (self._connection.authority, self._connection.certificate, self._connection.key)
        return tuple(_stamp(one.file) for one in files)

    def _tls_now(self) -> ssl.SSLContext | None:
        """Return a TLS context with the present certificates; None for plain HTTP.

        aiohttp opens new connections for a new context, so a connection with an old certificate is not used again.
        """
        ours, theirs = self._connection, self._credential
        if not ours.is_tls:
            return None
        certificate, key = (ours.certificate, ours.key) if ours.certificate else (theirs.certificate, theirs.key)
        return tls_context(ours, certificate, key)


def _stamp(file: str) -> int:
    try:
        return Path(file).stat().st_mtime_ns if file else 0
    except OSError:
        return 0

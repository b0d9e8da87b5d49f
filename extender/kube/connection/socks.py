"""Connects through a SOCKS5 proxy (RFC 1928, 1929), which aiohttp does not support.

The proxy gets the server's name and resolves it, for socks5:// as for socks5h://, as in Go.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final
from urllib.parse import SplitResult, unquote

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from extender.kube.connection.addresses import PORTS, address_of

VERSION: Final = 5
NO_LOGIN, LOGIN, NONE_OF_THEM = 0, 2, 0xFF
CONNECT: Final = 1
IPV4, NAME, IPV6 = 1, 3, 4
REFUSALS: Final = {
    1: "general failure", 2: "not allowed by its rules", 3: "network unreachable", 4: "host unreachable",
    5: "connection refused", 6: "TTL expired", 7: "CONNECT is not supported", 8: "address type is not supported",
}  # fmt: skip


class SocksConnector(aiohttp.TCPConnector):
    """Opens connections through one SOCKS5 proxy."""

    def __init__(self, proxy: SplitResult, *, limit: int, keepalive_timeout: float) -> None:
        super().__init__(limit=limit, keepalive_timeout=keepalive_timeout, resolver=_Unresolved())
        self._through = proxy

    async def _wrap_create_connection(
        self, *args: Any, addr_infos: Any, req: aiohttp.ClientRequest, timeout: Any, client_error: Any = None,
        **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Open a socket to the server through the proxy.

        This overrides a private method of aiohttp, which has no public hook for opening sockets.
        """
        loop, sock = asyncio.get_running_loop(), None
        try:
            sock = await _connected(self._through)
            await _handshake(sock, self._through, req.url.host or "", req.url.port or 0)
            return await loop.create_connection(*args, **kwargs, sock=sock)
        except BaseException as error:
            if sock is not None:
                sock.close()
            if isinstance(error, OSError):
                raise aiohttp.ClientConnectorError(req.connection_key, error) from error
            raise


class _Unresolved(AbstractResolver):
    """A resolver for aiohttp that returns each host name without a DNS look-up, because the proxy resolves names."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host="0.0.0.0", port=port, family=socket.AF_INET, proto=0, flags=0)]

    async def close(self) -> None: ...


async def _connected(proxy: SplitResult) -> socket.socket:
    loop, last = asyncio.get_running_loop(), OSError("its name has no address")
    port = proxy.port or PORTS[proxy.scheme]
    for family, kind, protocol, _, address in await loop.getaddrinfo(proxy.hostname, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            last = OSError(error.errno, f"the SOCKS5 proxy at {proxy.hostname}:{port}: {error.strerror or error}")
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise last


async def _handshake(sock: socket.socket, proxy: SplitResult, host: str, port: int) -> None:
    """Log in to the SOCKS5 proxy over ``sock``, and have it connect to the server at ``host`` and ``port``.

    Raises OSError where the proxy refuses.
    """
    loop = asyncio.get_running_loop()
    methods = (NO_LOGIN, LOGIN) if proxy.username else (NO_LOGIN,)
    await loop.sock_sendall(sock, bytes([VERSION, len(methods), *methods]))
    _, method = await _receive(sock, 2)
    if method == LOGIN and proxy.username:
        user, password = (unquote(one or "").encode() for one in (proxy.username, proxy.password))
        await loop.sock_sendall(sock, bytes([1, len(user), *user, len(password), *password]))
        if (await _receive(sock, 2))[1] != 0:
            raise OSError("the SOCKS5 proxy refuses the name and password in its URL; correct them")
    elif method != NO_LOGIN:
        raise OSError("the SOCKS5 proxy requires a name and a password; add them to its URL")
    await loop.sock_sendall(sock, bytes([VERSION, CONNECT, 0]) + _written(host) + port.to_bytes(2, "big"))
    _, code, _, kind = await _receive(sock, 4)
    if code != 0:
        raise OSError(f"the SOCKS5 proxy does not connect to {host}:{port}: {REFUSALS.get(code, f'code {code}')}")
    length = {IPV4: 4, IPV6: 16}.get(kind)
    await _receive(sock, ((await _receive(sock, 1))[0] if length is None else length) + 2)


def _written(host: str) -> bytes:
    if (address := address_of(host)) is not None:
        return bytes([IPV4 if address.version == 4 else IPV6]) + address.packed
    name = host.encode("idna")
    return bytes([NAME, len(name)]) + name


async def _receive(sock: socket.socket, count: int) -> bytes:
    loop, got = asyncio.get_running_loop(), b""
    while len(got) < count:
        if not (more := await loop.sock_recv(sock, count - len(got))):
            raise OSError("the SOCKS5 proxy closed the connection")
        got += more
    return got

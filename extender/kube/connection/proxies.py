"""Chooses the proxy that the environment names for a URL, by Go's rule, which kubectl follows.

Python's own rule differs: it knows no CIDR in NO_PROXY, sends requests for loopback to the proxy, and ignores a proxy
without a scheme.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

PORTS: Final = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def proxy_for(url: str, environ: Mapping[str, str]) -> str:
    """Return the URL of the proxy for requests to ``url``; empty for none."""
    server = urlsplit(url)
    named = _first(environ, f"{server.scheme.upper()}_PROXY", f"{server.scheme}_proxy")
    if not named or not _is_proxied(server, _first(environ, "NO_PROXY", "no_proxy")):
        return ""
    return named if _host_of(named) else f"http://{named}" if _host_of(f"http://{named}") else ""


def _host_of(url: str) -> str:
    """Return the host of a URL; empty also where the URL has no scheme or is malformed."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # a malformed port is only noticed when it is read
        return parts.hostname or "" if parts.scheme else ""
    except ValueError:
        return ""


def _first(environ: Mapping[str, str], *names: str) -> str:
    return next((value for name in names if (value := environ.get(name, ""))), "")


def _is_proxied(server: SplitResult, excepted: str) -> bool:
    host, address = server.hostname or "", address_of(server.hostname or "")
    if host == "localhost" or (address is not None and address.is_loopback):
        return False
    port = server.port or PORTS[server.scheme]
    return not any(_excepts(one.strip().lower(), host, address, port) for one in excepted.split(","))


def address_of(text: str) -> Address | None:
    """Return a host as an IP address, or None where it is a name."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _excepts(entry: str, host: str, address: Address | None, port: int) -> bool:
    """Tell whether an entry of NO_PROXY covers that host and port."""
    if entry == "*":
        return True
    if (network := _network_of(entry)) is not None:
        return address is not None and address in network
    name, only = _split(entry)
    if not name or (only and only != str(port)):
        return False
    if (other := address_of(name)) is not None:
        return other == address
    if address is not None:
        return False
    name = name.removeprefix("*") if name.startswith("*.") else name
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _network_of(entry: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    if not entry.rpartition("/")[2].isdigit():
        return None
    try:
        return ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return None


def _split(entry: str) -> tuple[str, str]:
    """Return host and port of an entry of NO_PROXY; the port is empty where the entry has none.

    An IPv6 address with a port is in brackets.
    """
    if entry.startswith("["):
        host, closed, port = entry[1:].partition("]:")
        return (host, port) if closed else ("", "")  # Go ignores brackets without a port
    host, _, port = entry.partition(":")
    return (host, port) if entry.count(":") == 1 else (entry, "")

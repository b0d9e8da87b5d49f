"""Reads the addresses of servers and proxies, and finds the proxy that the environment names for a server.

An address that is not allowed raises a ClusterError that names its field. The proxy is found by Go's rule, which
kubectl follows. Python's own rule differs: it knows no CIDR in NO_PROXY, sends requests for loopback to the proxy, and
ignores a proxy without a scheme.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

from extender.kube.connection.target import unusable

# A proxy in a kubeconfig may have these schemes; a proxy in an environment variable may also have socks5h.
IN_FILES: Final = ("http", "https", "socks5")
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
        _ = parts.port  # reading the port raises ValueError if it is malformed
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
    """Return a host, given as text, as an IP address; None where the host is a name."""
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
    name, only = _split_entry(entry)
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


def _split_entry(entry: str) -> tuple[str, str]:
    """Return host and port of an entry of NO_PROXY; the port is empty where the entry has none.

    An IPv6 address that has a port must be in brackets.
    """
    if entry.startswith("["):
        host, closed, port = entry[1:].partition("]:")
        return (host, port) if closed else ("", "")  # Go ignores an address in brackets that has no port
    host, _, port = entry.partition(":")
    return (host, port) if entry.count(":") == 1 else (entry, "")


def server_url(text: str) -> str:
    """Return the server's URL, without a slash at the end. An address without a scheme gets http://, as in kubectl.

    Raises ClusterError.
    """
    parts = _split("server", text)
    if not (parts.scheme and parts.netloc):
        parts = _split("server", f"http://{text}")
        if parts.path not in ("", "/"):
            raise unusable(f"server: {text!r} is not allowed; allowed: a URL such as https://HOST:PORT")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise unusable(f"server: {text!r} is not allowed; allowed: https://HOST:PORT or http://HOST:PORT")
    if "@" in parts.netloc:
        raise unusable("server: a name and a password in the URL are not allowed; put them into the user's entry")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def proxy_url(cluster: str, text: str) -> str:
    """Return ``text``, the proxy-url of a cluster in a kubeconfig (empty for none), after checking its form.

    ``cluster``: the cluster's name, for messages. Raises ClusterError.
    """
    where = f"cluster {cluster!r}: proxy-url"
    parts = _split(where, text)
    if text and (parts.scheme not in IN_FILES or not parts.hostname):
        allowed = ", ".join(f"{scheme}://HOST:PORT" for scheme in IN_FILES)
        raise unusable(f"{where}: {text!r} is not allowed; allowed: {allowed}")
    return text


def check_proxy(text: str) -> str:
    """Return ``text``, the URL of the proxy that the environment names (empty for none).

    Raises ClusterError where the URL's scheme is not supported.
    """
    if text and urlsplit(text).scheme not in PORTS:
        allowed = ", ".join(f"{scheme}://HOST:PORT" for scheme in PORTS)
        raise unusable(
            f"HTTPS_PROXY or HTTP_PROXY: {text!r} is not supported; allowed: {allowed}; correct it, or name the server "
            "in NO_PROXY"
        )
    return text


def _split(field: str, text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port  # reading the port raises ValueError if it is malformed
    except ValueError as error:
        raise unusable(f"{field}: {text!r} is not a URL ({error}); correct it") from None
    return parts

"""Checks of hosts and URLs in settings."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Tell whether the host is a loopback address, which only processes on the same machine or in the same pod reach.

    ``host``: an IP address, in brackets or not, or a name; the only such name is localhost.
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def http_url(text: str) -> str:
    """Return the URL without a slash at the end. Raises ValueError, which says what is allowed, if it has no host."""
    url = urlsplit(text)  # raises ValueError for a malformed IPv6 address or port
    if url.scheme not in ("http", "https") or not url.hostname or url.port == 0:
        raise ValueError("an http:// or https:// URL with a host")
    return text.rstrip("/")

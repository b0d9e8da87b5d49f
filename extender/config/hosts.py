"""Checks the hosts and URLs that settings name."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Tell whether the host is a loopback address, which only processes on the same machine or in the same pod reach.

    ``host``: an IP address, in brackets or not, or a name; of all names only ``localhost`` counts as loopback.
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def http_url(text: str) -> str:
    """Return the URL ``text`` without a slash at the end.

    Raises ValueError, which says what is allowed, if the text is no http or https URL with a host.
    """
    url = urlsplit(text)  # urlsplit raises ValueError for a malformed IPv6 address
    if url.scheme not in ("http", "https") or not url.hostname or url.port == 0:
        raise ValueError("an http:// or https:// URL with a host")
    return text.rstrip("/")

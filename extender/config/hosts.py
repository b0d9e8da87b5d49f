"""Tells whether a host is a loopback address."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Tell whether the host is a loopback address, which only processes on the same machine or in the same pod reach.

    ``host``: an IP address, in brackets or not, or a name; the only such name is localhost.
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"

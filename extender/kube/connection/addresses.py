"""Reads the addresses of servers and proxies. An address that is not allowed raises a ClusterError that names its
field.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, urlsplit

from extender.kube.connection.proxies import PORTS
from extender.kube.connection.target import unusable

# schemes of a proxy in a kubeconfig; an environment variable may also use socks5h
IN_FILES: Final = ("http", "https", "socks5")


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
    """Return ``text``, the proxy that the environment names (empty for none). Raises ClusterError where its scheme is
    not supported.
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
        _ = parts.port  # the port is only parsed, and checked, when it is read
    except ValueError as error:
        raise unusable(f"{field}: {text!r} is not a URL ({error}); correct it") from None
    return parts

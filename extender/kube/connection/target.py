"""Defines `Connection`: the API server, the route to it and our credentials, as `resolve` finds and `transport` uses
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from extender.kube.api import ClusterError

CREDENTIALS: Final = "Credentials"
NO_CLUSTER: Final = "NoCluster"


def unusable(text: str) -> ClusterError:
    """Return the error for files and options with which no connection is possible; ``text`` also says what to do."""
    return ClusterError(0, CREDENTIALS, text)


class OptionError(ClusterError):
    """An option names something that the kubeconfig does not have."""

    def __init__(self, text: str) -> None:
        super().__init__(0, CREDENTIALS, text)


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """An exec plugin of a kubeconfig, a program that prints credentials. ``user``: whose plugin it is, for messages.

    ``cluster``: what the program learns about the cluster; None for nothing.
    """

    user: str
    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    api_version: str
    install_hint: str
    interactive: str  # Never, IfAvailable or Always
    cluster: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Pem:
    """A certificate or key: the path of its file, which is read again when it changes, or the contents of such a
    file.
    """

    file: str = ""
    data: bytes = field(default=b"", repr=False)

    def __bool__(self) -> bool:
        return bool(self.file or self.data)


NO_PEM: Final = Pem()


@dataclass(frozen=True, slots=True)
class Connection:
    """An API server and our credentials for it.

    server: its URL, without a slash at the end. proxy: a URL; empty for none. authority: the certificate authority that
    must have signed its certificate; empty for the system's. server_name: the name in its certificate, where that is
    not the host of the URL. token_file: read again every minute; it takes precedence over the token. impersonate:
    headers. timeout: seconds for one request, 0 for no limit, None where none is given.
    """

    server: str
    proxy: str = ""
    authority: Pem = NO_PEM
    insecure: bool = False
    server_name: str = ""
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    certificate: Pem = NO_PEM
    key: Pem = NO_PEM
    plugin: ExecPlugin | None = None
    impersonate: tuple[tuple[str, str], ...] = ()
    timeout: float | None = None

    @property
    def is_tls(self) -> bool:
        """Tell whether the server is reached by TLS; otherwise no credentials are sent."""
        return self.server.startswith("https://")

"""The answer to «which API server, on which way, as whom»: a value that `resolve` makes and `transport` uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from extender.kube.api import ClusterError

CREDENTIALS: Final = "Credentials"
NO_CLUSTER: Final = "NoCluster"


def unusable(text: str) -> ClusterError:
    """The error for files and options by which nobody can connect; ``text`` says what to do, too."""
    return ClusterError(0, CREDENTIALS, text)


class OptionError(ClusterError):
    """An option names something that the kubeconfig does not have."""

    def __init__(self, text: str) -> None:
        super().__init__(0, CREDENTIALS, text)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A program that prints credentials (`exec` in a kubeconfig). user: whose, for messages.

    cluster: what the program is told of the cluster; None: nothing.
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
    """A certificate or key: the path of its file, which is read anew when it changes, or what would stand there."""

    file: str = ""
    data: bytes = field(default=b"", repr=False)

    def __bool__(self) -> bool:
        return bool(self.file or self.data)


NO_PEM: Final = Pem()


@dataclass(frozen=True, slots=True)
class Connection:
    """An API server and who we are to it.

    server: its URL, without a slash at the end. proxy: a URL; empty: none. authority: by whom its certificate must be
    signed; empty: the system's. server_name: the name in its certificate, where that is not the host of the URL.
    token_file: read again every minute; it is stronger than the token. impersonate: headers. timeout: seconds for one
    request, 0 for no limit, None where nobody has said.
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
    plugin: Plugin | None = None
    impersonate: tuple[tuple[str, str], ...] = ()
    timeout: float | None = None

    @property
    def is_tls(self) -> bool:
        """Whether the server is asked by TLS; else no credentials are sent."""
        return self.server.startswith("https://")

"""Defines `Connection`: the API server, the route to it and our credentials; reads the tokens that stand in files.

`resolve` makes a `Connection`, and `transport` sends requests over it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from extender.kube.api import ClusterError

NOT_IN_A_HEADER: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
CREDENTIALS: Final = "Credentials"
NO_CLUSTER: Final = "NoCluster"


def unusable(text: str) -> ClusterError:
    """Return the error for files or options that make a connection impossible; ``text`` says why and what to do."""
    return ClusterError(0, CREDENTIALS, text)


class OptionError(ClusterError):
    """A command-line option is malformed, or names something that does not exist."""

    def __init__(self, text: str) -> None:
        super().__init__(0, CREDENTIALS, text)


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """An exec plugin of a kubeconfig, a program that prints credentials.

    ``user``: the user of the kubeconfig who has this plugin, for messages. ``cluster``: what the program is told about
    the cluster; None for nothing.
    """

    user: str
    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    api_version: str
    install_hint: str
    interactive: str  # whether the program may ask the user on the terminal: Never, IfAvailable or Always
    cluster: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Pem:
    """A certificate or key in PEM form: the path of its file, which is read again when it changes, or its contents."""

    file: str = ""
    data: bytes = field(default=b"", repr=False)

    def __bool__(self) -> bool:
        return bool(self.file or self.data)


NO_PEM: Final = Pem()


@dataclass(frozen=True, slots=True)
class Connection:
    """An API server and our credentials for it.

    server: the API server's URL, without a slash at the end. proxy: the proxy's URL, empty for none. authority: the
    certificate authority that must have signed the server's certificate, empty for the system's authorities. insecure:
    the server's certificate is not checked. server_name: the name in the server's certificate, where that is not the
    host of the URL. token_file: a file that is read again every minute, and whose token takes precedence over
    ``token``. plugin: the program to run for credentials, None for none. impersonate: headers that name the
    impersonated user. timeout: seconds for one request, 0 for no limit, None where none is given.
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
        """Tell whether the connection uses TLS; credentials are sent only then."""
        return self.server.startswith("https://")


def token_in(where: str, file: str) -> str:
    """Return the token in a file, empty where no file is named. ``where``: the user, for messages.

    Raises ClusterError where the file cannot be read or is empty.
    """
    if not file:
        return ""
    try:
        token = Path(file).read_bytes().decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = str(error.strerror).lower() if isinstance(error, OSError) else "it is not UTF-8 text"
        raise unusable(f"{where}: tokenFile: {file!r}: {why}; name a file that holds a token") from None
    if not token:
        raise unusable(f"{where}: tokenFile: {file!r} is empty; write the token into it")
    return token


def header_value(field: str, value: str) -> str:
    """Return ``value`` if it can stand in an HTTP header; otherwise raise ClusterError, which names ``field``."""
    if NOT_IN_A_HEADER.search(value):
        raise unusable(f"{field} contains a line break or another control character; remove it")
    return value

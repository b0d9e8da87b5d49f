"""Reads kubeconfigs as kubectl does: of several files, the first one that sets a value counts.

A file that does not exist is skipped; one that cannot be read, or is not a kubeconfig, is an error. Paths in a file are
relative to the file's own folder.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from extender.kube.connection.goyaml import plain
from extender.kube.connection.target import OptionError, unusable

PLUGIN_SETTINGS: Final = "client.authentication.k8s.io/exec"
OPTIONAL_MODE: Final = ("client.authentication.k8s.io/v1beta1", "client.authentication.k8s.io/v1alpha1")


class _Form(msgspec.Struct, rename="kebab", kw_only=True): ...


class PluginVariable(_Form):
    """An environment variable that is set for an exec plugin, the program that prints credentials."""

    name: str = ""
    value: str = ""


class PluginForm(_Form, rename="camel"):
    """An exec plugin: a program that prints credentials."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[PluginVariable, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""

    @property
    def mode(self) -> str:
        """Return whether the plugin may ask the user on the terminal: Never, IfAvailable or Always.

        API versions before v1 may leave the mode out, which means IfAvailable.
        """
        return self.interactive_mode or ("IfAvailable" if self.api_version in OPTIONAL_MODE else "")


class ProviderForm(_Form):
    """An auth provider: a way to get credentials that was built into kubectl."""

    name: str = ""


class User(_Form):
    """A user of a kubeconfig: its credentials, and whom it impersonates."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    as_user: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}
    username: str = ""
    password: str = ""
    auth_provider: ProviderForm | None = None
    exec: PluginForm | None = None


class Extension(_Form):
    """An entry of a cluster's `extensions`: settings for an exec plugin, or data of another tool."""

    name: str = ""
    extension: Any = None


class Cluster(_Form):
    """A cluster of a kubeconfig: its server and how to reach it."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[Extension, ...] = ()

    @property
    def plugin_settings(self) -> Any:
        """Return the settings that this cluster has for an exec plugin; None where it has none."""
        return next((one.extension for one in self.extensions if one.name == PLUGIN_SETTINGS), None)


class Context(_Form):
    """A context of a kubeconfig: cluster, user and namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Form):
    name: str = ""
    cluster: Cluster = msgspec.field(default_factory=Cluster)


class _NamedUser(_Form):
    name: str = ""
    user: User = msgspec.field(default_factory=User)


class _NamedContext(_Form):
    name: str = ""
    context: Context = msgspec.field(default_factory=Context)


class _File(_Form):
    kind: str = ""
    api_version: str = msgspec.field(default="", name="apiVersion")
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()


class Kubeconfig(msgspec.Struct, frozen=True):
    """The contents of all kubeconfig files, merged.

    ``looked``: the paths that were tried; ``current``: the name of the current context, empty for none.
    """

    looked: tuple[str, ...]
    current: str
    contexts: Mapping[str, Context]
    clusters: Mapping[str, Cluster]
    users: Mapping[str, User]


def load(kubeconfig: str, environ: Mapping[str, str]) -> Kubeconfig:
    """Read the file that --kubeconfig names, else those of KUBECONFIG, else the default one. Raises ClusterError."""
    if kubeconfig:
        return _merged((kubeconfig,), [_read(kubeconfig, by_option=True)])
    named = environ.get("KUBECONFIG", "")
    default = str(Path(environ.get("HOME", ""), ".kube", "config"))
    paths = tuple(dict.fromkeys(path for path in named.split(os.pathsep) if path)) if named else (default,)
    return _merged(paths, [_read(path) for path in paths])


def _merged(looked: tuple[str, ...], files: list[_File]) -> Kubeconfig:
    clusters: dict[str, Cluster] = {}
    users: dict[str, User] = {}
    contexts: dict[str, Context] = {}
    for file in reversed(files):
        clusters |= {one.name: one.cluster for one in file.clusters}
        users |= {one.name: one.user for one in file.users}
        contexts |= {one.name: one.context for one in file.contexts}
    current = next((file.current_context for file in files if file.current_context), "")
    return Kubeconfig(looked, current, contexts, clusters, users)


def _read(path: str, *, by_option: bool = False) -> _File:
    """Return the contents of one kubeconfig file, with the paths in it made absolute.

    A file that does not exist counts as an empty kubeconfig, unless a command-line option names it (``by_option``).
    Raises OptionError for a file that an option names, ClusterError for any other file.
    """
    try:
        text = Path(path).read_bytes()
    except FileNotFoundError:
        if not by_option:
            return _File()
        raise OptionError(
            f"kubeconfig {path!r}: no such file; name one that is there, or leave it out for KUBECONFIG"
        ) from None
    except OSError as error:
        raise _fault(path, str(error.strerror).lower(), by_option) from None
    try:
        file = _parsed(text)
        folder = os.path.abspath(os.path.dirname(path))  # noqa: PTH100, PTH120  (symbolic links in the path stay)
        return msgspec.structs.replace(
            file,
            clusters=tuple(_cluster_in(folder, one) for one in file.clusters),
            users=tuple(_user_in(folder, one) for one in file.users),
        )
    except ValueError as error:
        raise _fault(path, str(error), by_option) from None


def _fault(path: str, why: str, by_option: bool) -> Exception:
    text = f"kubeconfig {path!r}: {why}; correct the file, or name another one"
    return OptionError(text) if by_option else unusable(text)


# -- The code below parses the content of a kubeconfig file. -----------------------------------------

_Entry = TypeVar("_Entry", _NamedCluster, _NamedUser, _NamedContext)


def _parsed(text: bytes) -> _File:
    """Return the contents of a kubeconfig file. Raises ValueError where the text is no kubeconfig."""
    try:
        file = msgspec.convert(plain(text), _File)
    except msgspec.ValidationError as error:
        raise ValueError(f"the file is not a kubeconfig: {error}") from None
    if (file.kind or "Config", file.api_version or "v1") != ("Config", "v1"):
        found = f"kind {file.kind!r} with apiVersion {file.api_version!r}"
        raise ValueError(f"{found} is not allowed in a kubeconfig; allowed: kind Config with apiVersion v1")
    _check_names("clusters", file.clusters)
    _check_names("users", file.users)
    _check_names("contexts", file.contexts)
    return file


def _check_names(field: str, entries: tuple[_Entry, ...]) -> None:
    names = [one.name for one in entries]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{field}: {twice!r} is defined twice; keep one of them")


def _cluster_in(folder: str, named: _NamedCluster) -> _NamedCluster:
    found, where = named.cluster, f"cluster {named.name!r}"
    decoded(found.certificate_authority_data, f"{where}: certificate-authority-data")
    path = _absolute(folder, found.certificate_authority)
    return msgspec.structs.replace(named, cluster=msgspec.structs.replace(found, certificate_authority=path))


def _user_in(folder: str, named: _NamedUser) -> _NamedUser:
    found, where = named.user, f"user {named.name!r}"
    decoded(found.client_certificate_data, f"{where}: client-certificate-data")
    decoded(found.client_key_data, f"{where}: client-key-data")
    plugin = found.exec
    if plugin is not None and os.sep in plugin.command:  # a bare name is looked up on PATH
        plugin = msgspec.structs.replace(plugin, command=_absolute(folder, plugin.command))
    user = msgspec.structs.replace(
        found,
        client_certificate=_absolute(folder, found.client_certificate),
        client_key=_absolute(folder, found.client_key),
        token_file=_absolute(folder, found.token_file),
        exec=plugin,
    )
    return msgspec.structs.replace(named, user=user)


def _absolute(folder: str, path: str) -> str:
    if not path or os.path.isabs(path):  # noqa: PTH117
        return path
    return os.path.normpath(os.path.join(folder, path))  # noqa: PTH118


def decoded(text: str, field: str) -> bytes:
    """Return the bytes that ``text`` encodes in base64.

    Raises ValueError, whose message names the field and does not contain its secret value.
    """
    try:
        return base64.b64decode("".join(text.splitlines()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(
            f"{field} is not base64; give the file's content in base64, or its path in the field without -data"
        ) from None

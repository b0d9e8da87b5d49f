"""Reads the credentials of a user of the kubeconfig, and the user that it impersonates.

`check_user` and `check_cluster` check the entries of the kubeconfig as kubectl does before it connects to a server.

No request is sent anonymously where kubectl would not do so: a user without credentials, or with an unsupported kind of
credentials, raises an error that names the field.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from extender.kube.api import ClusterError
from extender.kube.connection.kubeconfig import Cluster, Context, PluginForm, User, decoded
from extender.kube.connection.target import NO_PEM, Connection, ExecPlugin, Pem, header_value, token_in, unusable

PLUGIN_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
PLUGIN_MODES: Final = ("Never", "IfAvailable", "Always")


def check_cluster(name: str, cluster: Cluster) -> None:
    """Raise ClusterError where a cluster's fields contradict one another or its certificate file cannot be read."""
    where = f"cluster {name!r}"
    if cluster.certificate_authority and cluster.certificate_authority_data:
        raise _both(where, "certificate-authority", "certificate-authority-data")
    _check_readable(where, "certificate-authority", cluster.certificate_authority)


def check_user(name: str, user: User) -> None:
    """Raise ClusterError where a user's fields contradict one another or are incomplete."""
    where = f"user {name!r}"
    if user.token and (user.username or user.password):
        raise _both(where, "token", "username or password")
    if user.client_certificate or user.client_certificate_data:
        _check_pair(where, "client-certificate", user.client_certificate, user.client_certificate_data)
        _check_pair(where, "client-key", user.client_key, user.client_key_data)
    if (user.as_uid or user.as_groups or user.as_user_extra) and not user.as_user:
        raise unusable(f"{where}: a group, a uid or an extra to impersonate is given without a user; give `as` or --as")
    if user.exec is not None:
        if user.auth_provider is not None:
            raise _both(where, "exec", "auth-provider")
        _check_plugin(where, user.exec)


def _check_pair(where: str, field: str, file: str, data: str) -> None:
    if file and data:
        raise _both(where, field, f"{field}-data")
    if not (file or data):
        raise unusable(f"{where}: {field} is not given; a certificate and its key are used together, give both")
    _check_readable(where, field, file)


def _check_plugin(where: str, plugin: PluginForm) -> None:
    if not plugin.command:
        raise unusable(f"{where}: exec.command is not given; name the program")
    if not plugin.api_version:
        raise unusable(f"{where}: exec.apiVersion is not given; allowed: {', '.join(PLUGIN_VERSIONS)}")
    if not all(one.name for one in plugin.env):
        raise unusable(f"{where}: exec.env has an entry without a name; give it one")
    if (mode := plugin.mode) not in PLUGIN_MODES:
        raise unusable(f"{where}: exec.interactiveMode: {mode!r} is not allowed; allowed: {', '.join(PLUGIN_MODES)}")


def _check_readable(where: str, field: str, path: str) -> None:
    if not path:
        return
    try:
        Path(path).open("rb").close()
    except OSError as error:
        why = str(error.strerror).lower()
        raise unusable(f"{where}: {field}: {path!r}: {why}; name a file that can be read") from None


def _both(where: str, one: str, other: str) -> Exception:
    return unusable(f"{where}: {one} and {other} are both given; keep one of them")


# A header's name may have these characters, besides letters, digits and `-._~`.
IN_A_HEADER_NAME: Final = "!#$&'*+^`|"


def with_credentials(bare: Connection, context: Context, cluster: Cluster, user: User) -> Connection:
    """Return ``bare``, a connection to a TLS server, with the user's credentials and the cluster's TLS settings.

    Raises ClusterError where the user has no usable credentials, or where fields contradict one another.
    """
    where = f"user {context.user!r}"
    if user.auth_provider is not None:
        raise unusable(
            f"{where}: auth-provider {user.auth_provider.name!r} is not supported; give the user an exec plugin, a "
            "token or a client-certificate"
        )
    password = bool(user.username or user.password)
    if password and user.token_file:
        raise unusable(f"{where}: tokenFile and username or password are both given; keep one of them")
    token = token_of(where, user)
    certificate = _pem(user.client_certificate, user.client_certificate_data)
    if not (token or user.username or certificate or user.exec):
        raise unusable(
            f"{where} has no credentials (kubectl would ask for a name and a password); give the user a token, a "
            "client-certificate or an exec plugin"
        )
    if cluster.insecure_skip_tls_verify and (cluster.certificate_authority or cluster.certificate_authority_data):
        raise unusable(
            f"cluster {context.cluster!r}: insecure-skip-tls-verify and a certificate-authority are both given; keep "
            "one of them"
        )
    # As in kubectl, an exec plugin is not run for a user who has other credentials.
    is_asked = not (token or user.username or certificate)
    return replace(
        bare,
        authority=_pem(cluster.certificate_authority, cluster.certificate_authority_data),
        insecure=cluster.insecure_skip_tls_verify,
        server_name=cluster.tls_server_name,
        token=header_value(f"{where}: token", token),
        token_file=user.token_file,
        username=user.username,
        password=user.password,
        certificate=certificate,
        key=_pem(user.client_key, user.client_key_data) if certificate else NO_PEM,
        plugin=_plugin(context.user, user.exec, cluster) if user.exec and is_asked else None,
    )


def impersonation_headers(name: str, user: User) -> tuple[tuple[str, str], ...]:
    """Return the headers that make the server treat a request as coming from the user that ``user`` impersonates.

    ``name``: the name of ``user``, for messages. Raises ClusterError.
    """
    if not user.as_user:
        return ()
    headers = [("Impersonate-User", user.as_user)]
    headers += [("Impersonate-Uid", user.as_uid)] if user.as_uid else []
    headers += [("Impersonate-Group", group) for group in user.as_groups]
    for key, values in user.as_user_extra.items():
        header = f"Impersonate-Extra-{quote(key, safe=IN_A_HEADER_NAME)}"
        headers += [(header, value) for value in values]
    return tuple((header, header_value(f"user {name!r}: {header}", value)) for header, value in headers)


def token_of(where: str, user: User) -> str:
    """Return the token in the user's tokenFile, or the user's `token` where no tokenFile is named or it is unreadable.

    ``where``: the user, for messages. Raises ClusterError where the tokenFile is unreadable and there is no `token`.
    """
    try:
        return token_in(where, user.token_file) or user.token
    except ClusterError:
        if not user.token:
            raise
        return user.token


def _pem(file: str, data: str) -> Pem:
    return Pem(data=decoded(data, "")) if data else Pem(file)


def _plugin(user: str, plugin: PluginForm, cluster: Cluster) -> ExecPlugin:
    if plugin.api_version not in PLUGIN_VERSIONS:
        raise unusable(
            f"user {user!r}: exec.apiVersion: {plugin.api_version!r} is not allowed; allowed: "
            f"{', '.join(PLUGIN_VERSIONS)}"
        )
    return ExecPlugin(
        user=user,
        command=plugin.command,
        args=plugin.args,
        env={one.name: one.value for one in plugin.env},
        api_version=plugin.api_version,
        install_hint=plugin.install_hint,
        interactive=plugin.mode,
        cluster=_cluster_info(cluster) if plugin.provide_cluster_info else None,
    )


def _cluster_info(cluster: Cluster) -> dict[str, Any]:
    """Return the cluster information for an exec plugin, in the fields of client.authentication.k8s.io."""
    authority = cluster.certificate_authority_data
    if cluster.certificate_authority:
        authority = base64.b64encode(Path(cluster.certificate_authority).read_bytes()).decode()
    info = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": authority,
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
    }
    return {name: value for name, value in info.items() if value} | {"config": cluster.plugin_settings}

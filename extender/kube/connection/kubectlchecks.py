"""Makes the checks of a user and a cluster that kubectl makes before it connects to any server. Each raises
ClusterError.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from extender.kube.connection.kubeconfig import Cluster, PluginForm, User
from extender.kube.connection.target import unusable

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

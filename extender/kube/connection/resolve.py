"""Makes a `Connection` from options, environment and files by kubectl's rules; it sends nothing.

A kubeconfig takes precedence over the pod's service account. A process that runs in a pod without a kubeconfig uses the
pod's service account.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from extender.config.goduration import go_duration_seconds
from extender.kube.api import ClusterError
from extender.kube.connection.addresses import check_proxy, proxy_for, proxy_url, server_url
from extender.kube.connection.credentials import check_cluster, check_user, impersonation_headers, with_credentials
from extender.kube.connection.kubeconfig import Cluster, Context, Kubeconfig, User, load
from extender.kube.connection.kubectloptions import NOTHING, KubectlOptions
from extender.kube.connection.target import NO_CLUSTER, NO_PEM, Connection, OptionError, Pem, token_in, unusable

SERVER_VARIABLE: Final = "KUBERNETES_MASTER"
DEFAULT_SERVER: Final = "http://localhost:8080"
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def resolve(
    given: KubectlOptions = NOTHING, environ: Mapping[str, str] = os.environ, account: Path = ACCOUNT
) -> Connection:
    """Return the connection to the API server that kubectl would use with these options, with its credentials.

    ``account``: the folder of the pod's service account. Raises ClusterError.
    """
    config = load(given.kubeconfig, environ)
    context = _context(config, given)
    cluster, user, timeout = _cluster(config, context), _user(config, context, given), seconds_of(given.request_timeout)
    check_user(context.user, user)
    check_cluster(context.cluster, cluster)
    assumed = environ.get(SERVER_VARIABLE) or DEFAULT_SERVER
    changed = cluster.proxy_url or cluster.disable_compression or user.as_user or timeout
    if cluster.server in ("", assumed) and not changed and _is_in_pod(environ, account):
        return _of_pod(environ, account)
    if not cluster.server and not environ.get(SERVER_VARIABLE):
        raise ClusterError(0, NO_CLUSTER, _no_cluster(config, context))
    server = server_url(cluster.server or assumed)
    bare = Connection(
        server,
        proxy=proxy_url(context.cluster, cluster.proxy_url) or check_proxy(proxy_for(server, environ)),
        impersonate=impersonation_headers(context.user, user),
        timeout=timeout,
    )
    return with_credentials(bare, context, cluster, user) if bare.is_tls else bare


def namespace(given: KubectlOptions = NOTHING, environ: Mapping[str, str] = os.environ, account: Path = ACCOUNT) -> str:
    """Return the namespace of the chosen context, else that of the pod, else ``default``. Raises ClusterError."""
    named = _context(load(given.kubeconfig, environ), given).namespace
    if named or not _is_in_pod(environ, account):
        return named or "default"
    own = environ.get("POD_NAMESPACE", "")
    if not own and (account / "namespace").is_file():
        own = (account / "namespace").read_text().strip()
    return own or "default"


def check_options(given: KubectlOptions, environ: Mapping[str, str] = os.environ) -> None:
    """Raise OptionError where an option is malformed or names something that does not exist, ClusterError where a
    kubeconfig is unreadable.
    """
    seconds_of(given.request_timeout)
    _extra_of(given)
    if given.kubeconfig or given.context or given.cluster or given.user:
        _context(load(given.kubeconfig, environ), given)


# -- The functions below choose the context, the cluster and the user. -------------------------------


def _context(config: Kubeconfig, given: KubectlOptions) -> Context:
    """Return the chosen context; where options name another cluster or user, these replace the context's own.

    Raises ClusterError.
    """
    for option, name, known in (
        ("--context", given.context, config.contexts),
        ("--cluster", given.cluster, config.clusters),
        ("--user", given.user, config.users),
    ):
        if name and name not in known:
            raise OptionError(f"{option}: {name!r} is not allowed; allowed: {_names(known)}")
    name = given.context or config.current
    if name and name not in config.contexts:
        raise unusable(
            f"the kubeconfig's current-context is {name!r}, which does not exist; allowed: {_names(config.contexts)}; "
            "correct it, or name one by --context"
        )
    found = config.contexts.get(name, Context())
    return Context(cluster=given.cluster or found.cluster, user=given.user or found.user, namespace=found.namespace)


def _names(known: Iterable[str]) -> str:
    return ", ".join(sorted(known)) or "none, the kubeconfig has none"


def _cluster(config: Kubeconfig, context: Context) -> Cluster:
    return config.clusters.get(context.cluster, Cluster())


def _user(config: Kubeconfig, context: Context, given: KubectlOptions) -> User:
    """Return the context's user from the kubeconfig, with the impersonation that the options ask for."""
    found = config.users.get(context.user, User())
    changes: dict[str, Any] = {
        "as_user": given.as_user,
        "as_uid": given.as_uid,
        "as_groups": given.as_group,
    }
    extra = {**found.as_user_extra, **_extra_of(given)}
    named = {name: value for name, value in changes.items() if value}
    return msgspec.structs.replace(found, **named, as_user_extra=extra)


def _extra_of(given: KubectlOptions) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for one in given.as_user_extra:
        key, equals, value = one.partition("=")
        if not equals:
            raise OptionError(f"--as-user-extra: {one!r} is not allowed; allowed: KEY=VALUE")
        extra[key] = (*extra.get(key, ()), value)
    return extra


def _no_cluster(config: Kubeconfig, context: Context) -> str:
    """Return the text that says why the kubeconfig and the options name no cluster to connect to."""
    looked = " or ".join(repr(path) for path in config.looked)
    if not any(Path(path).exists() for path in config.looked):
        return f"{looked}: no such file"
    if not context.cluster:
        return f"{looked}: no context is chosen"
    return f"{looked}: the context names the cluster {context.cluster!r}, which has no server"


# -- The functions below use the pod's service account. ----------------------------------------------


def _is_in_pod(environ: Mapping[str, str], account: Path) -> bool:
    named = all(environ.get(f"KUBERNETES_SERVICE_{part}") for part in ("HOST", "PORT"))
    return named and (account / "token").is_file()


def _of_pod(environ: Mapping[str, str], account: Path) -> Connection:
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
    server = server_url(f"https://{f'[{host}]' if ':' in host else host}:{port}")
    proxy = check_proxy(proxy_for(server, environ))
    authority = Pem(str(account / "ca.crt")) if (account / "ca.crt").is_file() else NO_PEM
    file = str(account / "token")
    token = token_in("the account of this pod", file)
    return Connection(server, proxy=proxy, authority=authority, token=token, token_file=file)


def seconds_of(text: str) -> float | None:
    """Return the limit for one request in seconds: None where no option is given, 0 for no limit. Raises
    OptionError.
    """
    if not text:
        return None
    if re.fullmatch(r"\+?\d+", text, re.ASCII):
        return float(text)
    if (seconds := go_duration_seconds(text)) is not None:
        return max(0.0, seconds)
    raise OptionError(f"--request-timeout: {text!r} is not allowed; allowed: seconds, or a duration such as 30s or 2m")

"""Where the API server is, who we are to it, and the proxy on the way."""

from __future__ import annotations

import os
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_incluster_config, load_kube_config

from extender.kube import answers
from extender.kube.api import ClusterError


async def load_configuration(kubeconfig: str = "", context: str = "") -> Configuration:
    """Read credentials: the given file, else the pod's own service account, else KUBECONFIG or the default file.

    ``context``: of that file; empty: its current one.

    The service account's token is read again before it expires; an `exec` plugin's is taken once. Raises ClusterError.
    """
    configuration = Configuration()
    try:
        if not (kubeconfig or context) and "KUBERNETES_SERVICE_HOST" in os.environ:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            await load_kube_config(  # type: ignore[no-untyped-call]
                kubeconfig or None, context or None, client_configuration=configuration, persist_config=False
            )
    except Exception as error:  # the loader stumbles over a malformed file with whatever comes
        raise ClusterError(0, "Credentials", answers.text(error)) from error
    return configuration


def settle_proxy(configuration: Configuration) -> None:
    """Look for a proxy once: aiohttp would ask the environment and ~/.netrc before each request, in a thread."""
    server = urlsplit(configuration.host)
    if not configuration.proxy and server.hostname and not proxy_bypass(server.hostname):
        found = getproxies().get(server.scheme, "")
        configuration.proxy = found if found.startswith("http://") else None  # aiohttp speaks to no others
    configuration.client_session_kwargs = {"trust_env": False}

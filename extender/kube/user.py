"""The cluster as a person reaches it: by kubeconfig, with that person's own rights."""

from __future__ import annotations

import logging
import os
import random

from kubernetes.aio.config import list_kube_config_contexts

from extender.clock import Clock
from extender.kube import answers
from extender.kube.api import Ref
from extender.kube.client import KubeApi, load_configuration

SECONDS = 10.0  # for one call


async def connect(kubeconfig: str = "", context: str = "") -> KubeApi:
    """The API server of that file and context, else of KUBECONFIG or the default file. Raises ClusterError."""
    logging.getLogger("kubernetes").setLevel(logging.ERROR)  # what is wrong is told by the error
    configuration = await load_configuration(_file(kubeconfig), context)
    return KubeApi(configuration, deadline=SECONDS, clock=Clock(), chance=random.Random())


def namespace_of(kubeconfig: str = "", context: str = "") -> str:
    """The namespace of the context in force; ``default`` where it has none or there is no usable file."""
    try:
        contexts, active = list_kube_config_contexts(_file(kubeconfig) or None)  # type: ignore[no-untyped-call]
        chosen = next((one for one in contexts if one["name"] == context), {}) if context else active
        return str(chosen["context"].get("namespace") or "default")
    except Exception:  # the loader stumbles over a malformed file with whatever comes
        return "default"


def _file(kubeconfig: str) -> str:
    """As kubectl chooses it, also within a pod; empty: the default one."""
    return kubeconfig or os.environ.get("KUBECONFIG", "")


def proxy_path(service: Ref, port: str, path: str) -> str:
    """The URL path under which the API server hands a request on to a Service, by TLS; ``port``: number or name."""
    named = Ref(service.resource, service.namespace, f"https:{service.name}:{port}")
    return f"{answers.path(named.resource, named.namespace, named.name, 'proxy')}{path}"

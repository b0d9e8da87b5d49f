"""The cluster as a person reaches it: by kubeconfig, with that person's own rights."""

from __future__ import annotations

import logging
import os
import random
import stat
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio.config import list_kube_config_contexts
from kubernetes.aio.config.kube_config import KubeConfigMerger

from extender.clock import Clock
from extender.kube import answers, portforward
from extender.kube.api import PODS, ClusterError, Ref
from extender.kube.client import NO_HEADERS, KubeApi
from extender.kube.configuration import load_configuration

SECONDS = 10.0  # for one call
DEFAULT_FILE = "~/.kube/config"


class UserApi(KubeApi):
    """What a person asks beyond what Kohort itself does: requests as they are, and ports of pods."""

    async def exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any = None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> tuple[int, bytes]:
        """Send one request as it is and return status and body, whatever they say; ClusterError where none came."""
        try:
            async with self._clock.timeout(self._deadline):
                response = await self._open(method, path, query, body, more=headers)
                return response.status, await self._body(response)
        except TimeoutError:
            raise ClusterError(0, "Timeout", f"no answer within {self._deadline:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ClusterError(0, "Unreachable", answers.text(error)) from error

    async def ask_pod(self, pod: Ref, port: int, request: bytes, seconds: float) -> tuple[int, bytes]:
        """Send one HTTP/1.1 request to a port of the pod's loopback and return status and body.

        Raises ClusterError: 403 where the right is lacking (get and create pods/portforward), 0 where no answer came.
        """
        path = answers.path(PODS, pod.namespace, pod.name, "portforward")
        _, url, headers, _, _ = await self._client.param_serialize(
            "GET", path, query_params=[("ports", str(port))], header_params={}, auth_settings=["BearerToken"]
        )
        rest = self._client.rest_client
        rest.pool_manager = rest.pool_manager or rest._create_pool_manager()
        try:
            async with (
                self._clock.timeout(seconds),
                rest.pool_manager.ws_connect(
                    url, headers=headers, protocols=(portforward.PROTOCOL,), proxy=rest.proxy
                ) as socket,
            ):
                return await portforward.exchange(socket, request)
        except TimeoutError:
            raise ClusterError(0, "Timeout", f"no answer within {seconds:g} s") from None
        except aiohttp.WSServerHandshakeError as error:  # the client hands no body of a refusal on
            why = HTTPStatus(error.status).phrase if error.status in list(HTTPStatus) else str(error.status)
            raise ClusterError(error.status, why.replace(" ", ""), f"port {port} of pod {pod.name}: {why}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ClusterError(0, "Unreachable", answers.text(error)) from error


async def connect(kubeconfig: str = "", context: str = "") -> UserApi:
    """The API server of that file and context, else of KUBECONFIG or the default file. Raises ClusterError."""
    _silence()
    file = _file(kubeconfig)
    by_file = file or context or "KUBERNETES_SERVICE_HOST" not in os.environ
    if by_file and (why := unreadable(file or DEFAULT_FILE)):
        named = "KUBECONFIG: " if file and not kubeconfig else ""
        raise ClusterError(0, "Credentials", f"{named}{file or DEFAULT_FILE!r}: {why}")
    configuration = await load_configuration(file, context)
    return UserApi(configuration, deadline=SECONDS, clock=Clock(), chance=random.Random())


def namespace_of(kubeconfig: str = "", context: str = "") -> str:
    """The namespace of the context in force; ``default`` where it has none or there is no usable file."""
    _silence()
    try:
        contexts, active = list_kube_config_contexts(_file(kubeconfig) or None)  # type: ignore[no-untyped-call]
        chosen = next((one for one in contexts if one["name"] == context), {}) if context else active
        return str(chosen["context"].get("namespace") or "default")
    except Exception:  # the loader stumbles over a malformed file with whatever comes
        return "default"


def contexts_of(kubeconfig: str = "") -> tuple[str, ...] | None:
    """The names of its contexts; None where there is no usable file, which whoever connects is told."""
    _silence()
    try:
        merged = KubeConfigMerger(_file(kubeconfig) or DEFAULT_FILE).config  # type: ignore[no-untyped-call]
        return tuple(str(one["name"]) for one in merged["contexts"])
    except Exception:  # as above
        return None


def unreadable(files: str) -> str:
    """Why none of these kubeconfigs, separated as in KUBECONFIG, can be read; empty where one can."""
    faults = [_fault(file) for file in files.split(os.pathsep) if file]
    return faults[0] if faults and all(faults) else ""


def _fault(file: str) -> str:
    path = Path(os.path.expanduser(file))  # noqa: PTH111  (Path's own fails where nobody has a home)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return "no such file" if isinstance(error, FileNotFoundError) else str(error.strerror).lower()
    if stat.S_ISDIR(mode):
        return "a directory, not a file"
    return "" if os.access(path, os.R_OK) else "permission denied"


def _silence() -> None:
    """The client's own log, which would stand beside the answer: what is wrong is told by the error."""
    logging.getLogger("kubernetes").setLevel(logging.ERROR)


def _file(kubeconfig: str) -> str:
    """As kubectl chooses it, also within a pod; empty: the default one."""
    return kubeconfig or os.environ.get("KUBECONFIG", "")


def proxy_path(service: Ref, port: str, path: str) -> str:
    """The URL path under which the API server hands a request on to a Service, by TLS; ``port``: number or name."""
    named = Ref(service.resource, service.namespace, f"https:{service.name}:{port}")
    return f"{answers.path(named.resource, named.namespace, named.name, 'proxy')}{path}"

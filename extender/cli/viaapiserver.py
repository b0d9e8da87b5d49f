"""Sends requests to the service through the API server that the kubeconfig names.

Without a token the request goes over a forwarded port to the pod that leads, whose REST listens on loopback. The API
server authenticates the user by the kubeconfig's credentials, and checks the right to forward ports. With a token, or
if a Service is named, the request goes through the API server's proxy to the Service.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from extender.cli.errors import CliError

if TYPE_CHECKING:
    from extender.kube.connection.kubectloptions import KubectlOptions
    from extender.kube.userapi import UserApi

DEFAULT_SERVICE: Final = "kohort-system/kohort:8900"
NAMESPACE: Final = "kohort-system"
LABELS: Final = "app.kubernetes.io/name=kohort,app.kubernetes.io/component=scheduler"
PORT: Final = 8900
# The Lease that shows which pod leads has the first name in manifests/base, the second in the overlay shared-scheduler.
ELECTIONS: Final = ("kohort-scheduler", "kohort-extender")
TIMEOUT: Final = 30.0


class UnreachableError(Exception):
    """The service cannot be reached through an API server; the text says why.

    ``answered`` tells whether the API server itself answered.
    """

    def __init__(self, why: str, *, answered: bool = False) -> None:
        super().__init__(why)
        self.answered = answered


@dataclass(frozen=True, slots=True)
class RestRequest:
    """One HTTP request to the service's REST."""

    method: str
    path: str
    query: Mapping[str, str]
    body: object = None

    @property
    def written(self) -> bytes:
        """Return the request as HTTP/1.1 bytes, with a header that asks the server to close the connection after it."""
        body = b"" if self.body is None else json.dumps(self.body).encode()
        target = f"{self.path}?{urlencode(self.query)}" if self.query else self.path
        head = (
            f"{self.method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nAccept: application/json\r\n"
            f"Connection: close\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


async def ask(given: KubectlOptions, service: str, token: str, question: RestRequest) -> tuple[str, int, bytes]:
    """Send the request through the API server; return the address that answered, the HTTP status and the body.

    service: NAMESPACE/NAME:PORT of the Service to ask. Where it is empty, the default Service is asked if there is a
    token, and otherwise the pod that leads. Raise UnreachableError if the service cannot be reached that way, and
    CliError if the API server refuses.
    """
    from extender.kube.api import ClusterError
    from extender.kube.connection.target import CREDENTIALS, NO_CLUSTER
    from extender.kube.userapi import connect

    try:
        async with connect(given) as api:
            if service or token:
                return await _by_proxy(api, service or DEFAULT_SERVICE, token, question)
            return await _by_forward(api, question)
    except ClusterError as error:
        if error.reason == CREDENTIALS:
            # The error must not lead to a request to this machine, because the user meant the named cluster.
            raise CliError(error.message) from None
        why = "no kubeconfig names a cluster" if error.reason == NO_CLUSTER else "the API server cannot be reached"
        raise UnreachableError(f"{why} ({error.message})") from None


async def _by_proxy(api: UserApi, service: str, token: str, question: RestRequest) -> tuple[str, int, bytes]:
    """Send the request to a Service of Kohort through the API server's proxy, with the token, if any, in a header.

    Return the address that answered, the HTTP status and the body.
    """
    from extender.http.headers import FORWARDED_HEADER
    from extender.kube.api import SERVICES, Ref
    from extender.kube.userapi import proxy_path

    namespace, name, port = service_of(service)
    headers = {FORWARDED_HEADER: f"Bearer {token}"} if token else {}
    url = proxy_path(Ref(SERVICES, namespace, name), port, question.path)
    status, answer = await api.exchange(question.method, url, question.query, question.body, headers)
    said = read(answer)
    if said.get("kind") == "Status":  # a Status is an answer of the API server and not of Kohort
        if status in (401, 403):
            raise CliError(
                f"the API server refuses: {said.get('message')}; ask its administrator for the right to "
                f"get and create services/proxy of {name} in {namespace}, or name the service with --server"
            )
        raise UnreachableError(f"the API server says: {said.get('message')}", answered=True)
    return f"Service {service}", status, answer


async def _by_forward(api: UserApi, question: RestRequest) -> tuple[str, int, bytes]:
    """Send the request over a forwarded port to the pod that leads, or to any running pod if the leader is not known.

    Return the address that answered, the HTTP status and the body.
    """
    from extender.kube.api import PODS, ClusterError, Ref

    pod = await _leader(api)
    try:
        return f"pod {pod}", *await api.ask_pod(Ref(PODS, NAMESPACE, pod), PORT, question.written, TIMEOUT)
    except ClusterError as error:
        if error.status in (401, 403):
            raise _refused(error.message, "get and create pods/portforward") from None
        raise CliError(
            f"the API server cannot forward port {PORT} of pod {pod} in {NAMESPACE}: {error.message}; see "
            f"`kubectl -n {NAMESPACE} get pods`, or name the service with --server"
        ) from None


async def _leader(api: UserApi) -> str:
    """Return the name of the pod that holds the Lease, or else the name of any running pod."""
    from extender.kube.api import LEASES, PODS, ClusterError, Ref
    from extender.kube.responses import url_path

    query = {"labelSelector": LABELS, "fieldSelector": "status.phase=Running"}
    status, answer = await api.exchange("GET", url_path(PODS, NAMESPACE), query)
    said = read(answer)
    if status in (401, 403):
        raise _refused(str(said.get("message")), "list pods")
    names = sorted(str(pod["metadata"]["name"]) for pod in said.get("items") or ())
    if not names:
        raise UnreachableError(f"no pod of Kohort runs in namespace {NAMESPACE} of that cluster", answered=True)
    for election in ELECTIONS if len(names) > 1 else ():
        try:
            lease = await api.get(Ref(LEASES, NAMESPACE, election)) or {}
        except ClusterError:
            continue  # without the Lease any running pod is asked; a pod that does not lead says so in its warnings
        holder = str((lease.get("spec") or {}).get("holderIdentity") or "").partition("_")[0]
        if holder in names:
            return holder
    return names[0]


def _refused(said: str, right: str) -> CliError:
    return CliError(
        f"the API server refuses: {said}; ask its administrator for the right to {right} in {NAMESPACE}, or for one "
        "to Kohort's Service and a token (--token-file), or name the service with --server"
    )


def service_of(text: str) -> tuple[str, str, str]:
    """Return namespace, name and port of a text NAMESPACE/NAME:PORT. Raise CliError if the text has another form."""
    namespace, slash, rest = text.partition("/")
    name, colon, port = rest.partition(":")
    if not (slash and colon and namespace and name and port) or "/" in rest:
        raise CliError(f"--service: {text!r} is not allowed; allowed: NAMESPACE/NAME:PORT, as {DEFAULT_SERVICE}", 2)
    return namespace, name, port


def read(answer: bytes) -> dict[str, Any]:
    """Return the body of an answer as a JSON object, or an empty dict if the body is no JSON object."""
    try:
        found = json.loads(answer)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

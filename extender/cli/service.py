"""Sends requests to the service's REST, directly or through the API server; errors say what the user can do."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, ValidationError

from extender.cli.errors import CliError, RefusedError
from extender.cli.viaapiserver import TIMEOUT, RestRequest, UnreachableError, read
from extender.cli.viaapiserver import ask as through
from extender.config.hosts import is_loopback
from extender.kube.connection.kubectloptions import NOTHING, KubectlOptions

DEFAULT_SERVER: Final = "http://127.0.0.1:8900"
TOKEN_COMMAND: Final = "kubectl create token NAME --audience kohort.dev"
TRIES: Final = 8
AGAIN_SECONDS: Final = 0.5
View = TypeVar("View", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """How a command reaches the service and the cluster.

    server: the URL of the service. Where it is empty, the request goes through the API server that the kubeconfig
    names. If that fails, it goes to the default port of this machine, unless the user named a cluster
    (`_is_of_another_cluster` says how).

    service: NAMESPACE/NAME:PORT of the service's Service; `viaapiserver.ask` says what an empty text means.

    given: the values of the options that kubectl has too.

    token_file: a file with a token for the service.

    ca_file: a file with the CA of the service's certificate.
    """

    server: str = ""
    service: str = ""
    given: KubectlOptions = NOTHING
    token_file: Path | None = None
    ca_file: Path | None = None

    @property
    def token(self) -> str:
        """Return the token in the token file, or an empty string if no file is named.

        Raise CliError if the file cannot be read or holds no token.
        """
        if self.token_file is None:
            return ""
        try:
            found = self.token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not a text file"
            raise CliError(
                f"--token-file: {self.token_file} cannot be read: {why}; create a token, and name the file that holds "
                f"it: {TOKEN_COMMAND} > FILE",
                2,
            ) from None
        if not found or any(sign.isspace() for sign in found):
            raise CliError(
                f"--token-file: {self.token_file} does not hold a token; allowed: one token and nothing else", 2
            )
        return found


def check_server(url: str) -> str:
    """Return the URL without a trailing slash. Raise CliError if it is not a URL."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise CliError(f"--server: {url!r} is not allowed; allowed: a URL such as {DEFAULT_SERVER}", 2)
    return url.rstrip("/")


def check_given(given: KubectlOptions) -> None:
    """Raise CliError if the value of one of kubectl's options is not allowed."""
    if not given:
        return
    from extender.kube.api import ClusterError
    from extender.kube.connection.resolve import check_options

    try:
        check_options(given)
    except ClusterError as error:
        raise CliError(error.message, 2) from None


def path_of(*parts: str) -> str:
    """Return the URL path ``/v1/PART/PART...`` of a REST resource, with each part URL-encoded."""
    return "/".join(["/v1", *(quote(part, safe="") for part in parts)])


def ask(target: ServiceTarget, path: str, query: Mapping[str, str], view: type[View]) -> View:
    """Send a GET request and return its answer, parsed as ``view``.

    Raise CliError with the service's own message, or with advice on how to reach the service.
    """
    return _exchange(target, RestRequest("GET", path, query), view)


def post(target: ServiceTarget, path: str, body: object, view: type[View]) -> View:
    """Send a POST request with a JSON body and return its answer, parsed as ``view``. Raise CliError as `ask` does."""
    return _exchange(target, RestRequest("POST", path, {}, body), view)


def _exchange(target: ServiceTarget, question: RestRequest, view: type[View]) -> View:
    where, status, answer = _answer(target, question)
    for _ in range(TRIES - 1):
        if status != HTTPStatus.SERVICE_UNAVAILABLE:
            break
        # A replica that does not lead answers with 503; the Service may send the next request to the leader.
        time.sleep(AGAIN_SECONDS)
        where, status, answer = _answer(target, question)
    if status != HTTPStatus.OK:
        # With status 422 the request itself is wrong, for which commands exit with code 2.
        code = 2 if status == HTTPStatus.UNPROCESSABLE_ENTITY else 1
        raise RefusedError(_refusal(where, status, answer), str(read(answer).get("field", "")), code)
    try:
        return view.model_validate_json(answer)
    except ValidationError:
        raise CliError(
            f"{where} answers, but not as this version of Kohort does; check --server and `kohort version`"
        ) from None


def _answer(target: ServiceTarget, question: RestRequest) -> tuple[str, int, bytes]:
    """Send the request to the service, directly or through the API server.

    Return the address that answered, the HTTP status and the body. Raise CliError where there is no answer.
    """
    import httpx  # is imported late, because `kohort serve` does not need it

    if target.server:
        server = check_server(target.server)
        try:
            return server, *_direct(target, server, question)
        except httpx.HTTPError as error:
            raise CliError(_unreachable(f"the service at {server} ({error})")) from None
    try:
        return asyncio.run(through(target.given, target.service, target.token, question))
    except UnreachableError as why:
        if _is_of_another_cluster(target, why):
            raise CliError(_unreachable(f"the service: {why}")) from None
        try:
            return DEFAULT_SERVER, *_direct(target, DEFAULT_SERVER, question)
        except httpx.HTTPError as error:
            raise CliError(_unreachable(f"the service: {why}; nor at {DEFAULT_SERVER} ({error})")) from None


def _is_of_another_cluster(target: ServiceTarget, why: UnreachableError) -> bool:
    """Tell whether the user meant a service on a named cluster, so that a service on this machine must not be asked.

    The user names a cluster by an option of kubectl's, or by KUBECONFIG if that cluster's API server did not answer.
    ``why``: why the service could not be reached through the API server.
    """
    chosen = replace(target.given, request_timeout="")
    return bool(chosen or (os.environ.get("KUBECONFIG") and not why.answered))


def _direct(target: ServiceTarget, server: str, question: RestRequest) -> tuple[int, bytes]:
    import httpx

    url, token = httpx.URL(f"{server}{question.path}"), target.token
    if token and url.scheme != "https" and not is_loopback(url.host):
        raise CliError(f"--server: {server!r} is not allowed with --token-file; allowed: an https:// URL", 2)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        answer = httpx.request(
            question.method, url, params=dict(question.query), json=question.body, headers=headers, timeout=TIMEOUT,
            trust_env=False, verify=_verified(target),
        )  # fmt: skip
    except httpx.TimeoutException:
        raise CliError(
            f"the service at {server} gave no answer in {TIMEOUT:g} s: is it stopped or busy? See its /livez and log"
        ) from None
    return answer.status_code, answer.content


def _verified(target: ServiceTarget) -> ssl.SSLContext | bool:
    """Return httpx's argument ``verify``: a TLS context with the CA that the user named, or True for the public CAs.

    Raise CliError where the CA's file cannot be used.
    """
    if target.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(target.ca_file))
    except ssl.SSLError as error:
        raise CliError(f"--ca-file: {target.ca_file} is not a PEM certificate: {error}; give another file", 2) from None
    except OSError as error:
        raise CliError(f"--ca-file: {target.ca_file} cannot be read: {error.strerror}; give another file", 2) from None


def _unreachable(what: str) -> str:
    return (
        f"cannot reach {what}.\n"
        "Start it with `kohort serve`; on a cluster, set KUBECONFIG, or forward its port:\n"
        "  leader=$(kubectl -n kohort-system get lease kohort-scheduler -o jsonpath='{.spec.holderIdentity}')\n"
        '  kubectl -n kohort-system port-forward "pod/${leader%%_*}" 8900:8900\n'
        "  (with the overlay shared-scheduler: lease kohort-extender)\n"
        "or name another address with --server URL"
    )


def _refusal(where: str, status: int, answer: bytes) -> str:
    """Return the message of an error answer; if it has none, a sentence with the HTTP status."""
    told = read(answer)
    if status == HTTPStatus.UNAUTHORIZED:
        return f"{told.get('detail') or 'the service asks for a token'}; name a file that holds one with --token-file"
    for field in ("message", "detail"):
        if isinstance(told.get(field), str):
            return str(told[field])
    return f"the service at {where} answers with status {status}; is it Kohort? Check --server"

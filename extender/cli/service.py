"""Asks the service's REST, and says what to do where it cannot be asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import httpx
import yaml
from pydantic import BaseModel, ValidationError

SECONDS: Final = 10.0
View = TypeVar("View", bound=BaseModel)


class CliError(Exception):
    """What to tell the user; ``code`` is the exit code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


def check_server(url: str) -> str:
    """Return the URL without a slash at its end; CliError where it is none."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise CliError(f"--server: {url!r} is not allowed; allowed: a URL such as http://127.0.0.1:8900", 2)
    return url.rstrip("/")


def path_of(*parts: str) -> str:
    """``/v1/...`` with each part encoded."""
    return "/".join(["/v1", *(quote(part, safe="") for part in parts)])


def ask(server: str, path: str, query: Mapping[str, str], view: type[View]) -> View:
    """GET and read; CliError with the service's own words, or with how to reach it."""
    return _exchange("GET", server, path, view, params=dict(query))


def post(server: str, path: str, body: object, view: type[View]) -> View:
    """POST as JSON and read; CliError as above."""
    return _exchange("POST", server, path, view, json=body)


def _exchange(method: str, server: str, path: str, view: type[View], **request: Any) -> View:
    url = f"{check_server(server)}{path}"
    try:
        answer = httpx.request(method, url, timeout=SECONDS, trust_env=False, **request)
    except httpx.TimeoutException:
        raise CliError(f"the service at {server} gave no answer in {SECONDS:g} s; is it stopped or busy?") from None
    except httpx.HTTPError as error:
        raise CliError(_unreachable(server, error)) from None
    if answer.status_code != httpx.codes.OK:
        raise CliError(_refusal(server, answer))
    try:
        return view.model_validate_json(answer.content)
    except ValidationError:
        raise CliError(f"what answers at {url} is not Kohort, or of another version; check --server") from None


def _unreachable(server: str, error: httpx.HTTPError) -> str:
    return (
        f"cannot reach the service at {server} ({error}).\n"
        "Start it with `kohort serve`; on a cluster, forward its port first:\n"
        "  kubectl -n kohort-system port-forward deployment/kohort 8900:8900\n"
        "or name another address with --server URL"
    )


def _refusal(server: str, answer: httpx.Response) -> str:
    try:
        told: Any = answer.json()
    except ValueError:
        told = {}
    if isinstance(told, dict) and isinstance(told.get("message"), str):
        return str(told["message"])
    return f"the service at {server} answers {answer.status_code} {answer.reason_phrase}; is it Kohort? check --server"


def manifest(file: Path) -> object:
    """The one object in the file; CliError where it cannot be read or holds another number of them."""
    try:
        found = [item for item in yaml.safe_load_all(file.read_text()) if item is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CliError(f"{file}: cannot be read as YAML or JSON: {error}", 2) from None
    if len(found) != 1 or not isinstance(found[0], dict):
        raise CliError(f"{file}: holds {len(found)} objects; allowed: one job's manifest", 2)
    return found[0]


def more_nodes(text: str) -> dict[str, object]:
    """``LIKE=COUNT`` or ``LIKE``."""
    like, equals, count = text.partition("=")
    if not like or (equals and not count.isdecimal()):
        raise CliError(f"--add-nodes: {text!r} is not allowed; allowed: NODE=COUNT", 2)
    return {"like": like, "count": int(count or 1)}

"""Decodes what the API server answers: list pages, watch events, objects, and the outcome of a write.

An object that cannot be read must not hide the other objects of a list: only its metadata is returned, with the reason
under the key `MALFORMED`, so that `translate` knows which object it is. An object without readable metadata is dropped
and logged.
"""

from __future__ import annotations

import logging
import os
import ssl
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import msgspec

from extender.kube.api import MALFORMED, ClusterError, Done, Json, Outcome, Refused, Resource, Unknown

LONGEST_RETRY_AFTER: Final = 30.0  # a longer Retry-After than this, in seconds, is shortened to it
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """One page of a list; ``continues`` is the continue token of the next page, empty on the last page."""

    items: list[Json]
    resource_version: str
    continues: str


def decode_page(body: bytes) -> ObjectPage:
    """Return a page of a list. If the body cannot be decoded as a whole, it is decoded object by object.

    Raises ClusterError where the body is not a list.
    """
    listed: _Page | _RawPage
    try:
        listed = _PAGE.decode(body)
        items = [item for item in listed.items or () if isinstance(item, dict)]
    except (msgspec.MsgspecError, RecursionError):
        listed = _raw_page(body)
        items = [item for raw in listed.items or () if (item := _object(bytes(raw)))]
    meta = listed.metadata or _ListMeta()
    return ObjectPage(items, meta.resourceVersion or "", meta.continue_ or "")


def decode_count(body: bytes) -> int:
    """Return how many objects there are, from the answer to a list request with limit 1.

    The number is that of the answer's items and its ``remainingItemCount``. Raises ClusterError where more objects
    remain and the answer does not state their number.
    """
    try:
        page = _COUNT.decode(body)
    except msgspec.MsgspecError as error:
        raise ClusterError(0, "Unreadable", error_text(error)) from error
    more = page.metadata.remainingItemCount
    if page.metadata.continue_ and more is None:
        raise ClusterError(
            0, "Uncounted", "the API server's list does not say how many objects remain after it (remainingItemCount)"
        )
    return len(page.items or ()) + (more or 0)


def decode_event(line: bytes) -> Json:
    """Return the event in one line of a watch.

    For a line that cannot be read an ERROR event is returned, because the event in that line is lost.
    """
    try:
        event: Any = _ANY.decode(line)
        if isinstance(event, dict):
            return event
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:
        raw = _RAW_EVENT.decode(line)
        if known := _object(bytes(raw.object)):
            return {"type": raw.type, "object": known}
    except (msgspec.MsgspecError, RecursionError):
        pass
    return {"type": "ERROR", "object": {"code": 200, "reason": "Undecodable"}}


def decode_object(body: bytes) -> Json:
    """Return the API object in the body of an answer. Raises ClusterError where not even its metadata can be read."""
    if (found := _object(body)) is None:
        raise ClusterError(200, "Undecodable")
    return found


def outcome(status: int, body: bytes) -> Outcome:
    """Return the outcome of a write by its HTTP status: 2xx is Done, 4xx except 408 is Refused.

    A denial by admission is Refused with any status, because the API server makes no write that was denied. Any other
    status is Unknown, because the write may have been made.
    """
    if 200 <= status < 300:
        return Done(_status(body))
    refused = refusal_in(status, body)
    if (400 <= status < 500 and status != 408) or refused.denied:
        return refused
    return Unknown(f"HTTP {status} {refused.words}".strip())


def refusal_in(status: int, body: bytes) -> Refused:
    """Return a Refused with this HTTP status, and with the reason and message of the Status object in the body."""
    found = _status(body)
    return Refused(status, str(found.get("reason") or ""), str(found.get("message") or "")[:500])


def cluster_error(response: aiohttp.ClientResponse, body: bytes) -> ClusterError:
    """Return the error for a read that the API server answered with a failure."""
    found = refusal_in(response.status, body)
    return ClusterError(found.status, found.reason, found.message, retry_after(response, default=0.0))


def retry_after(response: aiohttp.ClientResponse, default: float) -> float:
    """Return the header Retry-After in seconds, at most `LONGEST_RETRY_AFTER`.

    Return ``default`` where the header is absent or holds a date.
    """
    value = response.headers.get("Retry-After", "")
    return min(float(value), LONGEST_RETRY_AFTER) if value.isascii() and value.isdigit() else default


def url_path(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the URL path of a resource or object; an empty namespace means all namespaces.

    Names are percent-encoded, so that no name can change the path around it.
    """
    parts = ["namespaces", namespace, resource.plural] if namespace and resource.namespaced else [resource.plural]
    parts += [part for part in (name, subresource) if part]
    return "/".join([resource.root, *(quote(part, safe="") for part in parts)])


def error_text(error: BaseException) -> str:
    """Return a readable text for an exception.

    Some exceptions of aiohttp have no text, and the text of some shows Python objects.
    """
    if isinstance(error, aiohttp.ClientConnectorError):
        proxy = "the proxy " if isinstance(error, aiohttp.ClientProxyConnectionError) else ""
        why = getattr(error, "certificate_error", None) or error.os_error
        number = 0 if isinstance(why, ssl.SSLError) else why.errno or 0
        found = os.strerror(number).lower() if number > 0 else why.strerror or why
        return f"cannot connect to {proxy}{error.host}:{error.port}: {found}"[:300]
    return f"{type(error).__name__}: {error}"[:300] if str(error) else type(error).__name__


class _ListMeta(msgspec.Struct, rename={"continue_": "continue"}):
    resourceVersion: str | None = None  # noqa: N815 - Kubernetes's own name
    continue_: str | None = None


class _Page(msgspec.Struct):
    metadata: _ListMeta | None = None
    items: list[Any] | None = None


class _CountMeta(_ListMeta):
    remainingItemCount: int | None = None  # noqa: N815


class _Count(msgspec.Struct):
    metadata: _CountMeta
    items: list[msgspec.Raw] | None = None


class _RawPage(msgspec.Struct):
    metadata: _ListMeta | None = None
    items: list[msgspec.Raw] | None = None


class _RawEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct, omit_defaults=True):
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815


class _Headed(msgspec.Struct):
    metadata: _Meta


_ANY: Final = msgspec.json.Decoder()
_PAGE: Final = msgspec.json.Decoder(_Page)
_COUNT: Final = msgspec.json.Decoder(_Count)
_RAW_PAGE: Final = msgspec.json.Decoder(_RawPage)
_RAW_EVENT: Final = msgspec.json.Decoder(_RawEvent)
_HEADED: Final = msgspec.json.Decoder(_Headed)


def _raw_page(body: bytes) -> _RawPage:
    try:
        return _RAW_PAGE.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ClusterError(200, "Undecodable", str(error)[:200]) from None


def _object(body: bytes) -> Json | None:
    """Return the API object in the body.

    Where it cannot be read, return only its metadata, and the reason under `MALFORMED`; return None where not even the
    metadata can be read.
    """
    try:
        found: Any = _ANY.decode(body)
        if isinstance(found, dict):
            return found
        why = "it is not a JSON object"
    except (msgspec.MsgspecError, RecursionError) as error:
        why = str(error)[:200]
    try:
        return {"metadata": msgspec.to_builtins(_HEADED.decode(body).metadata), MALFORMED: why}
    except (msgspec.MsgspecError, RecursionError):
        _log.warning("an object of the API server was dropped, because not even its metadata can be read: %s", why)
        return None


def _status(body: bytes) -> Json:
    """Return the JSON object in a body, such as a Status; an empty dict for other contents, such as a proxy's HTML."""
    try:
        found: Any = _ANY.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}

"""Serve the embedded API server over plain HTTP on loopback, and write a kubeconfig for it.

A single catch-all route suffices, because an API server's paths are regular. Only the resources of `apirules.KIND_OF`
are served.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from extender.kube.api import PODS, Json, Ref
from lab.embedded.apirules import KIND_OF, StatusError, not_found
from lab.embedded.apiserver import ApiServer
from lab.embedded.embeddedapi import EXPIRED, follow
from lab.embedded.objectstore import ExpiredError

RESOURCES: Final = {(resource.root, resource.plural): resource for resource in KIND_OF}
_ENCODER: Final = msgspec.json.Encoder()


def http_app(server: ApiServer) -> Starlette:
    """Return the ASGI app of the API server."""
    service = _Service(server)
    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    return Starlette(routes=[Route("/{path:path}", service.answer, methods=methods)])


def kubeconfig(url: str) -> str:
    """Return a kubeconfig for the API server at ``url``; it has no authentication."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "embedded",
            "clusters": [{"name": "embedded", "cluster": {"server": url}}],
            "users": [{"name": "anybody", "user": {}}],
            "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "anybody"}}],
        }
    )


def address(path: str) -> tuple[Ref, str]:
    """Return the object and the subresource that a URL path names.

    The object's name is empty if the path names a whole collection. Raises StatusError with status 404 for a path that
    is not served.
    """
    parts = [part for part in path.split("/") if part]
    head = 2 if parts[:1] == ["api"] else 3
    root, rest = "/" + "/".join(parts[:head]), parts[head:]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource = RESOURCES.get((root, rest[0] if rest else ""))
    if resource is None or len(rest) > 3:
        raise StatusError(404, "NotFound", "the server could not find the requested resource")
    name, subresource = (*rest[1:], "", "")[:2]
    return Ref(resource, namespace, name), subresource


class _Service:
    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._store = server.store

    async def answer(self, request: Request) -> Response:
        try:
            ref, subresource = address(request.url.path)
            if request.method == "GET":
                return self._read(request, ref)
            body = msgspec.json.decode(await request.body() or b"null")
            status, answer = self._write(request, ref, subresource, body)
            return _json(answer, status)
        except StatusError as refusal:
            return _json(refusal.body(), refusal.status)
        except (msgspec.MsgspecError, LookupError, AttributeError, TypeError, ValueError) as error:
            return _json(StatusError(400, "BadRequest", f"{type(error).__name__}: {error}").body(), 400)

    def _read(self, request: Request, ref: Ref) -> Response:
        query = request.query_params
        if ref.name:
            item = self._store.get(ref.resource, ref.namespace if ref.resource.namespaced else "", ref.name)
            if item is None:
                raise not_found(ref.resource, ref.name)
            return _json(item)
        if query.get("watch") in ("1", "true"):
            return StreamingResponse(self._watch(request, ref), media_type="application/json")
        return _json(self._list(ref, int(query.get("limit", "0")), query.get("continue", "")))

    def _list(self, ref: Ref, limit: int, token: str) -> Json:
        version, start = map(int, base64.urlsafe_b64decode(token).split(b" ")) if token else (0, 0)
        try:
            items, version, following = self._store.page(ref.resource, limit, version, start)
        except ExpiredError:
            text = "The provided continue parameter is too old"
            raise StatusError(410, str(EXPIRED["reason"]), text) from None
        meta: Json = {"resourceVersion": str(version)}
        if following:
            meta["continue"] = base64.urlsafe_b64encode(f"{version} {following}".encode()).decode()
        inside = [item for item in items if ref.namespace in ("", item["metadata"].get("namespace"))]
        kind, version_of = f"{KIND_OF[ref.resource]}List", ref.resource.root.split("/", 2)[2]
        return {"kind": kind, "apiVersion": version_of, "metadata": meta, "items": inside}

    async def _watch(self, request: Request, ref: Ref) -> AsyncIterator[bytes]:
        query = request.query_params
        seconds = float(query.get("timeoutSeconds", "1800"))
        async for events in follow(self._server, ref.resource, query.get("resourceVersion", ""), seconds):
            wanted = (e for e in events if ref.namespace in ("", _namespace(e)))
            if lines := b"".join(_ENCODER.encode(event) + b"\n" for event in wanted):
                yield lines

    def _write(self, request: Request, ref: Ref, subresource: str, body: Any) -> tuple[int, Json]:
        server = self._server
        match request.method:
            case "POST" if ref.resource == PODS and subresource == "binding":
                return 201, server.bind(ref.namespace, ref.name, body)
            case "POST" if not ref.name:
                return 201, server.create(ref.resource, ref.namespace, body)
            case "PUT":
                return 200, server.update(ref, body)
            case "PATCH":
                content_type = request.headers.get("content-type", "").split(";")[0]
                return 200, server.patch(ref, body, content_type, subresource)
            case "DELETE":
                return 200, server.delete(ref, body)
            case _:
                pass
        raise StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def _namespace(event: Json) -> str:
    """Return the namespace of a watch event's object; "" for a bookmark, which watchers of any namespace get."""
    return str(event["object"].get("metadata", {}).get("namespace") or "")


def _json(body: Json, status: int = 200) -> Response:
    return Response(_ENCODER.encode(body), status, media_type="application/json")

"""The HTTP client of the Kubernetes API server, and the only module that sends requests to it.

`connection` knows which server is asked, how, and with which credentials. Objects stay raw bytes until msgspec decodes
them, which is thirty times faster on a list of pods than the official client's models. Each call has one deadline. The
outcome of a write is a value: an answer that leaves open whether the write happened is `Unknown`, never `Refused`.

aiohttp may repeat a DELETE (`connection.transport`). The only DELETE here carries a UID, so a repetition can only be
answered with 404 or 409.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Self

import aiohttp

from extender.clock import Clock
from extender.kube import responses
from extender.kube.api import (
    ACCESS_REVIEWS,
    EVENTS,
    PODS,
    TOKEN_REVIEWS,
    ClusterError,
    Json,
    Outcome,
    PatchKind,
    Ref,
    Refused,
    Resource,
    Unknown,
)
from extender.kube.connection.target import Connection
from extender.kube.connection.transport import Transport

PAGE: Final = 500  # how many objects a list request asks for at once, as in client-go
WRITES_AT_ONCE: Final = 64  # writes under way at the same time; more would only queue in the API server
READS: Final = 32  # connections for reads, besides those for writes; each watch holds one
NO_HEADERS: Final[Mapping[str, str]] = {}
CONTENT_TYPE: Final = {"json": "application/json-patch+json", "merge": "application/merge-patch+json"}


class KubeApi:
    """An `Api` over HTTP. Use it as an async context manager, or call `close`."""

    def __init__(
        self,
        connection: Connection,
        *,
        deadline: float,
        clock: Clock,
        chance: random.Random,
        writes_at_once: int = WRITES_AT_ONCE,
    ) -> None:
        """Prepare the client, which connects at the first call.

        ``deadline``: seconds for one call; the time that a write waits because ``writes_at_once`` others are under way
        does not count. Raises ClusterError where the connection's certificates cannot be used.
        """
        self._transport = Transport(connection, clock, writes_at_once + READS)
        self._deadline = deadline
        self._clock = clock
        self._chance = chance
        self._turns = asyncio.Semaphore(writes_at_once)

    async def __aenter__(self) -> Self:
        """Fetch the credentials in advance, because an exec plugin may take longer than the deadline of a call.

        Raises ClusterError.
        """
        await self._transport.sign_in()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    # Reads

    async def list_pages(self, resource: Resource) -> AsyncGenerator[tuple[list[Json], str], None]:
        """Yield the pages of one consistent list. Raises ClusterError(410) when its continue token has expired."""
        query: dict[str, str] = {"limit": str(PAGE)}
        while True:
            page = responses.decode_page(await self._read(responses.url_path(resource), query))
            yield page.items, page.resource_version
            if not page.continues:
                return
            query["continue"] = page.continues

    async def count(self, resource: Resource) -> int:
        """Return how many objects there are. Only one is listed, because its list says how many more would follow."""
        return responses.decode_count(await self._read(responses.url_path(resource), {"limit": "1"}))

    async def watch(
        self, resource: Resource, resource_version: str, timeout: float
    ) -> AsyncGenerator[list[Json], None]:
        """Yield the events that have arrived, one list per read from the socket; end when the server ends the watch."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, round(timeout))),
        }
        async with self._in_time():  # only status and headers, which the API server sends at once
            response = await self._open("GET", responses.url_path(resource), query)
        try:
            if response.status != 200:
                raise responses.cluster_error(response, await self._body(response))
            yield []
            rest = b""
            async for data in response.content.iter_any():
                *lines, rest = (rest + data).split(b"\n")
                yield [responses.decode_event(line) for line in lines if line]
        except (aiohttp.ClientError, OSError) as error:
            raise ClusterError(0, "Disconnected", responses.error_text(error)) from error
        finally:
            response.close()

    async def get(self, ref: Ref) -> Json | None:
        """Return the object, or None where it does not exist. Raises ClusterError where the read fails otherwise."""
        try:
            return responses.decode_object(
                await self._read(responses.url_path(ref.resource, ref.namespace, ref.name), {})
            )
        except ClusterError as error:
            if error.status == 404:
                return None
            raise

    @asynccontextmanager
    async def _in_time(self) -> AsyncGenerator[None, None]:
        """Limit what is done to the deadline. Raises ClusterError where the API server does not answer in that time."""
        try:
            async with self._clock.timeout(self._deadline):
                yield
        except TimeoutError:
            raise ClusterError(0, "Timeout", f"the API server did not answer within {self._deadline:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ClusterError(0, "Unreachable", responses.error_text(error)) from error

    async def _read(self, path: str, query: dict[str, str]) -> bytes:
        async with self._in_time():
            response = await self._open("GET", path, query)
            body = await self._body(response)
        if response.status != 200:
            raise responses.cluster_error(response, body)
        return body

    # Writes

    async def bind(self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> Outcome:
        """Create the Binding. If the pod is already bound, to whichever node, the outcome is Refused with 409."""
        metadata = {"namespace": namespace, "name": name, "uid": uid, "annotations": dict(annotations)}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        return await self._write("POST", responses.url_path(PODS, namespace, name, "binding"), body)

    async def patch(
        self,
        ref: Ref,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        uid: str = "",
        resource_version: str = "",
    ) -> Outcome:
        """Patch an object; uid and resourceVersion are sent in the patch itself, as preconditions."""
        wanted = {k: v for k, v in (("uid", uid), ("resourceVersion", resource_version)) if v}
        body: Json | list[Any]
        if isinstance(patch, Mapping):
            body = {**patch, "metadata": {**patch.get("metadata", {}), **wanted}} if wanted else dict(patch)
        else:
            body = [{"op": "test", "path": f"/metadata/{k}", "value": v} for k, v in wanted.items()] + list(patch)
        path = responses.url_path(ref.resource, ref.namespace, ref.name, subresource)
        return await self._write("PATCH", path, body, CONTENT_TYPE[kind])

    async def delete_pod(self, namespace: str, name: str, uid: str) -> Outcome:
        """Delete the pod if it still has that UID, with the grace period that the pod states."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        return await self._write("DELETE", responses.url_path(PODS, namespace, name), body)

    async def evict_pod(self, namespace: str, name: str, uid: str) -> Outcome:
        """Create an Eviction of the pod, which the API server carries out if the pod still has that UID."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        return await self._write("POST", responses.url_path(PODS, namespace, name, "eviction"), body)

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> Outcome:
        body = {"apiVersion": "events.k8s.io/v1", "kind": "Event", **event}
        return await self._write("POST", responses.url_path(EVENTS, namespace), body)

    async def review_token(self, token: str, audiences: Sequence[str]) -> Outcome:
        """Ask the API server whose token this is; `Done` has the TokenReview.

        ``audiences``: the audiences for which the token must be valid; empty for the API server's own.
        """
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": list(audiences)},
        }
        return await self._write("POST", responses.url_path(TOKEN_REVIEWS), body)

    async def review_access(self, spec: Json) -> Outcome:
        """Ask the API server whether a user has a right; `Done` has the SubjectAccessReview.

        ``spec``: the user and the right, as in a SubjectAccessReview.
        """
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        return await self._write("POST", responses.url_path(ACCESS_REVIEWS), body)

    async def _write(self, method: str, path: str, body: Any, content_type: str = "application/json") -> Outcome:
        """Send a write and return its outcome.

        It is sent again, until the deadline, only after status 429, with which the API server has certainly not made
        it.
        """
        async with self._turns:
            ends = self._clock.monotonic() + self._deadline
            while True:
                outcome, wait = await self._attempt(method, path, body, content_type, ends)
                if wait is None or self._clock.monotonic() + wait >= ends:
                    return outcome
                await self._clock.sleep(wait)

    async def _attempt(
        self, method: str, path: str, body: Any, content_type: str, ends: float
    ) -> tuple[Outcome, float | None]:
        """Send a write once; return its outcome, and the seconds to wait before sending it again (None: do not)."""
        try:
            async with self._clock.timeout(max(0.0, ends - self._clock.monotonic())):
                response = await self._open(method, path, {}, body, content_type)
                answer = await self._body(response)
        except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError) as error:  # nothing was sent
            return Refused(0, "Unreachable", responses.error_text(error)), None
        except ClusterError as error:  # the credentials could not be fetched, so nothing was sent
            return Refused(0, error.reason, error.message), None
        except TimeoutError:
            return Unknown(f"the API server did not answer within {self._deadline:g} s"), None
        except (aiohttp.ClientError, OSError) as error:
            return Unknown(responses.error_text(error)), None
        if response.status == 429:
            return responses.refusal_in(response.status, answer), self._pause(response)
        return responses.outcome(response.status, answer), None

    def _pause(self, response: aiohttp.ClientResponse) -> float:
        """Return the seconds to wait after a 429: Retry-After (1 s without one) and up to half of that more.

        The random part keeps waiting calls from being sent again all at once.
        """
        return responses.retry_after(response, default=1.0) * self._chance.uniform(1.0, 1.5)

    # Transport

    async def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any = None,
        content_type: str = "application/json",
        more: Mapping[str, str] = NO_HEADERS,
    ) -> aiohttp.ClientResponse:
        """Send one request and return as soon as the head of the answer has arrived; the caller sets the time limit."""
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "Content-Type": content_type, **more}
        return await self._transport.open(method, path, query, body, headers)

    @staticmethod
    async def _body(response: aiohttp.ClientResponse) -> bytes:
        async with response:
            return await response.read()

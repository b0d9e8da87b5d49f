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

PAGE: Final = 500  # One list request asks for PAGE objects, as in client-go.
# At most WRITES_AT_ONCE writes are sent at the same time; more would only queue in the API server.
WRITES_AT_ONCE: Final = 64
READS: Final = 32  # READS connections are kept for reads, besides those for writes; each watch holds one of them.
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

    # -- The methods below read. ---------------------------------------------------------------------

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
        """Return how many objects of the resource there are.

        Only one object is requested: the API server's answer says how many more would follow.
        """
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
        # The deadline covers status and headers only, which the API server sends at once; the events come later.
        async with self._in_time():
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
        """Limit the time of the ``with`` block to the deadline of a call.

        Raises ClusterError where the block takes longer, or where the connection fails.
        """
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

    # -- The methods below write. --------------------------------------------------------------------

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

        Only after status 429 is the write sent again, until the deadline: with 429 the API server says that it has not
        made the write. If admission has denied it with status 429, it is not sent again.
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
        """Send a write once. Return its outcome, and the seconds to wait before the write is sent again.

        The seconds are None where the write must not be sent again. ``ends``: the deadline, as `Clock.monotonic` time.
        """
        try:
            async with self._clock.timeout(max(0.0, ends - self._clock.monotonic())):
                response = await self._open(method, path, {}, body, content_type)
                answer = await self._body(response)
        except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError) as error:
            # No connection was made, so the write was certainly not sent.
            return Refused(0, "Unreachable", responses.error_text(error)), None
        except ClusterError as error:
            # The credentials could not be fetched, so the write was not sent.
            return Refused(0, error.reason, error.message), None
        except TimeoutError:
            return Unknown(f"the API server did not answer within {self._deadline:g} s"), None
        except (aiohttp.ClientError, OSError) as error:
            return Unknown(responses.error_text(error)), None
        if response.status == 429:
            refused = responses.refusal_in(response.status, answer)
            return refused, None if refused.denied else self._pause(response)
        return responses.outcome(response.status, answer), None

    def _pause(self, response: aiohttp.ClientResponse) -> float:
        """Return the seconds to wait after status 429: those of the header Retry-After (1 without it), times 1 to 1.5.

        The factor is random, so that waiting calls are not all sent again at the same moment.
        """
        return responses.retry_after(response, default=1.0) * self._chance.uniform(1.0, 1.5)

    # -- The methods below send requests. ------------------------------------------------------------

    async def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any = None,
        content_type: str = "application/json",
        more: Mapping[str, str] = NO_HEADERS,
    ) -> aiohttp.ClientResponse:
        """Send one request and return the response as soon as its status and headers have arrived.

        This method sets no time limit. ``more``: further request headers.
        """
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "Content-Type": content_type, **more}
        return await self._transport.open(method, path, query, body, headers)

    @staticmethod
    async def _body(response: aiohttp.ClientResponse) -> bytes:
        async with response:
            return await response.read()

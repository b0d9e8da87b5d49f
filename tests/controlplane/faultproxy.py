"""A proxy before kube-apiserver that injects the faults of networks and busy servers into requests and watches.

It terminates TLS with the kit's own certificate and opens a new connection upstream. Credentials pass in the requests'
headers, so its clients have to use tokens. The seed determines which requests get a fault, for each fault separately.

    with FaultProxy(plane.url, plane.layout.pki, seed=1) as proxy:
        proxy.inject(Fault("drop-after", 0.1, verbs={"create"}, resources={"pods/binding"}))
        ...                      # clients ask at proxy.url
        proxy.heal()
        print(proxy.injected)    # how often each fault was injected
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import ssl
from collections import Counter
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from typing import Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

import h11

from tests.controlplane.pki import Pki
from tests.controlplane.ports import LOOPBACK

Kind = Literal[
    "delay",  # the request is delayed
    "drop-before",  # the connection ends before the server sees the request
    "drop-after",  # the server carries the request out, and the answer is lost
    "too-many-requests",  # the proxy answers 429 with Retry-After, and the server does not see the request
    "conflict",  # the proxy answers 409, and the server does not see the request
    "error",  # the proxy answers 500, and the server does not see the request
    "unavailable",  # the proxy answers 503, and the server does not see the request
    "gone",  # the proxy answers 410, or sends 410 as an event of a running watch
    "truncated",  # half of the answer's body arrives, then the connection ends
    "cut",  # a watch ends in the middle of a line
    "stall",  # a watch goes silent, and stays open until `heal`
]
STATUSES = {"too-many-requests": 429, "conflict": 409, "error": 500, "unavailable": 503}
ON_WATCHES: frozenset[Kind] = frozenset({"gone", "cut", "stall"})
READ_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a ``share`` of the requests with these verbs and resources (all if none is named).

    ``verbs`` are Kubernetes' own; a subresource is part of the resource's name, as in RBAC: ``pods/binding``. For a
    watch, cut, gone and stall apply to each piece that the server sends, with the same share. ``seconds`` is the delay,
    or the value of Retry-After.
    """

    kind: Kind
    share: float = 1.0
    verbs: frozenset[str] | set[str] = frozenset()
    resources: frozenset[str] | set[str] = frozenset()
    seconds: float = 1.0

    def concerns(self, asked: RequestedVerb) -> bool:
        """Tell whether the fault may apply to this request."""
        return (
            (not self.verbs or asked.verb in self.verbs)
            and (not self.resources or asked.resource in self.resources)
            and (self.kind not in ON_WATCHES or asked.verb == "watch")
        )


@dataclass(frozen=True, slots=True)
class RequestedVerb:
    """The verb and the resource of a request, as in Kubernetes' RBAC."""

    verb: str
    resource: str


def asked_by(method: str, target: str) -> RequestedVerb:
    """Parse a request's first line; for a path without a resource, the path is the resource's name."""
    url = urlsplit(target)
    parts = url.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    if not rest:
        return RequestedVerb(method.lower(), url.path)
    resource = "/".join((rest[0], *rest[2:]))
    query = parse_qs(url.query)
    reading = "watch" if query.get("watch", ["0"])[0] in ("1", "true") else "get" if len(rest) > 1 else "list"
    verbs = {"GET": reading, "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    return RequestedVerb(verbs.get(method, method.lower()), resource)


class _EndedError(Exception):
    """This connection is over, because of a fault or because a side has closed it."""


class FaultProxy:
    """Listens on loopback in a thread of its own; use it as a context manager."""

    def __init__(self, upstream: str, pki: Pki, seed: int) -> None:
        url = urlsplit(upstream)
        self.injected: Counter[str] = Counter()
        self.served = 0
        self.url = ""
        self._upstream = (url.hostname or LOOPBACK, url.port or 443)
        self._chance = random.Random(seed)
        self._faults: tuple[Fault, ...] = ()
        self._server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server_tls.load_cert_chain(pki.server_certificate, pki.server_key)
        self._client_tls = ssl.create_default_context(cafile=str(pki.ca_file))
        self._loop = asyncio.new_event_loop()
        self._healed = asyncio.Event()
        self._healed.set()
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(self._listen())
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"https://{LOOPBACK}:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def inject(self, *faults: Fault) -> None:
        """Inject these faults from now on, and no others."""
        self._loop.call_soon_threadsafe(self._set, faults)

    def heal(self) -> None:
        """Inject no faults from now on; stalled watches continue."""
        self.inject()

    # -- The methods below run in the proxy's thread. --------------------------------------------

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(60)

    def _set(self, faults: tuple[Fault, ...]) -> None:
        self._faults = faults
        if faults:
            self._healed.clear()
        else:
            self._healed.set()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, LOOPBACK, 0, ssl=self._server_tls, backlog=1024)

    async def _close(self) -> None:
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await asyncio.sleep(0)  # The loop closes aborted transports in its next iteration.

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        ours = _Side(h11.Connection(h11.SERVER), reader, writer)
        theirs: _Side | None = None
        try:
            opened = await asyncio.open_connection(*self._upstream, ssl=self._client_tls)
            theirs = _Side(h11.Connection(h11.CLIENT), *opened)
            while True:
                await self._exchange(ours, theirs)
        except (_EndedError, OSError, EOFError, h11.ProtocolError, asyncio.CancelledError):
            pass
        finally:
            await ours.end()
            if theirs is not None:
                await theirs.end()
            self._connections.discard(task)

    async def _exchange(self, ours: _Side, theirs: _Side) -> None:
        """Relay one request to the server and the answer to the client, with the fault that is drawn for the
        request.
        """
        request = await ours.read()
        if not isinstance(request, h11.Request):
            raise _EndedError
        body = await ours.body()
        asked = asked_by(request.method.decode(), request.target.decode())
        self.served += 1
        fault = self._draw(asked, whole=True)
        if fault is not None:
            await self._before(fault, ours)
        await theirs.send(request, *((h11.Data(data=body),) if body else ()), h11.EndOfMessage())
        answer = await theirs.read()
        if not isinstance(answer, h11.Response):
            raise _EndedError
        if fault is not None and fault.kind in ("drop-after", "truncated"):
            await self._after(fault, answer, ours, theirs)
        await ours.send(answer)
        if asked.verb == "watch":
            await self._relay_watch(asked, ours, theirs)
        else:
            while isinstance(part := await theirs.read(), h11.Data):
                await ours.send(part)
        await ours.send(h11.EndOfMessage())
        ours.next_cycle()
        theirs.next_cycle()

    def _draw(self, asked: RequestedVerb, *, whole: bool) -> Fault | None:
        """Return the first fault that applies to the request (``whole``) or to a piece of a watch, or None."""
        for fault in self._faults:
            if (fault.kind in ON_WATCHES) == whole or not fault.concerns(asked):
                continue
            if self._chance.random() < fault.share:
                self.injected[f"{fault.kind} {asked.verb} {asked.resource}"] += 1
                return fault
        return None

    async def _before(self, fault: Fault, ours: _Side) -> None:
        """Delay the request, drop the connection, or answer with an error, before the request reaches the server."""
        if fault.kind == "delay":
            await asyncio.sleep(fault.seconds)
        elif fault.kind == "drop-before":
            raise _EndedError
        elif fault.kind in STATUSES:
            status = STATUSES[fault.kind]
            wait = [("Retry-After", f"{fault.seconds:g}")] if status in (429, 503) else []
            await ours.answer(status, json.dumps(_status(status)).encode(), wait)
            raise _EndedError

    async def _after(self, fault: Fault, answer: h11.Response, ours: _Side, theirs: _Side) -> None:
        """After the server has carried the request out, lose the answer: only half of its body arrives, or nothing."""
        body = await theirs.body()
        if fault.kind == "truncated":
            headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body) + 1))]
            head = h11.Response(status_code=answer.status_code, headers=headers)
            await ours.send(head, h11.Data(data=body[: len(body) // 2]))
        raise _EndedError

    async def _relay_watch(self, asked: RequestedVerb, ours: _Side, theirs: _Side) -> None:
        while isinstance(part := await _unless_gone(theirs.read(), ours), h11.Data):
            fault = self._draw(asked, whole=False)
            if fault is not None and fault.kind == "cut":
                await ours.send(h11.Data(data=bytes(part.data)[: len(part.data) // 2]))
                raise _EndedError
            if fault is not None and fault.kind == "gone":
                event = {"type": "ERROR", "object": _status(410)}
                await ours.send(h11.Data(data=json.dumps(event).encode() + b"\n"), h11.EndOfMessage())
                raise _EndedError
            if fault is not None:
                await _unless_gone(self._healed.wait(), ours)
            await ours.send(part)


class _Side:
    """One of the two connections of a relayed request, to the client or to the server, with its HTTP state."""

    def __init__(self, state: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._state = state
        self.reader = reader
        self._writer = writer

    async def read(self) -> Any:
        """Return the next event; 100-continue is answered here."""
        while True:
            event = self._state.next_event()
            if event is h11.NEED_DATA:
                if self._state.our_role is h11.SERVER and self._state.they_are_waiting_for_100_continue:
                    await self.send(h11.InformationalResponse(status_code=100, headers=[]))
                self._state.receive_data(await self.reader.read(READ_BYTES))
            elif not isinstance(event, h11.InformationalResponse):
                return event

    async def body(self) -> bytes:
        """Read and return the rest of the message's body."""
        parts = []
        while isinstance(part := await self.read(), h11.Data):
            parts.append(bytes(part.data))
        return b"".join(parts)

    async def send(self, *events: Any) -> None:
        """Write these HTTP events to the connection."""
        data = b"".join(self._state.send(event) or b"" for event in events)
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, status: int, body: bytes, headers: list[tuple[str, str]]) -> None:
        """Send an answer that the proxy itself has made."""
        told = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("Connection", "close")]
        await self.send(
            h11.Response(status_code=status, headers=told + headers), h11.Data(data=body), h11.EndOfMessage()
        )

    def next_cycle(self) -> None:
        """Prepare the connection for the next request. Raises _EndedError if the other side closes the connection."""
        if self._state.our_state is not h11.DONE or self._state.their_state is not h11.DONE:
            raise _EndedError
        self._state.start_next_cycle()

    async def end(self) -> None:
        """Send what is written, and close the connection."""
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(self._writer.wait_closed(), 1)
        self._writer.transport.abort()


async def _unless_gone(work: Coroutine[Any, Any, Any], client: _Side) -> Any:
    """Return the result of ``work``, or raise _EndedError as soon as the client closes the connection, because a watch
    may be silent for long.

    Use it during a watch only: a client that sends its next request before the answer's end would count as closed.
    """
    task, leaving = asyncio.ensure_future(work), asyncio.ensure_future(client.reader.read(1))
    try:
        done, _ = await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in (task, leaving):
            each.cancel()  # To cancel a finished task has no effect.
        await asyncio.gather(task, leaving, return_exceptions=True)
    if task in done:
        return task.result()
    raise _EndedError


def _status(code: int) -> dict[str, Any]:
    reasons = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "reason": reasons[code], "message": "a fault of the tests",
    }  # fmt: skip

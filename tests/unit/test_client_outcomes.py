"""The outcome of an API call is done, certainly refused or unknown; reads skip objects that are malformed."""

import asyncio
import json
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from extender.clock import Clock
from extender.kube.api import MALFORMED, NODES, PODS, TFJOBS, ClusterError, Done, Json, Outcome, Ref, Refused, Unknown
from extender.kube.client import KubeApi
from extender.kube.connection.target import Connection, ExecPlugin
from tests.stage import VirtualClock, virtual

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
POD = Ref(PODS, "ns", "p")


@asynccontextmanager
async def server(handler: Handler, deadline: float = 0.2, at_once: int = 64) -> AsyncIterator[KubeApi]:
    """Run a fake API server on loopback that answers with ``handler``; yield a client of it."""
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0)  # type: ignore[arg-type]
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    api = client(f"http://{host}:{port}", deadline, at_once)
    try:
        async with api:
            yield api
    finally:
        await runner.cleanup()


def client(url: str, deadline: float = 0.2, at_once: int = 64) -> KubeApi:
    connection = Connection(url, token="secret")
    return KubeApi(connection, deadline=deadline, clock=VirtualClock(), chance=random.Random(1), writes_at_once=at_once)


def answer(status: int, body: object = None, **headers: str) -> Handler:
    async def handle(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return handle


async def hang(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError("the client should have given up")


async def cut(request: web.Request) -> web.StreamResponse:
    await request.read()
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def page_of_a_proxy(_: web.Request) -> web.StreamResponse:
    return web.Response(status=403, text="<html>no</html>")


def bind(api: KubeApi) -> Awaitable[Outcome]:
    return api.bind("ns", "p", "u", "n", {"kohort.dev/plan": "7"})


CONFLICT = {"reason": "Conflict", "message": "pod p is already assigned to node n"}
DENIED = 'admission webhook "size.example.com" denied the request: it has its size'
OUTCOMES: dict[str, tuple[Handler, Outcome | type[Unknown]]] = {
    "created": (answer(201, {"status": "Success"}), Done({"status": "Success"})),
    "already bound": (answer(409, CONFLICT), Refused(409, "Conflict", "pod p is already assigned to node n")),
    "gone": (answer(404, {"reason": "NotFound"}), Refused(404, "NotFound", "")),
    "forbidden, told by a proxy": (page_of_a_proxy, Refused(403, "", "")),
    "too many requests, for too long": (answer(429, None, Retry_After="60"), Refused(429, "", "")),
    "request timed out in the server": (answer(408), Unknown),
    **{
        f"denied by a webhook with {status}": (answer(status, {"message": DENIED}), Refused(status, "", DENIED))
        for status in (400, 401, 404, 408, 409, 429, 500, 503)
    },
    "a webhook that is down": (answer(500, {"message": 'failed calling webhook "size.example.com"'}), Unknown),
    "server error": (answer(500, {"reason": "InternalError"}), Unknown),
    "not available": (answer(503), Unknown),
    "gateway time-out": (answer(504, {"reason": "Timeout"}), Unknown),
    "no answer in time": (hang, Unknown),
    "connection lost after the request": (cut, Unknown),
}


@pytest.mark.parametrize(("handler", "want"), OUTCOMES.values(), ids=OUTCOMES.keys())
@virtual
async def test_outcome_of_a_write(handler: Handler, want: Outcome | type[Unknown]) -> None:
    loop = asyncio.get_running_loop()
    async with server(handler, deadline=0.2) as api:
        began = loop.time()
        got = await bind(api)
        assert loop.time() - began < 0.3, "a call has one deadline"
    assert got == want if not isinstance(want, type) else isinstance(got, want)


@virtual
async def test_nobody_listens_is_a_refusal_since_nothing_was_sent() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # the socket keeps the port from other processes, but does not listen
        api = client(f"http://127.0.0.1:{nobody.getsockname()[1]}")
        async with api:
            got = await bind(api)
            assert isinstance(got, Refused)
            assert got.status == 0
            with pytest.raises(ClusterError, match="Unreachable"):
                await api.get(POD)


@virtual
async def test_too_many_requests_is_sent_again_after_a_pause() -> None:
    calls: list[float] = []

    async def handle(_: web.Request) -> web.StreamResponse:
        calls.append(asyncio.get_running_loop().time())
        if len(calls) == 1:
            return web.json_response(None, status=429, headers={"Retry-After": "1"})
        return web.json_response({}, status=201)

    async with server(handle, deadline=5) as api:
        assert await bind(api) == Done({})
    assert 1.0 <= calls[1] - calls[0] < 1.2


class Recorder:
    """Keeps each request as (method, path, content type, body) and answers 200."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, Any]] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        assert request.headers["Authorization"] == "Bearer secret"
        body = json.loads(await request.read())
        self.seen.append((request.method, request.raw_path, request.headers["Content-Type"], body))
        return web.json_response({})


@virtual
async def test_writes_as_sent() -> None:
    recorder = Recorder()
    job = Ref(TFJOBS, "ns", "j/../x")
    async with server(recorder) as api:
        await bind(api)
        await api.patch(job, {"spec": {"a": 1}, "metadata": {"labels": {}}}, uid="u", resource_version="5")
        await api.patch(job, [{"op": "remove", "path": "/x"}], kind="json", subresource="status", resource_version="5")
        await api.delete_pod("ns", "p", "u")
        await api.create_event("ns", {"reason": "R"})
    target = {"apiVersion": "v1", "kind": "Node", "name": "n"}
    metadata = {"namespace": "ns", "name": "p", "uid": "u", "annotations": {"kohort.dev/plan": "7"}}
    job_path = "/apis/kubeflow.org/v1/namespaces/ns/tfjobs/j%2F..%2Fx"
    plain, merge, patch = "application/json", "application/merge-patch+json", "application/json-patch+json"
    assert recorder.seen == [
        (
            "POST",
            "/api/v1/namespaces/ns/pods/p/binding",
            plain,
            {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target},
        ),
        (
            "PATCH",
            job_path,
            merge,
            {"spec": {"a": 1}, "metadata": {"labels": {}, "uid": "u", "resourceVersion": "5"}},
        ),
        (
            "PATCH",
            job_path + "/status",
            patch,
            [{"op": "test", "path": "/metadata/resourceVersion", "value": "5"}, {"op": "remove", "path": "/x"}],
        ),
        (
            "DELETE",
            "/api/v1/namespaces/ns/pods/p",
            plain,
            {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u"}},
        ),
        (
            "POST",
            "/apis/events.k8s.io/v1/namespaces/ns/events",
            plain,
            {"apiVersion": "events.k8s.io/v1", "kind": "Event", "reason": "R"},
        ),
    ]


@virtual
async def test_a_thousand_bindings_never_exceed_the_turns() -> None:
    now, most = 0, 0

    async def handle(_: web.Request) -> web.StreamResponse:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1
        return web.json_response({}, status=201)

    async with server(handle, deadline=2, at_once=8) as api:
        outcomes = await asyncio.gather(*(bind(api) for _ in range(100)))
    assert outcomes == [Done({})] * 100
    assert most == 8


@virtual
async def test_get() -> None:
    async with server(answer(200, {"metadata": {"name": "p"}})) as api:
        assert await api.get(POD) == {"metadata": {"name": "p"}}
    async with server(answer(404, {"reason": "NotFound"})) as api:
        assert await api.get(POD) is None
    async with server(answer(429, {"reason": "TooManyRequests"}, Retry_After="3")) as api:
        with pytest.raises(ClusterError) as error:
            await api.get(POD)
    assert (error.value.status, error.value.reason, error.value.retry_after) == (429, "TooManyRequests", 3.0)


HUGE = b'{"metadata":{"namespace":"ns","name":"bad","uid":"b","resourceVersion":"4"},"spec":' + b"9" * 5000 + b"}"
DEEP = HUGE.replace(b"9" * 5000, b"[" * 5000 + b"]" * 5000)


@virtual
async def test_list_follows_pages_and_keeps_the_good_beside_the_bad() -> None:
    asked: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append(request.query.get("continue", ""))
        if not asked[-1]:
            body = b'{"metadata":{"resourceVersion":"9","continue":"a=/+"},"items":[{"metadata":{"name":"a"}},7,null]}'
        else:
            body = b'{"metadata":{"resourceVersion":"9"},"items":[' + HUGE + b',{"metadata":{"name":"c"}}]}'
        return web.Response(body=body)

    async with server(handle) as api:
        pages = [page async for page in api.list_pages(PODS)]
    assert asked == ["", "a=/+"]
    first, (bad, good) = [items for items, _ in pages]
    assert first == [{"metadata": {"name": "a"}}]
    assert good == {"metadata": {"name": "c"}}
    assert bad["metadata"] == {"namespace": "ns", "name": "bad", "uid": "b", "resourceVersion": "4"}
    assert "range" in bad[MALFORMED]
    assert {version for _, version in pages} == {"9"}


async def collect(api: KubeApi) -> list[Json]:
    return [event async for events in api.watch(NODES, "9", 30) for event in events]


@virtual
async def test_watch_splits_lines_and_keeps_going_after_a_bad_one() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        wanted = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "9", "timeoutSeconds": "30"}
        assert dict(request.query) == wanted
        stream = web.StreamResponse()
        await stream.prepare(request)
        for part in (b'{"type":"ADDED","obj', b'ect":{"a":1}}\n{"type":"MODIFIED","object":' + HUGE, b"}\n", b"junk\n"):
            await stream.write(part)
            await asyncio.sleep(0.01)
        await stream.write(b'{"type":"BOOKMARK","object":{}}\n{"type":"ADDED"')
        return stream

    async with server(handle) as api:
        added, modified, junk, bookmark = await collect(api)
    assert added == {"type": "ADDED", "object": {"a": 1}}
    assert (modified["type"], modified["object"]["metadata"]["name"]) == ("MODIFIED", "bad")
    assert junk["type"] == "ERROR"
    assert bookmark["type"] == "BOOKMARK"


@pytest.mark.parametrize(("handler", "status"), [(answer(410, {"reason": "Expired"}), 410), (hang, 0), (cut, 0)])
@virtual
async def test_watch_that_cannot_start(handler: Handler, status: int) -> None:
    async with server(handler) as api:
        with pytest.raises(ClusterError) as error:
            await collect(api)
    assert error.value.status == status


@virtual
async def test_page_nested_too_deeply_is_a_failed_read() -> None:
    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b'{"metadata":{"resourceVersion":"9"},"items":[' + DEEP + b"]}")

    async with server(handle) as api:
        with pytest.raises(ClusterError, match="Undecodable"):
            [page async for page in api.list_pages(PODS)]


PLUGIN = """#!/bin/sh
test -e "$0.ran" && { echo log in again >&2; exit 3; }
touch "$0.ran"
echo '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
       "status": {"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"}}'
"""


async def test_credentials_that_cannot_be_renewed_are_a_refusal_since_nothing_was_sent(tmp_path: Path) -> None:
    program = tmp_path / "plugin"
    program.write_text(PLUGIN)
    program.chmod(0o755)
    plugin = ExecPlugin("u", str(program), (), {}, "client.authentication.k8s.io/v1", "", "Never")
    connection = Connection("http://127.0.0.1:1", plugin=plugin)
    async with KubeApi(connection, deadline=5, clock=Clock(), chance=random.Random(1)) as api:
        got = await bind(api)
        assert isinstance(got, Refused)
        assert (got.status, got.reason) == (0, "Credentials")
        assert "failed with exit code 3: log in again" in got.message
        with pytest.raises(ClusterError, match="Credentials"):
            await api.get(POD)


@virtual
async def test_a_proxy_that_does_not_connect_is_a_refusal_since_nothing_was_sent() -> None:
    async with server(answer(403)) as proxy:
        connection = Connection("https://192.0.2.9", proxy=proxy._transport._connection.server)
        async with KubeApi(connection, deadline=5, clock=VirtualClock(), chance=random.Random(1)) as api:
            got = await bind(api)
    assert isinstance(got, Refused)
    assert (got.status, got.reason) == (0, "Unreachable")

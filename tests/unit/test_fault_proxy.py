"""The fault proxy of the control plane's tests, seen by the real client: what each fault is, and who sees it."""

import asyncio
import json
import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from aiohttp import web

from extender.clock import Clock
from extender.kube.api import PODS, ClusterError, Done, Json, Outcome, Ref, Refused, Unknown
from extender.kube.client import KubeApi
from extender.kube.connection.target import Connection, Pem
from tests.controlplane.faultproxy import Fault, FaultProxy, Kind, RequestedVerb, asked_by
from tests.controlplane.pki import Pki
from tests.eventually import eventually

PATIENT = 60.0  # deadline of a call, in seconds
# deadlines in seconds of calls that meet these faults, whose delay is longer
MISSED: dict[str, float] = {"delay": 1.0, "too-many-requests": 10.0}
POD = Ref(PODS, "ns", "p")


@dataclass
class Upstream:
    """A fake API server that counts the requests that reach it; its watches send an event every few milliseconds."""

    seen: Counter[str] = field(default_factory=Counter)
    tokens: set[str] = field(default_factory=set)
    told = 0  # number of events that all watches have sent

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        self.tokens.add(request.headers.get("Authorization", ""))
        self.seen[f"{request.method} {request.path}"] += 1
        if request.method == "POST":
            return web.json_response({"kind": "Status", "echo": len(body)}, status=201)
        if "watch" in request.query:
            return await self._watch(request)
        listed = {"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": f"p{n}"}} for n in range(200)]}
        return web.json_response(listed)

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        for number in range(10_000):
            meta = {"name": f"p{number}", "uid": str(number), "resourceVersion": str(number + 6)}
            await answer.write(json.dumps({"type": "ADDED", "object": {"metadata": meta}}).encode() + b"\n")
            self.told += 1
            await asyncio.sleep(0.005)
        return answer


@asynccontextmanager
async def proxied(
    tmp_path: Path, *faults: Fault, seed: int = 1, deadline: float = PATIENT
) -> AsyncIterator[tuple[KubeApi, FaultProxy, Upstream]]:
    pki, upstream = Pki.create(tmp_path), Upstream()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pki.server_certificate, pki.server_key)
    runner = web.ServerRunner(web.Server(upstream.handle), shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    host, port = runner.addresses[0][:2]
    try:
        with FaultProxy(f"https://{host}:{port}", pki, seed) as proxy:
            proxy.inject(*faults)
            connection = Connection(proxy.url, authority=Pem(str(pki.ca_file)), token="secret")
            async with KubeApi(connection, deadline=deadline, clock=Clock(), chance=random.Random(1)) as api:
                yield api, proxy, upstream
    finally:
        await runner.cleanup()


async def bind(api: KubeApi) -> Outcome:
    return await api.bind("ns", "p", "u", "n", {"kohort.dev/plan": "x" * 5000})


async def pods(api: KubeApi) -> int:
    return sum([len(items) async for items, _ in api.list_pages(PODS)])


async def watched(api: KubeApi, most: int) -> tuple[int, str]:
    """Return how many events a watch brought, at most ``most``, and what ended it."""
    seen = 0
    try:
        async with aclosing(api.watch(PODS, "5", 30)) as batches:
            async for events in batches:
                if any(event["type"] == "ERROR" for event in events):
                    return seen, str(events[-1]["object"]["code"])
                seen += len(events)
                if seen >= most:
                    return seen, "enough"
    except ClusterError as error:
        return seen, f"{error.status} {error.reason}"
    return seen, "end"


async def test_without_faults_everything_passes(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (api, proxy, upstream):
        assert await bind(api) == Done({"kind": "Status", "echo": 5178})
        assert [await pods(api) for _ in range(3)] == [200] * 3
        assert (await watched(api, 20))[1] == "enough"
        assert upstream.tokens == {"Bearer secret"}
        assert (proxy.served, proxy.injected) == (5, Counter())


# by fault: the outcome, its status, and how many calls reach the server
WRITES: dict[Kind, tuple[type[Outcome], int, int]] = {
    "drop-before": (Unknown, 0, 0),
    "drop-after": (Unknown, 0, 1),
    "truncated": (Unknown, 0, 1),
    "conflict": (Refused, 409, 0),
    "error": (Unknown, 500, 0),
    "unavailable": (Unknown, 503, 0),
    "too-many-requests": (Refused, 429, 0),
    "delay": (Unknown, 0, 0),
}


@pytest.mark.parametrize("kind", WRITES)
async def test_a_binding_that_meets_a_fault(kind: Kind, tmp_path: Path) -> None:
    want, status, reached = WRITES[kind]
    async with proxied(tmp_path, Fault(kind, seconds=3600), deadline=MISSED.get(kind, PATIENT)) as (
        api,
        proxy,
        upstream,
    ):
        outcome = await bind(api)
        assert isinstance(outcome, want)
        assert not isinstance(outcome, Refused) or outcome.status == status
        assert upstream.seen.total() == reached
        assert proxy.injected == {f"{kind} create pods/binding": 1}
        proxy.heal()
        api._deadline = PATIENT
        assert isinstance(await bind(api), Done)


async def test_a_list_that_is_cut_short_is_an_error_and_no_shorter_list(tmp_path: Path) -> None:
    async with proxied(tmp_path, Fault("truncated")) as (api, _, _):
        with pytest.raises(ClusterError):
            await pods(api)


WATCHES: dict[Kind, str] = {"cut": "0 Disconnected", "gone": "410"}


@pytest.mark.parametrize("kind", WATCHES)
async def test_a_watch_that_meets_a_fault_after_a_while(kind: Kind, tmp_path: Path) -> None:
    async with proxied(tmp_path, Fault(kind, share=0.1), seed=3) as (api, proxy, _):
        seen, end = await watched(api, 10_000)
        assert end == WATCHES[kind]
        assert 0 < seen < 200
        assert proxy.injected == {f"{kind} watch pods": 1}


async def test_a_stalled_watch_goes_on_when_healed(tmp_path: Path) -> None:
    """During the stall, the upstream sends a hundred events more than end this watch."""
    async with proxied(tmp_path, Fault("stall")) as (api, proxy, upstream):
        following = asyncio.create_task(watched(api, 50))
        await eventually(lambda: upstream.told > 150)
        assert not following.done()
        assert proxy.injected == {"stall watch pods": 1}
        proxy.heal()
        assert (await following)[1] == "enough"


async def test_faults_meet_their_share_of_what_they_are_for_and_nothing_else(tmp_path: Path) -> None:
    error = Fault("error", 0.3, verbs={"list"}, resources={"pods"})
    async with proxied(tmp_path, error) as (api, proxy, _):
        failures = 0
        for _ in range(100):
            try:
                await pods(api)
            except ClusterError:
                failures += 1
            assert isinstance(await bind(api), Done)
        assert proxy.injected == {"error list pods": failures}
        assert 15 < failures < 45


async def test_the_seed_decides_whom_a_fault_meets(tmp_path: Path) -> None:
    async def story(seed: int) -> list[bool]:
        folder = tmp_path / str(next(numbers))
        async with proxied(folder, Fault("conflict", 0.5), seed=seed) as (api, _, _):
            return [isinstance(await bind(api), Done) for _ in range(20)]

    numbers = count()
    assert await story(1) == await story(1) != await story(2)


REQUESTS: Json = {
    "GET /api/v1/pods?limit=500": RequestedVerb("list", "pods"),
    "GET /api/v1/pods?watch=1&resourceVersion=5": RequestedVerb("watch", "pods"),
    "GET /api/v1/namespaces/ns": RequestedVerb("get", "namespaces"),
    "GET /api/v1/namespaces/ns/pods/p": RequestedVerb("get", "pods"),
    "POST /api/v1/namespaces/ns/pods/p/binding": RequestedVerb("create", "pods/binding"),
    "PATCH /api/v1/namespaces/ns/pods/p/status": RequestedVerb("patch", "pods/status"),
    "PATCH /apis/kubeflow.org/v1/namespaces/ns/tfjobs/j": RequestedVerb("patch", "tfjobs"),
    "PUT /apis/coordination.k8s.io/v1/namespaces/ns/leases/l": RequestedVerb("update", "leases"),
    "DELETE /api/v1/namespaces/ns/pods/p": RequestedVerb("delete", "pods"),
    "GET /readyz": RequestedVerb("get", "/readyz"),
}


@pytest.mark.parametrize("line", REQUESTS)
def test_requests_are_named_as_kubernetes_does(line: str) -> None:
    assert asked_by(*line.split()) == REQUESTS[line]

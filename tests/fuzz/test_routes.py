"""Fuzz requests on every route over real sockets: each is answered, none with 5xx, and none changes anything."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.routing import Route

from extender.access.reviews import POD_UID
from extender.config.sections import ProgressSettings
from extender.http.limits import Limits
from extender.http.server import Endpoint, serve
from extender.kube.api import Done, Outcome
from extender.kubescheduler.wire import VERBS
from extender.routes.progress import Progress
from extender.routes.verbs import too_long
from lab.sim.invariants import violations
from tests.fuzz.mutations import JUNK, hurt, spoilt, written
from tests.fuzz.service import RUNNING, Service, stranger

Json = dict[str, Any]
Address = tuple[str, int]
LIMITS = Limits(
    body_bytes=50_000, header_bytes=20_000, header_seconds=0.5, body_seconds=0.5, keep_alive_seconds=0.5,
    graceful_seconds=0.5,
)  # fmt: skip
PROGRESS = ProgressSettings(interval_seconds=0.001)
GATE_CASES, CASES, SOAK_CASES = 1_000, 2_000, 100_000
HANGS = 60.0  # A request fails after so many seconds without a byte; routes that start a process are slow.
AT_ONCE = 16
PATHS = (
    "/v1/jobs", "/v1/jobs/team/runs", "/v1/queue", "/v1/nodes", "/v1/plans", "/v1/desired", "/v1/decisions",
    "/v1/explain/team/waits", "/v1/comparison", "/v1/stream", "/", "/parts", "/jobs/team/runs", "/jobs/team/runs/parts",
    "/comparison", "/comparison/drs", "/comparison/drs/parts", "/assets/x/page.css", "/openapi.json", "/livez",
    "/readyz", "/readyz/synced", "/healthz", "/metrics",
)  # fmt: skip
POSTED = ("/v1/what-if", "/v1/progress", "/v1/jobs/team/runs/progress")
QUERIES = (
    "after", "timeout_seconds", "since", "limit", "continue", "expected", "unblock", "policy", "verbose", "x", "kind",
)  # fmt: skip
METHODS = ("GET", "GET", "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "A")


def request(method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
    lines = (f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", f"Content-Length: {len(body)}", *headers)
    return "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + body


def chunked(path: str, body: bytes, chance: random.Random) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    parts, step = [], chance.choice((1, 7, 1000, 10**6))
    for start in range(0, len(body[:3000]), step):
        part = body[start : start + step]
        parts.append(b"%x\r\n%s\r\n" % (len(part), part))
    return head + b"".join(parts) + b"0\r\n\r\n"


def good_bodies(service: Service) -> dict[str, list[Json]]:
    """Return by verb well-formed bodies for three pods: a bound member, a waiting member, and a foreign pod."""
    pods = [service.runners[1], service.waiter, stranger()]
    asked = [{"Pod": pod, "Nodes": None, "NodeNames": ["n1", "n2"]} for pod in pods]
    binds = [
        {"PodName": m["name"], "PodNamespace": m["namespace"], "PodUID": m["uid"], "Node": "n2"}
        for m in (pod["metadata"] for pod in pods)
    ]
    victims = {"n1": {"Pods": [{"UID": "uid-runs-worker-0"}], "NumPDBViolations": 0}}
    preempts = [{"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims} for pod in pods]
    return {"filter": asked, "prioritize": asked, "bind": binds, "preempt": preempts}


NEW_NODES = {"count": 2, "like": "n1"}
WHAT_IF: Json = {
    "job": None, "cordon": ["n1"], "uncordon": [], "remove_nodes": ["n2"], "add_nodes": [NEW_NODES], "policy": "kod2",
    "parameters": {"starve_limit": 60},
}  # fmt: skip
REPORT = {"metric": 0.5, "step": 1, "steps": 10}
TOKEN = "token-of-runs-worker-0"


PEOPLE = 3
"""The listener for people with a token."""


def for_people(chance: random.Random, service: Service) -> bytes:
    """Return a request to the listener with tokens, on a random path and most often with the right token."""
    token = chance.choice((*[TOKEN] * 8, "", "x", "\xe9"))
    name = chance.choice((*["Authorization"] * 4, "X-Kohort-Authorization", "X-Other"))
    header = f"{name}: {chance.choice((*['Bearer'] * 6, 'Basic'))} {token}"
    if chance.random() < 0.3:
        body = written(hurt(WHAT_IF | {"job": service.waits}, chance), chance)
        return request("POST", "/v1/what-if", body, header)
    return request(chance.choice(METHODS) if chance.random() < 0.2 else "GET", _path(chance), b"", header)


def other_case(chance: random.Random, service: Service) -> tuple[bytes, int]:
    """Return a request for another route than a verb (what-if, progress, or with a token) and its listener's number."""
    if chance.random() < 0.4:
        return for_people(chance, service), PEOPLE
    if chance.random() < 0.5:
        question = WHAT_IF | {"job": service.waits}
        return request("POST", "/v1/what-if", written(hurt(question, chance), chance)), 0
    path = chance.choice(("/v1/progress", "/v1/jobs/team/runs/progress", f"/v1/jobs/{_piece(chance)}/runs/progress"))
    token = chance.choice((*[TOKEN] * 6, TOKEN[:-1], "", "x" * 3000, "\xe9"))
    scheme = chance.choice((*["Bearer"] * 6, "bearer", "Basic", ""))
    report = REPORT if chance.random() < 0.5 else hurt(REPORT, chance)
    return request("POST", path, written(report, chance), f"Authorization: {scheme} {token}"), 2


def case(chance: random.Random, bodies: dict[str, list[Json]]) -> tuple[bytes, bool]:
    """Return a random request, and whether a verb must answer it with 200 because it is well-formed HTTP."""
    verb = chance.choice(VERBS)
    path = f"/scheduler/v1/{verb}"
    body = written(hurt(chance.choice(bodies[verb]), chance), chance)
    match chance.randrange(10):
        case 0:
            return spoilt(request("POST", path, body), chance), False
        case 1:
            return request(chance.choice(METHODS), _path(chance), body[: chance.choice((0, 0, 100))]), False
        case 2:
            return request("GET", _path(chance), b"", f"Last-Event-ID: {_piece(chance)}"), False
        case 3:
            header = chance.choice(("Expect: 100-continue", "Upgrade: websocket", "Content-Type: \xff", "Host:", "X"))
            return request("POST", path, body, header), False
        case 4:
            return chunked(path, body, chance), len(body) <= 3000
        case _:
            return request("POST", path, body), True


def _path(chance: random.Random) -> str:
    path = chance.choice(PATHS)
    if chance.random() < 0.5:
        parts = path.split("/")
        parts[chance.randrange(1, len(parts))] = _piece(chance)
        path = "/".join(parts)
    if chance.random() < 0.6:
        pairs = (f"{chance.choice(QUERIES)}={_piece(chance)}" for _ in range(chance.randint(1, 3)))
        path += "?" + "&".join(pairs)
    return path


def _piece(chance: random.Random) -> str:
    """Return junk as part of a URL, without blanks, which would end it."""
    text = chance.choice((*map(str, JUNK), "%00", "%ff", "%2e%2e", "%", "0.01", "-0", "1e400", "é"))
    return re.sub(r"\s", "%20", text[:300])


class OneToken:
    """A stand-in for the API server's reviews: it knows one token, whose owner may read the namespace ``team``."""

    async def review_token(self, token: str, audiences: Sequence[str]) -> Outcome:
        user = {"username": "u", "extra": {POD_UID: ["uid-runs-worker-0"]}}
        return Done({"status": {"authenticated": token == TOKEN, "audiences": list(audiences), "user": user}})

    async def review_access(self, spec: Json) -> Outcome:
        return Done({"status": {"allowed": spec["resourceAttributes"].get("namespace") == "team"}})


class Running:
    """The service, and the addresses of its listeners."""

    def __init__(self, service: Service, addresses: list[Address]) -> None:
        self.service = service
        self.addresses = addresses

    async def ask(self, data: bytes, listener: int = 0) -> bytes:
        """Send the request, and return all bytes of the answer; of a stream of events only the beginning."""
        reader, writer = await asyncio.open_connection(*self.addresses[listener])
        found = b""
        try:
            writer.write(data)
            while b"text/event-stream" not in found and (more := await asyncio.wait_for(reader.read(1 << 16), HANGS)):
                found += more
            return found
        except ConnectionError:
            return found  # the answer may have come before the server closed the connection to the rest of the request
        finally:
            writer.close()


@asynccontextmanager
async def running() -> AsyncIterator[Running]:
    service, ready, stop = Service(), asyncio.Event(), asyncio.Event()
    addresses: list[Address] = []

    def on_ready(found: list[Address]) -> None:
        addresses.extend(found)
        ready.set()

    ends = [
        Endpoint(service.live.with_verbs(service.live.rest()), "127.0.0.1", 0, LIMITS, too_long),
        Endpoint(service.live.health(), "127.0.0.1", 0, LIMITS),
        Endpoint(Progress(service.live.ledger, OneToken(), PROGRESS).app(), "127.0.0.1", 0, LIMITS),
        Endpoint(service.live.guarded(OneToken()), "127.0.0.1", 0, LIMITS),
    ]
    task = asyncio.create_task(serve(ends, on_ready, stop))
    await asyncio.wait_for(ready.wait(), 60)
    try:
        yield Running(service, addresses)
    finally:
        stop.set()
        await task


def status_of(answer: bytes) -> int:
    """Return the code of the answer's last status line, because a 100 may come first; 0 if there is none."""
    found = re.findall(rb"^HTTP/1\.1 (\d{3})", answer, re.MULTILINE)
    return int(found[-1]) if found else 0


# A well-formed head: a request line, header fields, and an empty line. CONNECT is left out, because it has no path.
HEAD = re.compile(
    rb"(?:GET|POST|PUT|DELETE|PATCH|HEAD|OPTIONS|TRACE) /[!-~]* HTTP/1\.1\r\n"
    rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~]*\r\n)+\r\n"
)


def has_its_head(data: bytes) -> bool:
    """Tell whether the request's head is well-formed HTTP, so that it gets an answer whatever its body is."""
    return HEAD.match(data) is not None


async def fuzz(cases: int, seed: int) -> Counter[Any]:
    """Send ``cases`` random requests, check every answer, and return how often each HTTP status came."""
    statuses: Counter[Any] = Counter()
    async with running() as server:
        bodies = good_bodies(server.service)
        before = server.service.established()

        async def asker(lane: int) -> None:
            for number in range(lane, cases, AT_ONCE):
                chance = random.Random(f"{seed}/{number}")
                if chance.random() < 0.15:
                    (data, listener), is_verb = other_case(chance, server.service), False
                else:
                    data, is_verb = case(chance, bodies)
                    listener = int(not is_verb and chance.random() < 0.3)
                for _ in range(3):  # A busy machine may miss the short deadlines of these listeners.
                    try:
                        answer = await server.ask(data, listener)
                    except TimeoutError:
                        pytest.fail(f"case {seed}/{number}: no answer within {HANGS:g} s to {data[:2000]!r}")
                    if (status := status_of(answer)) not in (0, 408):
                        break
                statuses[status] += 1
                told = f"case {seed}/{number}: {status} {answer[-300:]!r} to {data[:2000]!r}"
                assert status < 500, told
                assert status or not has_its_head(data), told
                if listener == PEOPLE:
                    statuses[PEOPLE, status] += 1
                    assert b"stranger" not in answer, "it is of another namespace"
                if is_verb:
                    assert status == 200, told
                    json.loads(answer.partition(b"\r\n\r\n")[2])

        async with asyncio.TaskGroup() as lanes:
            for lane in range(AT_ONCE):
                lanes.create_task(asker(lane))
        _nothing_has_changed(server.service, before)
        planned = await server.ask(request("POST", "/scheduler/v1/filter", json.dumps(bodies["filter"][0]).encode()))
        assert b'"NodeNames":["n1"]' in planned
    return statuses


def _nothing_has_changed(service: Service, before: Json) -> None:
    """Check that the requests changed no object, and bound only the foreign pod and members to their own nodes."""
    assert service.established() == before
    assert violations(service.snapshot) == []
    assert set(service.snapshot.reports) <= {RUNNING}
    learned = [pod for uid, pod in service.snapshot.pods.items() if uid not in before["pods"]]
    assert [pod.uid for pod in learned if pod.node] == []
    members = {(item["metadata"]["name"], item["metadata"]["uid"], "n1") for item in service.runners}
    others = {bound[:3] for bound in service.api.bindings if bound[:2] != ("stranger", "uid-stranger")}
    assert others <= members


async def test_every_route_is_asked_with_every_parameter_of_its_own() -> None:
    service = Service()
    rest, reports = service.live.rest(), Progress(service.live.ledger, OneToken(), PROGRESS).app()
    known: dict[str, Json] = rest.openapi()["paths"]
    mounted = (*rest.routes, *service.live.health().routes, *reports.routes)
    for path in {*known, *(route.path for route in mounted if isinstance(route, Route))}:
        pattern = re.sub(r"\{\w+\}", "[^/]+", path)
        assert any(re.fullmatch(pattern, asked) for asked in (*PATHS, *POSTED)), path
    parameters = (one for methods in known.values() for told in methods.values() for one in told.get("parameters", ()))
    assert {one["name"] for one in parameters if one["in"] == "query"} <= {*QUERIES}


def test_a_well_formed_head_is_told_from_others() -> None:
    good = request("GET", "/v1/queue?x=%ff", b"\xff", "X-Other: a b")
    assert has_its_head(good)
    assert has_its_head(good + b"\r\n")
    for before, after in ((b"GET", b"get"), (b" /", b" "), (b"1.1", b"1,1"), (b"Host:", b"Host"), (b": x", b": \xff"),
                          (b"\r\n\r\n", b"\r\n"), (b"GET", b"CONNECT")):  # fmt: skip
        assert not has_its_head(good.replace(before, after)), before


@pytest.mark.parametrize("cases", [GATE_CASES, pytest.param(CASES, marks=pytest.mark.full)])
async def test_no_request_breaks_a_route_or_changes_what_it_may_not(
    cases: int, caplog: pytest.LogCaptureFixture
) -> None:
    reached(await fuzz(cases, seed=1), cases, caplog)


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_no_request_of_very_many_does(caplog: pytest.LogCaptureFixture) -> None:
    """A new service is used for each seed, because a service remembers the pods of filter calls."""
    for seed in range(2, 2 + SOAK_CASES // CASES):
        caplog.clear()
        reached(await fuzz(CASES, seed), CASES, caplog)


def reached(statuses: Counter[Any], cases: int, caplog: pytest.LogCaptureFixture) -> None:
    """Check by the statuses that requests of each sort were understood, and that no error was logged."""
    print(dict(statuses))
    assert statuses[200] > cases / 3, "most are understood as far as the verbs"
    few, many = cases * 3 / 2000, cases * 10 / 2000
    assert statuses[400] > many
    assert statuses[204] > few, "reports are taken"
    assert statuses[422] > many
    assert statuses[PEOPLE, 200] > few, "people with a token are answered"
    assert {statuses[PEOPLE, status] > 0 for status in (401, 403, 422)} == {True}
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []

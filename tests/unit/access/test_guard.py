"""The guard of the listener for people: whom it admits, what it asks the API server, and what it answers to others."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import httpx
import pytest

from extender.access.reviews import AT_ONCE, REFUSED_SECONDS, WAITING, TimedCache
from extender.http.headers import FORWARDED_HEADER
from extender.kubescheduler.wire import VERBS, VERBS_PATH
from policy.cluster.events import Led
from tests.stage import HandClock
from tests.unit.access.scenes import HIDDEN, OURS, Cluster, Server, client, cluster, job

DENIED: dict[str, tuple[str, str, int, str]] = {
    "no token": ("", "/v1/queue", 401, "send Authorization: Bearer TOKEN, one for kohort.dev"),
    "another scheme": ("Basic YTpi", "/v1/queue", 401, "no token"),
    "an empty token": ("Bearer  ", "/v1/queue", 401, "no token"),
    "a forged one": ("Bearer forged", "/v1/queue", 401, "does not accept this token; allowed: one for kohort.dev"),
    "no right": ("Bearer token-eve", "/v1/queue", 403, "eve may not list jobs.kohort.dev in any namespace"),
    "another namespace": (
        "Bearer token-ann",
        f"/v1/jobs/{HIDDEN}/canary",
        403,
        f"in namespace {HIDDEN}; ask for a RoleBinding",
    ),
    "one where nothing is": ("Bearer token-ann", "/v1/explain/nowhere/x", 403, "in namespace nowhere"),
    "another's page": ("Bearer token-ann", f"/jobs/{HIDDEN}/canary", 403, f"in namespace {HIDDEN}"),
    "its parts": ("Bearer token-ann", f"/jobs/{HIDDEN}/canary/parts", 403, "kohort-view"),
    "the controller's orders": ("Bearer token-ann", "/v1/desired", 403, "in all namespaces, as /v1/desired asks for"),
    "what is no route": ("Bearer token-ann", "/v2/anything", 403, "in all namespaces"),
    "a route with a slash": ("Bearer token-ann", "/v1/desired/", 403, "in all namespaces"),
}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def made() -> Cluster:
    found = cluster().nodes("n1")
    found.start(job("mine").workers(1), job("canary", HIDDEN).workers(1))
    return found


@pytest.mark.parametrize(("header", "path", "status", "text"), DENIED.values(), ids=DENIED.keys())
async def test_who_is_not_let_in_is_told_what_is_missing(
    made: Cluster, server: Server, header: str, path: str, status: int, text: str
) -> None:
    async with client(made, server, "") as asking:
        answer = await asking.get(path, headers={"Authorization": header} if header else {})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert text in answer.json()["detail"]
    assert ("www-authenticate" in answer.headers) == (status == 401)
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/openapi.json", "/assets/0/none"])
async def test_what_holds_nothing_of_the_cluster_needs_no_token(made: Cluster, server: Server, path: str) -> None:
    async with client(made, server, "") as asking:
        assert (await asking.get(path)).status_code in (200, 404)
    assert server.asked == []


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("token", ["ann", "root"])
async def test_the_schedulers_verbs_are_not_here(made: Cluster, server: Server, verb: str, token: str) -> None:
    async with client(made, server, token) as asking:
        answer = await asking.post(f"{VERBS_PATH}/{verb}", json={})
    assert answer.status_code == {"ann": 403, "root": 404}[token]


async def test_behind_the_api_servers_proxy_the_token_comes_in_another_header(made: Cluster, server: Server) -> None:
    async with client(made, server, "") as asking:
        answer = await asking.get("/v1/jobs", headers={FORWARDED_HEADER: "Bearer token-ann"})
    assert [one["name"] for one in answer.json()["jobs"]] == ["mine"]


@pytest.mark.parametrize(("audiences", "asked_for", "status"), [
    (["kohort.dev"], ("kohort.dev",), 200), (["https://kubernetes.default.svc"], ("kohort.dev",), 401),
    ([], ("kohort.dev",), 401), ([], (), 200), (["b"], ("a", "b"), 200),
])  # fmt: skip
async def test_a_token_is_taken_for_our_audiences_alone(
    server: Server, audiences: list[str], asked_for: tuple[str, ...], status: int
) -> None:
    made = cluster(api={"audiences": asked_for}).nodes("n1")
    made.start(job("mine").workers(1))
    server.audiences = audiences
    async with client(made, server) as ann:
        assert (await ann.get("/v1/jobs")).status_code == status


async def test_a_replica_that_does_not_lead_sends_people_to_the_one_that_does(made: Cluster, server: Server) -> None:
    made.do(Led(False))
    async with client(made, server) as ann:
        answer = await ann.get("/v1/queue")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "another replica answers" in answer.json()["detail"]
        made.do(Led(True))
        assert (await ann.get("/v1/queue")).status_code == 200


# -- The tests below are about how often the API server is asked to review a token or a right. ---


async def test_answers_are_kept_for_a_short_time_and_no_longer(made: Cluster, server: Server) -> None:
    async with client(made, server) as ann:
        for _ in range(5):
            await ann.get("/v1/jobs")
        assert server.asked == ["token-ann", ("ann", ""), ("ann", HIDDEN), ("ann", OURS)]
        server.rights["ann"] = set()
        assert (await ann.get("/v1/jobs")).status_code == 200, "for a moment"
        made.live.clock.time += 31  # type: ignore[attr-defined]
        assert (await ann.get("/v1/jobs")).status_code == 403, "the right was taken away"
        server.rights["ann"] = {HIDDEN}
        made.live.clock.time += 31  # type: ignore[attr-defined]
        assert [one["name"] for one in (await ann.get("/v1/jobs")).json()["jobs"]] == ["canary"]


async def test_another_sight_is_another_answer_even_where_nothing_was_decided(made: Cluster, server: Server) -> None:
    async with client(made, server) as ann, client(made, server, "root") as root:
        tag = (await ann.get("/v1/jobs")).headers["etag"]
        assert (await ann.get("/v1/jobs", headers={"If-None-Match": tag})).status_code == 304
        assert (await root.get("/v1/jobs", headers={"If-None-Match": tag})).status_code == 200


async def test_a_refused_token_is_not_reviewed_at_each_try(made: Cluster, server: Server) -> None:
    async with client(made, server, "none") as asking:
        for _ in range(5):
            assert (await asking.get("/v1/jobs")).status_code == 401
        made.live.clock.time += REFUSED_SECONDS + 1  # type: ignore[attr-defined]
        await asking.get("/v1/jobs")
    assert server.asked == ["token-none", "token-none"]


async def test_when_the_api_server_says_nothing_nobody_is_let_in_and_nothing_is_kept(
    made: Cluster, server: Server
) -> None:
    async with client(made, server) as ann:
        server.down = True
        answer = await ann.get("/v1/jobs")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "no answer within 4 s" in answer.json()["detail"]
        server.down = False
        assert (await ann.get("/v1/jobs")).status_code == 200
        server.down = True
        assert (await ann.get("/v1/jobs")).status_code == 200, "what was said is good for a moment"
        made.live.clock.time += 31  # type: ignore[attr-defined]
        assert (await ann.get("/v1/jobs")).status_code == 503
        what_if = {"job": {"kind": "TFJob", "metadata": {"namespace": "fresh", "name": "x"}}}
        server.down = False
        await ann.get("/v1/jobs")
        server.down = True
        assert (await ann.post("/v1/what-if", json=what_if)).status_code == 503


class Slow(Server):
    """A fake API server whose token reviews wait for the event ``go``; ``most`` is the most that waited at once."""

    def __init__(self) -> None:
        super().__init__()
        self.go, self.here, self.most = asyncio.Event(), 0, 0

    async def review_token(self, token: str, audiences: Any) -> Any:
        self.here += 1
        self.most = max(self.most, self.here)
        await self.go.wait()
        self.here -= 1
        return await super().review_token(token, audiences)


async def test_a_flood_of_tokens_is_no_flood_of_reviews(made: Cluster) -> None:
    server = Slow()
    async with client(made, server, "") as asking:
        flood = [
            asyncio.create_task(asking.get("/v1/jobs", headers={"Authorization": f"Bearer {number}"}))
            for number in range(AT_ONCE + WAITING + 10)
        ]
        await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        server.go.set()
        statuses = [answer.status_code for answer in await asyncio.gather(*flood)]
    assert server.most <= AT_ONCE
    assert (statuses.count(401), statuses.count(429)) == (AT_ONCE + WAITING, 10)


def test_what_is_kept_is_bounded_and_the_least_used_goes() -> None:
    kept: TimedCache[int, str] = TimedCache(HandClock(), most=3)
    for number in range(3):
        kept.keep(number, "x", 10)
    kept.get(0)
    kept.keep(3, "x", 10)
    assert (len(kept), [kept.get(number) for number in range(4)]) == (3, ["x", None, "x", "x"])


@pytest.mark.parametrize(
    "header", ["Bearer \xff", "Bearer " + "x" * 9000, "Bearer", "Bearer a b", base64.b64encode(b"x").decode()]
)
async def test_an_odd_header_is_no_fault_of_ours(made: Cluster, server: Server, header: str) -> None:
    async with client(made, server, "") as asking:
        answer = await asking.get("/v1/jobs", headers=httpx.Headers([(b"authorization", header.encode("latin-1"))]))
    assert answer.status_code == 401


# -- The test below is about what a caller sees in the stream of events. -------------------------


async def test_a_stream_tells_what_may_be_seen_and_ends_with_the_review(made: Cluster, server: Server) -> None:
    latest = made.live.ledger.journal.latest
    guarded = made.live.guarded(server)
    sent: list[bytes] = []

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))
        if message.get("body") and len([part for part in sent if part]) == 2:
            made.live.clock.time += 31  # type: ignore[attr-defined]
        elif message.get("body"):
            made.submit(job("canary-next", HIDDEN).workers(1), job("next").workers(1))

    headers = [
        (b"authorization", b"Bearer token-ann"),
        (b"last-event-id", f"{made.live.questions.instance}.0".encode()),
    ]
    scope = {
        "type": "http", "method": "GET", "path": "/v1/stream", "raw_path": b"/v1/stream", "query_string": b"",
        "headers": headers, "http_version": "1.1", "scheme": "http", "root_path": "", "client": None, "server": None,
    }  # fmt: skip
    await asyncio.wait_for(guarded(scope, receive, send), 60)
    text = b"".join(sent).decode()
    assert "canary" not in text
    assert '"name":"mine"' in text
    assert '"name":"next"' in text
    assert made.live.ledger.journal.latest > latest
    assert made.live.questions.streams.open == 0

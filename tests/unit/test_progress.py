"""Reports of training code: which pod may report for which job, what is accepted, and that no pod can
disturb others.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from extender import reporting
from extender.access.reviews import AT_ONCE, MOST_KEPT, POD_UID, REFUSED_SECONDS, BusyError, Tokens
from extender.config.sections import ProgressSettings as Settings
from extender.kube.api import TFJOBS, Done, Outcome, Unknown
from extender.kube.jobobjects import recorded_reports
from extender.kube.translate import Translator
from extender.routes.progress import Progress
from extender.state.journal import Journal
from extender.state.ledger import Ledger
from policy.cluster.events import JobSeen, Led, NodeSeen, PodGone, PodSeen, Reported, Synced
from policy.cluster.gang import Deadline, State
from policy.cluster.lifecycle import Awaits
from policy.cluster.snapshot import Rules
from policy.cluster.training import Report
from policy.desired import desired
from policy.systems import make_policy
from tests.e2e.tfjobs import TFJob
from tests.stage import HandClock, virtual
from tests.unit.test_rest import job, node, pod

A, B = job("a", holds_notes=True), job("b", holds_notes=True)


class Server:
    """A fake API server that knows the token ``pod-UID`` as that of the pod with this uid, and no other token."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.slow: asyncio.Event | None = None
        self.enough, self.all_asked = 4, asyncio.Event()
        self.down = False
        self.audiences = ["kohort.dev"]

    async def review_token(self, token: str, audiences: Sequence[str]) -> Outcome:
        self.asked.append(token)
        if len(self.asked) == self.enough:
            self.all_asked.set()
        if self.slow is not None:
            await self.slow.wait()
        if self.down:
            return Unknown("no answer")
        if not token.startswith("pod-"):
            return Done({"status": {"authenticated": False}})
        user = {"username": "system:serviceaccount:team:default", "extra": {POD_UID: [token.removeprefix("pod-")]}}
        return Done({"status": {"authenticated": True, "audiences": self.audiences, "user": user}})


class Service:
    def __init__(self) -> None:
        self.clock, self.server = HandClock(), Server()
        self.ledger = Ledger(make_policy("kod2"), Rules(), self.clock, Journal())
        members = [PodSeen(pod(one, "worker", 0)) for one in (A, B)]
        self.ledger.step(NodeSeen(node("n1")), JobSeen(A), JobSeen(B), *members, Synced())
        app = Progress(self.ledger, self.server, Settings(enabled=True)).app()
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://kohort")

    async def report(
        self, token: str, path: str = "/v1/progress", body: Any = None, raw: bytes = b""
    ) -> tuple[int, str]:
        content = raw or json.dumps({"metric": 0.5, "step": 10, "steps": 100} if body is None else body).encode()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = await self.client.post(path, content=content, headers=headers)
        self.ledger.step()
        return answer.status_code, answer.json()["message"] if answer.content else ""

    def reports(self, name: str) -> list[tuple[float | None, float | None]]:
        return [(one.metric, one.done) for one in self.ledger.snapshot.reports.get(f"team/u-{name}", ())]


def token(of: str) -> str:
    return f"pod-{pod(A if of == 'a' else B, 'worker', 0).uid}"


@virtual
async def test_a_member_reports_for_its_job() -> None:
    service = Service()
    assert await service.report(token("a")) == (204, "")
    assert await service.report(token("b"), "/v1/jobs/team/b/progress", {"metric": 3}) == (204, "")
    assert (service.reports("a"), service.reports("b")) == ([(0.5, 0.1)], [(3.0, None)])


WRONG_TOKENS = {
    "none": ("", 401),
    "forged": ("x", 401),
    "of a pod that is not known": ("pod-unknown", 403),
}


@pytest.mark.parametrize(("token", "status"), WRONG_TOKENS.values(), ids=WRONG_TOKENS.keys())
@virtual
async def test_who_is_no_member_changes_nothing(token: str, status: int) -> None:
    service = Service()
    found, text = await service.report(token)
    assert found == status
    assert text
    assert service.ledger.snapshot.reports == {}


@virtual
async def test_nobody_reports_for_another_job() -> None:
    service = Service()
    status, text = await service.report(token("a"), "/v1/jobs/team/b/progress")
    assert status == 403
    assert "a member of team/a and not of team/b" in text
    assert service.ledger.snapshot.reports == {}


@virtual
async def test_a_token_for_another_audience_is_not_ours() -> None:
    service = Service()
    service.server.audiences = ["https://kubernetes.default.svc"]
    assert (await service.report(token("a")))[0] == 401


@virtual
async def test_a_pod_that_is_gone_reports_no_more_even_if_its_token_is_still_known() -> None:
    service = Service()
    await service.report(token("a"))
    service.clock.time += 5
    service.ledger.step(PodGone(pod(A, "worker", 0).uid))
    assert (await service.report(token("a")))[0] == 403


BODIES: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{", "the body"),
    "a list": (b"[1]", "the body"),
    "an unknown field": (b'{"loss": 1}', "loss"),
    "a text": (b'{"metric": "low"}', "metric"),
    "NaN": (b'{"metric": NaN}', "the body"),
    "a key twice": (b'{"metric": 1, "metric": 2}', "the body: a key is repeated"),
    "absurd": (b'{"metric": 1e300}', "metric: 1e+300 is not allowed"),
    "nothing": (b"{}", "nothing is reported"),
    "beyond the end": (b'{"step": 11, "steps": 10}', "step: 11 is not allowed; allowed: 0 to steps (10)"),
    "before the start": (b'{"step": -1, "steps": 10}', "step: -1"),
    "no steps at all": (b'{"step": 0, "steps": 0}', "step: 0"),
    "later than now": (b'{"metric": 1, "time": 1000061}', "time: 1000061.0 is not allowed"),
    "before time began": (b'{"metric": 1, "time": -1}', "time: -1.0 is not allowed"),
    "half a step": (b'{"step": 0.5, "steps": 10}', "step"),
    "not text": (b'{"metric": "\xff"}', "the body"),
}


@pytest.mark.parametrize(("raw", "told"), BODIES.values(), ids=BODIES.keys())
@virtual
async def test_a_body_that_cannot_be_used_is_refused_by_field(raw: bytes, told: str) -> None:
    service = Service()
    status, text = await service.report(token("a"), raw=raw)
    assert status == 422
    assert told in text
    assert service.ledger.snapshot.reports == {}


@virtual
async def test_a_report_may_say_when_it_was_made() -> None:
    service = Service()
    await service.report(token("a"), body={"metric": 1, "time": service.clock.time - 30})
    # this pod's clock is 30 s ahead of the service's
    await service.report(token("b"), body={"metric": 1, "time": service.clock.time + 30})
    times = [
        one.at - service.clock.time for uid in ("a", "b") for one in service.ledger.snapshot.reports[f"team/u-{uid}"]
    ]
    assert times == [-30, 0]


NOTED = {
    "a metric": ('{"metric": 0.5, "time": 1000}', (Report(1000.0, 0.5),)),
    "steps": ('{"step": 1, "steps": 4, "time": 1000}', (Report(1000.0, None, 0.25),)),
    "no time": ('{"metric": 0.5}', ()),
    "no JSON": ("half way", ()),
    "absurd": ('{"metric": 1e300, "time": 1000}', ()),
    "too long": (f'{{"metric": 0.5, "time": 1000{" " * 2000}}}', ()),
    "half a letter": ('{"metric": 0.5, "time": 1000}\udcff', ()),
    "nothing": ("", ()),
}


@pytest.mark.parametrize(("text", "reports"), NOTED.values(), ids=NOTED.keys())
def test_what_is_told_by_annotation_is_a_report_or_nothing(text: str, reports: tuple[Report, ...]) -> None:
    item: Any = TFJob("team", "a").manifest()
    item["metadata"] |= {"uid": "u-a", "resourceVersion": "7"}
    item["metadata"]["annotations"]["kohort.dev/progress"] = text
    events = Translator("kohort").events(TFJOBS, {"type": "ADDED", "object": item})
    assert not any(event.job.invalid for event in events if isinstance(event, JobSeen))
    assert tuple(event.report for event in events if isinstance(event, Reported)) == reports


@virtual
async def test_one_job_reports_once_a_second_and_the_others_do_not_notice() -> None:
    service = Service()
    taken = [(await service.report(token("a")))[0] for _ in range(20)]
    assert taken == [204] + [429] * 19
    assert (await service.report(token("b")))[0] == 204
    service.clock.time += 1.1
    assert (await service.report(token("a")))[0] == 204


@virtual
async def test_a_token_is_reviewed_once_a_minute_and_a_refused_one_not_at_each_try() -> None:
    service = Service()
    for _ in range(10):
        await service.report(token("a"))
        await service.report("forged")
    assert service.server.asked == [token("a"), "forged"]
    service.clock.time += 61
    await service.report(token("a"))
    assert service.server.asked.count(token("a")) == 2


@virtual
async def test_a_flood_of_tokens_does_not_become_a_flood_of_reviews() -> None:
    service = Service()
    service.server.slow = asyncio.Event()
    first = [asyncio.create_task(service.report(f"x{n}")) for n in range(4)]
    await service.server.all_asked.wait()
    refused = [(await service.report(f"y{n}"))[0] for n in range(20)]
    assert refused == [429] * 20
    service.server.slow.set()
    assert [status for status, _ in await asyncio.gather(*first)] == [401] * 4


@virtual
async def test_a_flood_of_tokens_does_not_keep_a_member_from_reporting_whose_token_was_good_before() -> None:
    service = Service()
    assert (await service.report(token("a")))[0] == 204
    service.clock.time += Settings().token_seconds + 1
    service.server.slow, service.server.enough = asyncio.Event(), 1 + 4
    flood = [asyncio.create_task(service.report(f"x{n}")) for n in range(4)]
    await service.server.all_asked.wait()
    member = asyncio.create_task(service.report(token("a")))
    done, _ = await asyncio.wait([member], timeout=60)
    assert not done, "its token is being reviewed"
    service.server.slow.set()
    assert (await member)[0] == 204
    assert [status for status, _ in await asyncio.gather(*flood)] == [401] * 4


@virtual
async def test_tokens_that_are_nobodys_push_no_owner_out() -> None:
    server = Server()
    tokens = Tokens(server, HandClock(), (), 60.0)
    assert await tokens.owner("pod-a") is not None
    for number in range(MOST_KEPT + 1):
        assert await tokens.owner(f"x{number}") is None
    assert await tokens.owner("pod-a") is not None
    assert server.asked.count("pod-a") == 1


@virtual
async def test_a_token_that_is_nobodys_any_more_has_no_place_of_its_own() -> None:
    server, clock = Server(), HandClock()
    tokens = Tokens(server, clock, (server.audiences[0],), 60.0, waiting=0)
    assert await tokens.owner("pod-a") is not None
    server.audiences = []
    clock.time += 61
    assert await tokens.owner("pod-a") is None
    clock.time += REFUSED_SECONDS + 1
    server.slow, server.enough, server.all_asked = asyncio.Event(), len(server.asked) + AT_ONCE, asyncio.Event()
    flood = [asyncio.create_task(tokens.owner(f"x{n}")) for n in range(AT_ONCE)]
    await server.all_asked.wait()
    with pytest.raises(BusyError):
        await tokens.owner("pod-a")
    server.slow.set()
    await asyncio.gather(*flood)


@virtual
async def test_while_the_api_server_is_down_the_reporter_is_told_to_try_again() -> None:
    service = Service()
    service.server.down = True
    assert (await service.report(token("a")))[0] == 503
    service.server.down = False
    assert (await service.report(token("a")))[0] == 204


@virtual
async def test_a_replica_that_follows_takes_no_report() -> None:
    service = Service()
    service.ledger.step(Led(False))
    status, text = await service.report(token("a"))
    assert status == 503
    assert "does not lead" in text


def test_reports_are_noted_on_the_job_once_a_minute_and_survive_a_restart() -> None:
    service = Service()
    ledger = service.ledger
    times = [10.0 * n for n in range(1, 13)]
    noted = []
    for at in times:
        service.clock.time = 1_000_000.0 + at
        ledger.step(Reported(A.uid, Report(1_000_000.0 + at, metric=1 / at)))
        for order in desired(ledger.snapshot, 500).note:
            noted.append(at)
            item = {"metadata": {"annotations": {"kohort.dev/reports": order.reports}}}
            newest = max(report.at for report in recorded_reports(item))
            ledger.step(JobSeen(replace(A, reported=newest, version=A.version + len(noted))))
    assert noted == [10.0, 70.0]
    assert recorded_reports(item)[0].metric == 0.1
    assert len(recorded_reports(item)) <= 8


def test_reports_count_at_once_after_a_clock_that_was_ahead_has_been_set_back() -> None:
    """The job object holds the time of a report that was noted while the clock was an hour ahead."""
    ledger = Service().ledger
    now = ledger.now()
    ahead = Report(now + 3600.0, metric=9.0, done=0.1)
    ledger.step(JobSeen(replace(A, reported=ahead.at, version=A.version + 1)), Reported(A.uid, ahead))
    fresh = Report(now, metric=1.0, done=0.2)
    ledger.step(Reported(A.uid, fresh))
    assert ledger.snapshot.reports[A.uid] == (fresh,)
    order = next(iter(desired(ledger.snapshot, 500).note))
    assert recorded_reports({"metadata": {"annotations": {"kohort.dev/reports": order.reports}}}) == (fresh,)
    ledger.step(JobSeen(replace(A, reported=fresh.at, version=A.version + 2)))
    assert not desired(ledger.snapshot, 500).note


@pytest.mark.parametrize(
    "text", ["", "x", "{}", "[1]", "[[1,2]]", "[[NaN,1,1]]", "[[1,1e400,1]]", "[[-1,1,1]]", "[" * 9000]
)
def test_a_spoilt_history_counts_as_none(text: str) -> None:
    assert recorded_reports({"metadata": {"annotations": {"kohort.dev/reports": text}}}) == ()


# -- The tests below are about the checkpoint that training saves before it is moved. ---------------


def moving() -> Service:
    """Return a service in which job a is migrating and its training is asked to save first."""
    service = Service()
    ledger = service.ledger
    deadline = Deadline(Awaits.CHECKPOINT, service.clock.time + 30)
    gang = replace(ledger.snapshot.gang(A.uid), state=State.MIGRATING, deadline=deadline)
    ledger.snapshot = replace(ledger.snapshot, gangs={**ledger.snapshot.gangs, A.uid: gang})
    return service


async def raw_answer(service: Service, body: Any) -> httpx.Response:
    return await service.client.post("/v1/progress", json=body, headers={"Authorization": f"Bearer {token('a')}"})


@virtual
async def test_a_report_of_a_job_that_is_to_be_moved_is_answered_with_the_wish_for_a_checkpoint() -> None:
    service = moving()
    answer = await raw_answer(service, {"metric": 1})
    assert (answer.status_code, answer.json()) == (200, {"checkpoint": True})
    assert await service.report(token("b"), body={"metric": 1}) == (204, "")


@virtual
async def test_saved_is_taken_at_once_and_only_for_the_own_job() -> None:
    service = moving()
    assert (await service.report(token("b"), body={"saved": True}))[0] == 204
    assert service.ledger.snapshot.gang(A.uid).saving
    service.clock.time += 2
    assert (await raw_answer(service, {"metric": 1})).status_code == 200
    # a report of a saved checkpoint is taken within the same second as another report
    assert await service.report(token("a"), body={"saved": True}) == (204, "")
    assert not service.ledger.snapshot.gang(A.uid).saving
    assert (await service.report(token("a"), body={"saved": True}))[0] == 429


# -- The tests below are about the helper that training code reports with. -----------------------


class Heard(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.heard.append((self.path, self.headers["Authorization"], body))  # type: ignore[attr-defined]
        answer = b'{"checkpoint": true}' if body.get("metric") == 7 else b""
        self.send_response(200 if answer else 204)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Set up the reporting helper with a token and without earlier reports; afterwards wait for a report in flight."""
    (tmp_path / "token").write_text("secret\n")
    monkeypatch.setenv("KOHORT_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setattr(reporting._Pace, "last", -reporting.EVERY_SECONDS)
    monkeypatch.setattr(reporting._Pace, "sent", None)
    # long enough for a slow machine: an answer that comes is waited for
    monkeypatch.setattr(reporting, "WAIT_SECONDS", 60.0)
    yield monkeypatch
    arrive()


def arrive() -> None:
    """Wait until the report in flight has been answered or given up."""
    if reporting._Pace.sent is not None:
        reporting._Pace.sent.join(60.0)


def soon(helper: pytest.MonkeyPatch) -> None:
    """Set the helper's last report back, so that the pause between reports is over."""
    helper.setattr(reporting._Pace, "last", -reporting.EVERY_SECONDS)


def listen(helper: pytest.MonkeyPatch, port: int) -> None:
    helper.setenv("KOHORT_PROGRESS_URL", f"http://127.0.0.1:{port}/v1/progress")


@pytest.fixture
def heard(helper: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Heard) as server:
        server.heard = []  # type: ignore[attr-defined]
        threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True).start()
        listen(helper, server.server_port)
        yield server
        server.shutdown()


def test_the_helper_reports_with_the_pods_token_and_not_too_often(heard: HTTPServer) -> None:
    assert reporting.report(metric=0.25, step=1, steps=4)
    assert not reporting.report(metric=0.2, step=2, steps=4)
    body = {"metric": 0.25, "step": 1, "steps": 4}
    assert heard.heard == [("/v1/progress", "Bearer secret", body)]  # type: ignore[attr-defined]


def test_the_helper_says_when_to_save_and_tells_when_it_is_done(heard: HTTPServer) -> None:
    assert reporting.report(metric=7) == (True, True)
    assert reporting.saved()
    assert heard.heard[-1][2] == {"saved": True}  # type: ignore[attr-defined]


def test_the_helper_takes_numbers_of_any_library(heard: HTTPServer) -> None:
    assert reporting.report(metric=np.float32(0.25), step=np.int64(1), steps=np.array(4))
    assert heard.heard[-1][2] == {"metric": 0.25, "step": 1, "steps": 4}  # type: ignore[attr-defined]


@pytest.mark.parametrize("given", [{"metric": "low"}, {"metric": np.zeros(2)}, {"step": math.nan}])
def test_the_helper_drops_what_is_no_number(helper: pytest.MonkeyPatch, given: dict[str, Any]) -> None:
    assert reporting.report(**given) == (False, False)
    assert reporting._Pace.sent is None


def test_the_helper_never_raises(helper: pytest.MonkeyPatch) -> None:
    helper.setenv("KOHORT_TOKEN_FILE", "/nowhere/token")
    assert not reporting.report(metric=1.0)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/v1 progress", "nowhere", "http://127.0.0.1:x/"])
def test_the_helper_takes_an_address_that_is_none_as_nobody(helper: pytest.MonkeyPatch, url: str) -> None:
    helper.setenv("KOHORT_PROGRESS_URL", url)
    assert reporting._try({"metric": 1.0}) == (False, False)


BROKEN = {
    "no HTTP": b"garbage\r\n\r\n",
    "cut off": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
    "a list": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    "nothing": b"",
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
def test_the_helper_takes_a_broken_answer_as_none(helper: pytest.MonkeyPatch, answer: bytes) -> None:
    def serve() -> None:
        taken, _ = listener.accept()
        with taken:
            taken.recv(4096)
            taken.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listen(helper, listener.getsockname()[1])
        threading.Thread(target=serve, daemon=True).start()
        assert reporting._try({"metric": 1.0}) == (False, False)


def test_training_waits_for_who_never_answers_once_and_briefly(helper: pytest.MonkeyPatch) -> None:
    waited: list[float | None] = []

    def join(sending: threading.Thread, timeout: float | None = None) -> None:
        waited.append(timeout)
        threading.Thread.join(sending, timeout)

    helper.setattr(reporting, "WAIT_SECONDS", 0.01)
    helper.setattr(reporting, "SECONDS", 60.0)
    helper.setattr(reporting._Sending, "join", join)
    with socket.create_server(("127.0.0.1", 0)) as listener:  # the listener accepts connections and never answers
        listen(helper, listener.getsockname()[1])
        assert not reporting.report(metric=1.0)
        first = reporting._Pace.sent
        soon(helper)
        assert not reporting.report(metric=2.0)
        assert reporting._Pace.sent is first, "one at a time"
        assert not reporting.saved()
        assert waited == [0.01, 0.01]
    arrive()  # the listener is closed by now
    soon(helper)
    waited.clear()
    assert not reporting.report(metric=3.0)
    assert reporting._Pace.sent is not first
    assert waited == []


def test_an_answer_that_comes_late_is_told_by_the_next_call_once(heard: HTTPServer, helper: pytest.MonkeyPatch) -> None:
    helper.setattr(reporting, "WAIT_SECONDS", 0.0)
    answers = [reporting.report(metric=7)]
    arrive()
    answers += [reporting.report(metric=1), reporting.report(metric=1)]
    assert [one for one in answers if one] == [(True, True)]
    soon(helper)
    reporting.report(metric=1)
    arrive()
    helper.setattr(reporting, "WAIT_SECONDS", 60.0)
    soon(helper)
    assert reporting.report(metric=7) == (True, True), "who answers in time is waited for again"


def test_the_helper_imports_nothing_heavy(tmp_path: Path) -> None:
    shutil.copy(str(reporting.__file__), tmp_path / "kohort.py")  # the wheel installs the helper under this name
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import kohort; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded & {"numpy", "kubernetes", "fastapi", "pydantic", "httpx", "extender", "policy"} == set()

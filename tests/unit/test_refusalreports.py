"""Reports of refused writes from the controller to the extender: who may send them, when they are shown and end."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import httpx
import pytest

from extender.app import Live
from extender.config.settings import Settings
from extender.control.extenderrest import ExtenderError
from extender.control.refusalreports import PASSING, REFUSED, RefusalReports
from extender.http.headers import CLIENT_HEADER, CONTROLLER
from extender.kube.api import Done, Outcome, Refused, Unknown
from extender.kube.responses import outcome
from extender.present.views.refused import MOST_REFUSED
from policy.cluster.events import BindRefused, Led, Synced
from policy.cluster.reasons import Reason
from policy.cluster.refusedwrite import MOST_CHARACTERS
from tests.builders import JobSeen, PodSeen, job, members
from tests.stage import HandClock, Stage, VirtualClock, virtual
from tests.unit.test_barrier import whole_gang
from tests.unit.test_controller import Bench, FakeApi, FakeLease, orders, pod

FIXED = Refused(422, "Invalid", "the size of a training job is fixed here")
CONFLICT = Refused(409, "Conflict", "the object has been modified")
BUDGET = Refused(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")
FORBIDDEN = Refused(403, "Forbidden", 'cannot create resource "pods/eviction"')
DENIED = 'admission webhook "size.example.com" denied the request: it has its size'
POLICY = "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: it has its size"
WEBHOOK = Unknown('HTTP 500 InternalError: failed calling webhook "size.example.com": connection refused')


# -- The tests below are about the refused writes that the controller reports. -------------------


async def told_after(answer: Outcome, seconds: float, **wanted: Any) -> list[tuple[str, str, str, bool]]:
    async with Bench() as bench:
        bench.api.answers["a"] = answer
        bench.extender.want(orders(**(wanted or {"release": (pod("a"),)})))
        await bench.pass_time(seconds)
        return [(one.write, one.uid, one.message, one.lasting) for told in bench.extender.told for one in told]


@virtual
@pytest.mark.parametrize(
    "answer",
    [
        FIXED,
        FORBIDDEN,
        *(Refused(status, "No", DENIED) for status in (400, 401, 404, 409, 429, 503)),
        *(Refused(status, "No", POLICY) for status in (401, 403, 413, 422)),
    ],
    ids=lambda answer: f"{answer.status} {answer.message[:20]}",
)
async def test_what_is_refused_twice_is_told_with_the_api_servers_words(answer: Refused) -> None:
    assert await told_after(answer, 0.4) == []
    assert await told_after(answer, 5) == [("Release", "uid-a", f"{answer.reason}: {answer.message}", True)]


@virtual
@pytest.mark.parametrize(
    "answer", [CONFLICT, BUDGET, WEBHOOK], ids=["a conflict", "a budget", "a webhook that is down"]
)
async def test_what_may_pass_is_told_when_it_goes_on(answer: Refused | Unknown) -> None:
    assert await told_after(answer, 3) == []
    (told,) = {*await told_after(answer, 90)}
    assert told == ("Release", "uid-a", answer.words, False)


@virtual
async def test_it_is_over_once_the_write_is_made_or_no_longer_wanted() -> None:
    async with Bench() as bench:
        bench.api.answers |= {"a": FIXED, "b": FIXED}
        bench.extender.want(orders(release=(pod("a"), pod("b"))))
        await bench.until(lambda: [len(told) for told in bench.extender.told][-1:] == [2])
        bench.api.answers["a"] = Done({})
        await bench.until(lambda: [one.uid for one in bench.extender.told[-1]] == ["uid-b"])
        bench.extender.want(orders())
        await bench.until(lambda: bench.extender.told[-1] == ())
        bench.extender.want(orders(release=(pod("b"),)))
        await bench.pass_time(0.3)
        assert bench.extender.told[-1] == (), "it counts from the beginning again"


@virtual
async def test_an_extender_that_is_new_or_was_down_is_told_all_of_it() -> None:
    async with Bench() as bench:
        bench.api.answers["a"] = FIXED
        bench.extender.want(orders(release=(pod("a"),)))
        await bench.pass_time(10)
        before = len(bench.extender.told)
        assert [one.uid for one in bench.extender.told[-1]] == ["uid-a"]
        bench.extender.want(orders(release=(pod("a"),)).model_copy(update={"instance": "two"}))
        await bench.until(lambda: len(bench.extender.told) == before + 1)
        assert bench.extender.told[-1] == bench.extender.told[before - 1]


@virtual
async def test_a_list_that_is_not_taken_is_told_again() -> None:
    told, down = list[bytes](), [True]

    async def tell(path: str, body: bytes, seconds: float) -> None:
        del path, seconds
        if down[0]:
            raise ExtenderError("no")
        told.append(body)

    refusals = RefusalReports(tell, 1.0, VirtualClock(), FakeLease())
    running = asyncio.create_task(refusals.run())
    refusals.keep([], "one")
    await asyncio.sleep(3)
    assert told == []
    down[0] = False
    await asyncio.sleep(3)
    assert len(told) == 1
    running.cancel()


@virtual
async def test_one_that_does_not_lead_tells_nothing_and_tells_it_once_it_does() -> None:
    async with Bench() as bench:
        bench.api.answers["a"] = FIXED
        bench.extender.want(orders(release=(pod("a"),)))
        await bench.until(lambda: bench.extender.told[-1:] not in ([], [()]))
        bench.lease.leads = False
        bench.extender.want(orders())
        await bench.pass_time(5)
        before = len(bench.extender.told)
        bench.lease.leads = True
        bench.controller.led(True)
        await bench.until(lambda: len(bench.extender.told) == before + 1)
        assert bench.extender.told[-1] == ()


@virtual
async def test_a_list_is_no_longer_than_the_extender_takes() -> None:
    names = [f"p{index}" for index in range(MOST_REFUSED + 20)]
    async with Bench(patches_per_second=1000.0) as bench:
        bench.api.answers |= dict.fromkeys(names, FORBIDDEN)
        bench.extender.want(orders(release=tuple(map(pod, names))))
        await bench.until(lambda: bench.extender.told and len(bench.extender.told[-1]) == MOST_REFUSED)


def test_the_first_refusal_is_not_told_and_what_may_pass_has_more_patience() -> None:
    assert 1 < REFUSED < PASSING


def test_a_lost_answer_keeps_what_the_api_server_said() -> None:
    body = b'{"reason": "InternalError", "message": "failed calling webhook \\"size.example.com\\""}'
    assert outcome(500, body) == Unknown('HTTP 500 InternalError: failed calling webhook "size.example.com"')
    assert outcome(502, b"<html>").words == "HTTP 502"  # type: ignore[union-attr]


# -- The tests below are about the reports that the extender accepts. ----------------------------

BODY = {"write": "SetReplicas", "namespace": "team", "uid": "1234", "message": "Invalid: no", "lasting": False}
FROM_CONTROLLER = {CLIENT_HEADER: CONTROLLER}


def live() -> Live:
    made = Live(Settings(), FakeApi(), HandClock(), random.Random(1))
    one = replace(job("a").workers(1).done(), uid="team/1234")  # the job as the ledger knows it
    made.ledger.step(Led(True), JobSeen(one), *map(PodSeen, members(one)), Synced())
    return made


async def sent(made: Live, body: Any, headers: dict[str, str], *, people: bool = False) -> httpx.Response:
    app = made.rest() if people else made.rest_and_outcomes()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://kohort") as client:
        return await client.post("/v1/refused-writes", json=body, headers=headers)


async def test_what_the_controller_tells_is_a_fact_in_the_next_step_and_shown_everywhere() -> None:
    made = live()
    assert (await sent(made, {"refused": [BODY]}, FROM_CONTROLLER)).status_code == 204
    made.ledger.step()
    said = "the API server refused to resize team/a: Invalid: no"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(made.rest()), base_url="http://kohort") as client:
        for path in ("/v1/jobs/team/a", "/v1/explain/team/a"):
            assert [one["text"] for one in (await client.get(path)).json()["refused"]] == [said]
        assert [one["refused"][0]["text"] for one in (await client.get("/v1/jobs")).json()["jobs"]] == [said]
        assert [one["refused"][0]["text"] for one in (await client.get("/v1/queue")).json()["jobs"]] in ([said], [])
        told = (await client.get("/v1/decisions")).json()["decisions"]
        assert [one["text"] for one in told if one["action"] == "WriteRefused"] == [said]


async def test_a_pod_is_found_by_the_uid_that_the_api_server_gave_it() -> None:
    made = live()
    body = {**BODY, "write": "Ungate", "uid": "uid-a-worker-0"}
    assert (await sent(made, {"refused": [body]}, FROM_CONTROLLER)).status_code == 204
    made.ledger.step()
    assert [one.name for one in made.ledger.snapshot.refused_writes["team/1234"]] == ["team/a-worker-0"]


async def test_a_gate_that_cannot_be_switched_is_a_warning_of_every_answer() -> None:
    made = live()
    body = {"refused": [{**BODY, "write": "SetGate", "namespace": "", "uid": ""}]}
    assert (await sent(made, body, FROM_CONTROLLER)).status_code == 204
    made.ledger.step()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(made.rest()), base_url="http://kohort") as client:
        warnings = (await client.get("/v1/jobs")).json()["warnings"]
    assert "gate: the API server refused to switch the admission gate: Invalid: no" in warnings


async def test_only_the_controller_tells_and_only_on_the_pods_own_listener() -> None:
    made = live()
    assert (await sent(made, {"refused": []}, {})).status_code == 403
    assert (await sent(made, {"refused": []}, FROM_CONTROLLER, people=True)).status_code == 404
    assert made.ledger.snapshot.refused_writes == {}


BAD = {
    "no list": {},
    "another key": {"refused": [], "more": 1},
    "no such write": {"refused": [{**BODY, "write": "Bind"}]},
    "too many": {"refused": [BODY] * (MOST_REFUSED + 1)},
    "too long": {"refused": [{**BODY, "message": "x" * (MOST_CHARACTERS + 1)}]},
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
async def test_a_list_that_cannot_be_read_is_refused(body: Any) -> None:
    made = live()
    assert (await sent(made, body, FROM_CONTROLLER)).status_code == 422
    made.ledger.step()
    assert made.ledger.snapshot.refused_writes == {}


# -- In the tests below, the API server refuses a binding. ---------------------------------------

NAMES = ("a-ps-0", "a-worker-0", "a-worker-1")
STATUSES = [
    Refused(422, "Invalid", "ValidatingAdmissionPolicy 'deny-bind' denied request: doomed may not be bound"),
    Refused(403, "Forbidden", "exceeded quota"),
    Refused(400, "BadRequest", 'admission webhook "w.example.com" denied the request: not today'),
    Refused(418, "", "a teapot of a webhook"),
]


@virtual
@pytest.mark.parametrize("refused", STATUSES, ids=lambda one: str(one.status))
async def test_the_api_servers_words_reach_the_call_and_the_ledger_whatever_the_status(refused: Refused) -> None:
    stage, events = Stage(), list[Any]()
    stage.ledger.record_with(lambda at, batch, *_: events.extend(batch))
    stage.api.answers = dict.fromkeys(NAMES, refused)
    _, calls = await whole_gang(stage)
    words = refused.words
    assert refused.message in words
    assert {task.result() for task in calls} == {f"{Reason.BIND_FAILED.text}: {words}"}
    assert {event.message for event in events if isinstance(event, BindRefused)} == {words}


@virtual
async def test_words_that_never_end_are_cut() -> None:
    stage = Stage()
    stage.api.answers = dict.fromkeys(NAMES, Refused(422, "Invalid", "x" * 5000))
    _, calls = await whole_gang(stage)
    assert {len(task.result()) for task in calls} == {len(Reason.BIND_FAILED.text) + 2 + MOST_CHARACTERS}

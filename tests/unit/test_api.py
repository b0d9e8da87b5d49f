"""Rules for every route of /v1: errors, revisions, pages, descriptions and examples in OpenAPI, and the stream."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from extender.access.guard import PROBLEM
from extender.config.settings import Settings
from extender.routes import stream
from policy.cluster.events import JobSeen, NodeSeen, Synced, Tick
from tests import builders
from tests.browser.scenes import Scene
from tests.unit.comparison.test_comparepolicies import recorded, scene


class Asked:
    """A service with five waiting jobs, and a client of its REST routes."""

    def __init__(self) -> None:
        self.scene = Scene()
        jobs = [builders.job(f"job-{at}").ps(1).workers(300).arrived(at).done() for at in range(5)]
        self.scene.ledger.step(NodeSeen(builders.node("n1")), *(JobSeen(job) for job in jobs), Synced())
        transport = httpx.ASGITransport(self.scene.app())
        self.client = httpx.AsyncClient(transport=transport, base_url="http://kohort")

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.client.get(f"/v1{path}", headers=headers)


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    found = Asked()
    async with found.client:
        yield found


# -- The test below is about errors (problem details). -------------------------------------------

PROBLEMS = {
    "/jobs?limit=0": (422, "limit", "0"),
    "/jobs?continue=x": (422, "continue", "x"),
    "/queue?color=red": (422, "color", "red"),
    "/jobs/team/nobody": (404, "name", "nobody"),
}


@pytest.mark.parametrize("path", PROBLEMS)
async def test_what_is_wrong_is_a_problem_that_names_field_value_and_what_is_allowed(asked: Asked, path: str) -> None:
    status, field, value = PROBLEMS[path]
    answer = await asked.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    found = answer.json()
    assert (found["status"], found["field"], found["value"]) == (status, field, value)
    assert found["allowed"] in found["detail"]


# -- The tests below are about answers that a client already has (revisions). --------------------


async def test_a_revision_that_somebody_has_is_not_sent_again(asked: Asked) -> None:
    tag = (await asked.get("/jobs")).headers["etag"]
    again = await asked.get("/jobs", **{"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    asked.scene.ledger.step(Tick(), NodeSeen(builders.node("n2")))
    assert (await asked.get("/jobs", **{"If-None-Match": tag})).status_code == 200


async def test_what_is_amiss_is_news_without_a_revision(asked: Asked) -> None:
    tag = (await asked.get("/queue")).headers["etag"]
    asked.scene.vitals.checks = (replace(asked.scene.vitals.checks[0], ok=False, detail="nothing heard"),)
    answer = await asked.get("/queue", **{"If-None-Match": tag})
    assert answer.json()["warnings"] == ["synced: nothing heard"]


async def test_the_controllers_question_is_never_answered_with_nothing(asked: Asked) -> None:
    answer = await asked.get("/desired", **{"If-None-Match": (await asked.get("/jobs")).headers["etag"]})
    assert (answer.status_code, "etag" in answer.headers) == (200, False)


# -- The tests below are about lists that are divided into pages. --------------------------------


async def pages(asked: Asked, path: str, entries: str, limit: int) -> list[list[str]]:
    found, after = [], ""
    while True:
        page = (await asked.client.get(f"/v1{path}", params={"limit": limit, "continue": after})).json()
        found.append([entry["name"] for entry in page[entries]])
        after = page["continue"]
        if not after:
            assert page["remaining"] == 0
            return found


@pytest.mark.parametrize(("path", "entries"), [("/jobs", "jobs"), ("/queue", "jobs"), ("/nodes", "nodes")])
async def test_pages_together_are_the_list(asked: Asked, path: str, entries: str) -> None:
    whole = [entry["name"] for entry in (await asked.get(path)).json()[entries]]
    found = await pages(asked, path, entries, 2)
    assert [name for page in found for name in page] == whole
    assert [len(page) for page in found] == ([2, 2, 1] if entries == "jobs" else [1])


async def test_a_page_goes_on_behind_the_last_entry_wherever_it_is_now(asked: Asked) -> None:
    first = (await asked.get("/jobs?limit=2")).json()
    early = builders.job("earliest").workers(300).arrived(-100).done()
    asked.scene.ledger.step(JobSeen(early))
    second = (await asked.client.get("/v1/jobs", params={"limit": 2, "continue": first["continue"]})).json()
    assert [job["name"] for job in second["jobs"]] == ["job-2", "job-3"]


# -- The test below is about the OpenAPI description. --------------------------------------------


async def test_every_route_is_described_and_has_an_example_that_its_model_takes(asked: Asked) -> None:
    from fastapi.routing import APIRoute

    from extender.routes import table

    routes = [route for route in table.router(asked.scene.rest).routes if isinstance(route, APIRoute)]
    assert len(routes) == 11
    for route in routes:
        assert route.description, route.path
        if route.name == "stream":
            continue
        example: Any = route.responses[200]["content"]["application/json"]["example"]
        model = route.response_model
        assert model.model_validate(example).model_dump(mode="json", by_alias=True) == example, route.path


# -- The tests below are about the stream of server-sent events. ---------------------------------


def test_the_stream_tells_each_revision_with_its_decisions_and_goes_on_where_it_broke_off() -> None:
    scene = Scene()
    with scene.served() as url:
        scene.do(NodeSeen(builders.node("n1")), Synced())
        with httpx.stream("GET", f"{url}v1/stream", timeout=60, trust_env=False) as events:
            assert events.headers["content-type"].startswith("text/event-stream")
            lines = events.iter_lines()
            first = event(lines)
            scene.do(JobSeen(builders.job("a").workers(1).done()), *small_pods("a"))
            second = event(lines)
        assert first["data"]["decisions"] == []
        assert [one["action"] for one in second["data"]["decisions"]] == ["Admit"]
        resumed = {"Last-Event-ID": first["id"]}
        with httpx.stream("GET", f"{url}v1/stream", headers=resumed, timeout=60, trust_env=False) as events:
            again = event(events.iter_lines())
        assert (again["id"], again["data"]["decisions"]) == (second["id"], second["data"]["decisions"])


def test_a_decision_does_not_wait_behind_mere_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "GAP_SECONDS", 60.0)
    scene = Scene()
    with scene.served() as url:
        scene.do(NodeSeen(builders.node("n1")), Synced())
        with httpx.stream("GET", f"{url}v1/stream", timeout=60, trust_env=False) as events:
            lines = events.iter_lines()
            assert event(lines)["data"]["decisions"] == []
            scene.do(JobSeen(builders.job("a").workers(1).done()))
            scene.do(*small_pods("a"))
            assert [one["action"] for one in event(lines)["data"]["decisions"]] == ["Admit"]


def small_pods(name: str) -> list[Any]:
    from policy.cluster.events import PodSeen

    return [PodSeen(pod) for pod in builders.members(builders.job(name).workers(1).done())]


def event(lines: Any) -> dict[str, Any]:
    """Return the next event of the stream that is not a comment, with its data decoded."""
    found: dict[str, Any] = {}
    for line in lines:
        if not line and "data" in found:
            return {**found, "data": json.loads(found["data"])}
        name, _, value = line.partition(": ")
        if name:
            found[name] = value
    raise AssertionError("the stream has ended")


async def test_there_are_only_so_many_streams(asked: Asked) -> None:
    asked.scene.rest.streams.open = 32
    answer = await asyncio.wait_for(asked.get("/stream"), 60)
    assert (answer.status_code, answer.json()["title"]) == (503, "Service Unavailable")


# -- The test below is about the comparison of another policy with the journal. -------------------


async def test_a_comparison_is_asked_of_the_journal(asked: Asked, tmp_path: Path) -> None:
    none = await asked.get("/comparison?policy=drs")
    assert (none.status_code, "set journal.folder" in none.json()["detail"]) == (404, True)
    asked.scene.settings = Settings.model_validate({"journal": {"folder": str(tmp_path)}})
    empty = await asked.get("/comparison?policy=drs")
    assert (
        empty.status_code,
        "no step is recorded yet" in empty.json()["detail"],
    ) == (503, True)
    recorded(tmp_path, *scene())
    wrong = (await asked.get("/comparison?policy=magic")).json()
    assert (wrong["status"], wrong["field"], wrong["value"]) == (422, "policy", "magic")
    found = (await asked.get("/comparison?policy=fifo")).json()
    assert (found["recorded"], found["other"], found["differing"]) == ("kod2", "fifo", 2)

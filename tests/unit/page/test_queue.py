"""The queue's rows: a new job or a passing minute changes no other row, and a page that is opened shows everything."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from policy.cluster.events import Event, JobSeen, NodeSeen, Synced, Tick
from tests import builders
from tests.browser.scenes import Scene, too_large

WAITING = 5


@pytest.fixture
def scene() -> Scene:
    found = Scene()
    jobs = [JobSeen(too_large(f"waits-{at}", 10 + at, found)) for at in range(WAITING)]
    found.ledger.step(NodeSeen(builders.node("n1")), *jobs, Synced())
    return found


@pytest.fixture
async def client(scene: Scene) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(scene.app()), base_url="http://kohort") as found:
        yield found


async def changed(client: httpx.AsyncClient, scene: Scene, event: Event) -> Any:
    """Return what a viewer of the frame before the event receives."""
    had = (await client.get("/parts", params={"since": ""})).json()
    scene.ledger.step(event)
    return (await client.get("/parts", params={"since": had["frame"]})).json()


@pytest.mark.parametrize(("workers", "order"), [(99, [True, False]), (12, [False, True, False]), (1, [False, True])])
async def test_a_newcomer_is_one_row_wherever_it_comes_in(
    client: httpx.AsyncClient, scene: Scene, workers: int, order: list[bool]
) -> None:
    told = await changed(client, scene, JobSeen(too_large("newcomer", workers, scene)))
    assert [isinstance(piece, str) for piece in told["lists"]["queue"]] == order
    assert told["facts"]["places"] == "1 2 3 4 5 6"


async def test_a_job_that_does_not_queue_has_no_place(client: httpx.AsyncClient, scene: Scene) -> None:
    broken = replace(too_large("broken", 99, scene), invalid="x is not allowed")
    assert (await changed(client, scene, JobSeen(broken)))["facts"]["places"] == "1 2 3 4 5 –"


async def test_time_alone_changes_no_row(
    client: httpx.AsyncClient, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = scene.ledger.now() + 120
    had = (await client.get("/parts", params={"since": ""})).json()
    monkeypatch.setattr(scene.ledger, "now", lambda: later)
    scene.ledger.step(Tick())
    told = (await client.get("/parts", params={"since": had["frame"]})).json()
    assert float(told["facts"]["now"]) == pytest.approx(later)
    assert told["lists"].keys() == {"figures"}, "who has waited longest"


async def test_a_page_that_is_opened_has_the_places_and_the_waits(
    client: httpx.AsyncClient, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = scene.ledger.now() + 80
    monkeypatch.setattr(scene.ledger, "now", lambda: later)
    page = (await client.get("/")).text
    assert re.findall(r'<td class="number">([^<]*)</td>', page) == ["1", "2", "3", "4", "5"]
    assert re.findall(r'<time data-since="[^"]*">([^<]*)</time>', page) == ["1m"] * WAITING

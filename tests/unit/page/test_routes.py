"""The page's routes: headers, relative links, paths that do not exist, and assets from the wheel."""

import re
from collections.abc import AsyncIterator

import httpx
import pytest

from extender.page.htmlrows import ASSETS, stamp
from extender.page.routes import POLICY
from policy.cluster.events import JobSeen, NodeSeen, Synced
from tests import builders
from tests.browser.scenes import Scene


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    scene = Scene()
    job = builders.job("wide").ps(1).workers(300).done()
    scene.ledger.step(NodeSeen(builders.node("n1")), JobSeen(job), Synced())
    transport = httpx.ASGITransport(scene.app())
    async with httpx.AsyncClient(transport=transport, base_url="http://kohort") as found:
        yield found


@pytest.mark.parametrize("path", ["/", "/jobs/team/wide", "/jobs/team/nobody"])
async def test_a_page_allows_itself_nothing_but_its_own_files(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert re.findall(r"\sstyle=|\son\w+=|<style|<script(?![^>]*src)", answer.text) == []


@pytest.mark.parametrize("path", ["/", "/jobs/team/wide"])
async def test_every_link_is_relative_so_that_a_proxys_path_stays(client: httpx.AsyncClient, path: str) -> None:
    found = re.findall(r'(?:href|src|data-stream|data-parts)="([^"]*)"', (await client.get(path)).text)
    assert len(found) > 5
    assert [link for link in found if link.startswith("/") or "//" in link] == []
    deep = httpx.URL(f"http://proxy/prefix{path}").join(next(link for link in found if link.endswith(".css")))
    assert deep.path.startswith("/prefix/assets/")


async def test_a_list_that_is_cut_short_says_how_many_are_left_out_and_what_shows_them() -> None:
    scene = Scene()
    jobs = [builders.job(f"j{at}").workers(1).arrived(at).done() for at in range(13)]
    nodes = (NodeSeen(builders.node(f"n{at}", cpu=0.1)) for at in range(41))
    scene.ledger.step(*nodes, *(JobSeen(job) for job in jobs), Synced())
    transport = httpx.ASGITransport(scene.app())
    async with httpx.AsyncClient(transport=transport, base_url="http://kohort") as client:
        told = (await client.get("/jobs/team/j12")).text
    assert '<li class="more">and 2 more; kohort explain -o wide shows all</li>' in told
    assert '<tr class="more"><td colspan="9">and 1 more; kohort explain -o wide shows all</td></tr>' in told


async def test_a_job_that_is_not_known_is_a_404_in_words(client: httpx.AsyncClient) -> None:
    answer = await client.get("/jobs/team/nobody")
    assert answer.status_code == 404
    assert "No job team/nobody is known" in answer.text


@pytest.mark.parametrize("name", ASSETS)
async def test_assets_are_kept_for_ever_under_a_name_that_changes_with_them(
    client: httpx.AsyncClient, name: str
) -> None:
    answer = await client.get(f"/assets/{stamp(name)}/{name}")
    assert (answer.status_code, "immutable" in answer.headers["cache-control"]) == (200, True)
    assert (await client.get(f"/assets/000000000000/{name}")).status_code == 404
    assert (await client.get(f"/assets/{stamp(name)}/..%2Froutes.py")).status_code == 404


async def test_the_parts_are_those_that_the_viewer_has_not(client: httpx.AsyncClient) -> None:
    page = (await client.get("/")).text
    frame = re.search(r'data-frame="([^"]+)"', page)
    assert frame is not None
    same = (await client.get("/parts", params={"since": frame[1]})).json()
    assert same["lists"] == {}
    for old in ("", frame[1].replace(".", "0.")):
        everything = (await client.get("/parts", params={"since": old})).json()
        assert "wide" in everything["lists"]["queue"][0]

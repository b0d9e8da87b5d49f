"""Tests of the page in a real browser: accessibility, content, and hostile input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from policy.cluster.events import JobSeen, NodeSeen, Synced
from tests import builders
from tests.browser.conftest import Look, faults, until_live
from tests.browser.scenes import PATIENT, Scene, cluster, small_job, submitted


@pytest.fixture
def small() -> Iterator[Scene]:
    """Yield a scene of ten jobs on four full nodes, and a fifth node without GPUs that is free for new jobs."""
    scene = Scene(PATIENT)
    with scene.served():
        scene.do(*cluster(4, 6, 4, scene.ledger.now()), NodeSeen(builders.node("spare")))
        scene.past(0.5)
        yield scene


# -- The tests below check that everybody can read and use the pages. -----------------------------

OTHER_LOOKS = ((390, "dark"), (1100, "light"), (1100, "dark"), (1600, "light"))


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(390, "light"), (1600, "dark"), *(pytest.param(*one, marks=pytest.mark.full) for one in OTHER_LOOKS)],
)
def test_every_page_is_for_everybody(small: Scene, look: Look, scheme: str, width: int) -> None:
    waiting = next(iter(small.ledger.snapshot.jobs.values()))
    paths = {"cluster": "", "job": f"jobs/{waiting.namespace}/{waiting.name}", "nobody": "jobs/no/body"}
    for name, path in paths.items():
        viewer = look(scheme, width).open(small.url + path)
        viewer.shot(f"{name}-{scheme}-{width}")
        assert faults(viewer) == [], name
        wide = viewer.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{name} scrolls sideways"


HEIGHTS = "rows => [...new Set(rows.map((row) => row.getBoundingClientRect().height))]"


@pytest.mark.parametrize("width", [1600, *(pytest.param(width, marks=pytest.mark.full) for width in (390, 1100))])
def test_every_row_of_a_list_is_as_high_as_the_others_so_nothing_below_it_moves(look: Look, width: int) -> None:
    scene = Scene(PATIENT)
    with scene.served() as url:
        scene.do(*cluster(20, 12, 4, scene.ledger.now()), NodeSeen(builders.node("spare")))
        viewer = until_live(look(width=width).open(url))
        for name in ("a", "of-a-name-that-goes-on-" * 2 + "and-on"):
            scene.do(*submitted(small_job(name, scene)))
            viewer.page.locator(f"[data-list=running] a[href='jobs/team/{name}']").wait_for(state="attached")
        for rows in ("running", "queue"):
            viewer.page.locator(f"[data-list={rows}]").scroll_into_view_if_needed()
            assert len(viewer.page.locator(f"[data-list={rows}] > *").evaluate_all(HEIGHTS)) == 1, rows
        assert viewer.shifts() == []
        assert viewer.complaints == []


def test_an_empty_cluster_says_so(look: Look) -> None:
    scene = Scene()
    with scene.served() as url:
        scene.do(Synced())
        viewer = until_live(look().open(url))
        assert viewer.page.get_by_text("No job waits.").is_visible()
        assert viewer.page.get_by_text("No node is known.").is_visible()
        assert viewer.complaints == []
        viewer.shot("empty")


def test_the_page_of_a_job_that_has_ended_says_what_is_no_more(look: Look) -> None:
    scene = Scene()
    with scene.served() as url:
        over = replace(small_job("over", scene), finished=True)
        scene.do(NodeSeen(builders.node("n1")), JobSeen(over), Synced())
        viewer = until_live(look().open(f"{url}jobs/team/over"))
        for said in ("It needs nothing any more.", "The job has its resources, or asks for none."):
            assert viewer.page.get_by_text(said).is_visible(), said
        assert viewer.complaints == []
        viewer.shot("ended")


def test_the_page_can_be_used_by_keyboard_alone(small: Scene, look: Look) -> None:
    page = until_live(look().open(small.url)).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("/")
    page.keyboard.type("zzz-nobody")
    assert page.locator("#found").inner_text() == "0 jobs"
    assert page.locator("tr.runs:visible").count() == 0
    page.locator("#find").fill("")
    stops = set()
    for _ in range(45):
        page.keyboard.press("Tab")
        stops.add(page.evaluate("document.activeElement.closest('section')?.className ?? document.activeElement.id"))
    assert {"pause", "panel p-queue", "panel p-running", "panel p-decisions", "panel p-map"} <= stops


def test_paused_the_page_stands_still(small: Scene, look: Look) -> None:
    page = until_live(look().open(small.url)).page
    page.get_by_role("button", name="Pause").click()
    small.do(*submitted(small_job("while-paused", small)))
    # A page that is opened later shows the job.
    look().open(small.url).page.get_by_text("while-paused").first.wait_for()
    page.wait_for_timeout(500)  # The test must wait a fixed time to see that nothing happens.
    assert page.get_by_text("while-paused").count() == 0
    page.get_by_role("button", name="Resume").click()
    page.get_by_text("while-paused").first.wait_for()


def test_a_link_that_is_in_focus_stays_so_when_its_row_changes(small: Scene, look: Look) -> None:
    page = until_live(look().open(small.url)).page
    decisions = page.locator("[data-list=decisions]")
    small.do(*submitted(small_job("before", small)))
    link = decisions.locator("a[href='jobs/team/before']").first
    link.focus()  # The call waits until the link exists.
    small.do(*submitted(small_job("another", small)))
    decisions.get_by_text("another").first.wait_for()
    assert page.evaluate("document.activeElement.getAttribute('href')") == "jobs/team/before"


def test_a_lost_connection_is_said_and_mended(look: Look) -> None:
    scene = Scene()
    with scene.served() as url:
        scene.do(NodeSeen(builders.node("n1")), Synced())
        page = until_live(look().open(url)).page
        scene.end_streams()
        page.wait_for_selector("#live[data-state=lost]")
        assert "no longer current" in page.locator("#said").inner_text()


# -- The tests below are about the page of one job. ---------------------------------------------


def test_a_jobs_page_explains_and_follows_it(small: Scene, look: Look) -> None:
    job = small_job("followed", small)
    large_one = replace(job, roles=builders.job("x").ps(1).workers(400, cpu=2).done().roles, min_workers=400)
    small.do(*submitted(large_one))
    viewer = until_live(look().open(f"{small.url}jobs/team/followed"))
    page = viewer.page
    assert "GangExceeds" in page.locator("[data-list=why]").inner_text()
    small.do(JobSeen(replace(job, version=2)))
    page.get_by_text("planned: to start with 1 worker").first.wait_for()
    assert "Nothing holds this job up" in page.locator("[data-list=why]").inner_text()
    assert viewer.complaints == []


def test_what_would_admit_a_job_is_told_to_whoever_asks(look: Look) -> None:
    scene = Scene()
    with scene.served() as url:
        job = builders.job("wide").ps(1, cpu=1).workers(3, cpu=10, memory=1).done()
        scene.do(NodeSeen(builders.node("n1")), *submitted(replace(job, arrival=scene.ledger.now())), Synced())
        page = look().open(f"{url}jobs/team/wide").page
        page.get_by_role("link", name="What would admit it now?").click()
        assert "like n1" in page.locator(".changes").inner_text()


# -- The tests below check that names and annotations cannot inject script or HTML. -------------

HOSTILE = {
    "markup": "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'",
    "attribute": '" onmouseover="document.title=\'taken\'" x="',
    "template": "{{ 7 * 7 }}{% raw %}",
    "long": "x" * 10_240,
    "right-to-left": "safe\u202egnp.exe\u2066\u200f",
    "control": "a\x00b\x07c\x1b[2Jd\ne\u2028f",
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_names_and_annotations_do_nothing(look: Look, name: str) -> None:
    scene = Scene()
    with scene.served() as url:
        made = builders.job("x").ps(1, cpu=1).workers(1, cpu=1).done()
        runs = replace(made, name=name, namespace=name[:40], uid=f"u1{name}", note=name, kind=name[:30])
        waits = replace(runs, uid=f"u2{name}", min_workers=300, arrival=builders.START + 1)
        broken = replace(runs, uid=f"u3{name}", invalid=f"metadata.annotations: {name} is not allowed", name=f"{name}3")
        scene.do(
            NodeSeen(builders.node("n1")), NodeSeen(replace(builders.node("n2"), name=name)), Synced(),
            *(event for job in (runs, waits, broken) for event in submitted(job)),
        )  # fmt: skip
        viewer = until_live(look().open(url))
        page = viewer.page
        page.hover(".tile")
        assert "taken" not in page.title()
        assert page.locator("img, script:not([src]), iframe").count() == 0
        shown = page.inner_text("body")
        assert len(shown) < 20_000
        assert not set(shown) & set("\u202e\u2066\u200f\x07\x1b\u2028")
        assert "49" not in page.locator("[data-list=running]").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= 1600
        page.locator("[data-list=queue] a").first.click()
        page.wait_for_load_state()
        assert page.locator("img, script:not([src]), iframe").count() == 0
        assert viewer.complaints == []

"""Tests of the comparison page in a real browser: it waits for its answer, shows it, and is accessible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from policy.cluster.events import NodeSeen
from tests import builders
from tests.browser.conftest import Look, faults, until_live
from tests.browser.scenes import Scene, cluster, small_job, submitted

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Yield a small full cluster that records its journal, and new jobs that start on a node reserved for them."""
    made = Scene(journal=tmp_path_factory.mktemp("journal"))
    with made.served():
        made.do(*cluster(4, 6, 4, made.ledger.now()), NodeSeen(builders.node("spare")))
        for at in range(4):
            made.do(*submitted(small_job(f"newcomer-{at}", made)))
        yield made


def test_the_page_waits_for_the_answer_and_then_stands_still(scene: Scene, look: Look) -> None:
    viewer = look().open(f"{scene.url}comparison/fifo-backfill")
    page = viewer.page
    page.get_by_text("would have decided otherwise in").wait_for()
    assert page.locator("[data-list=courses] tr").count() == 3
    assert page.locator("[data-list=charts] figure").count() == 3
    assert page.locator("[data-list=counts] tr").count() > 0
    told = page.locator("[data-list=answer]").inner_text()
    scene.do(*submitted(small_job("while-it-is-read", scene)))
    until_live(viewer)
    assert page.locator("[data-list=answer]").inner_text() == told
    assert viewer.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1600])
def test_it_is_for_everybody(scene: Scene, look: Look, scheme: str, width: int) -> None:
    for name, path in {"choose": "comparison", "compared": "comparison/fifo"}.items():
        viewer = look(scheme, width).open(scene.url + path)
        if path.endswith("fifo"):
            viewer.page.get_by_text("would have decided otherwise in").wait_for()
        viewer.shot(f"{name}-{scheme}-{width}")
        assert faults(viewer) == [], name
        assert viewer.page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} scrolls sideways"
        assert viewer.complaints == []


def test_a_policy_is_chosen_by_keyboard_and_links_stay_behind_a_proxys_path(scene: Scene, look: Look) -> None:
    page = look().open(f"{scene.url}").page
    page.get_by_role("link", name="Comparison").press("Enter")
    page.get_by_role("link", name="drs", exact=True).press("Enter")
    page.get_by_text("would have decided otherwise in").wait_for()
    assert page.url == f"{scene.url}comparison/drs"
    assert page.locator(".policies [aria-current]").inner_text() == "drs"


def test_what_cannot_be_compared_says_what_to_do(scene: Scene, look: Look) -> None:
    page = look().open(f"{scene.url}comparison/magic").page
    assert "known are" in page.inner_text("main")
    nothing = Scene()
    with nothing.served() as url:
        assert "set journal.folder" in look().open(f"{url}comparison/fifo").page.inner_text("main")


def test_a_record_that_is_spoilt_is_said_on_the_page(look: Look, tmp_path: Path) -> None:
    (tmp_path / "journal-000001.jsonl").write_text("<script>document.title='taken'</script>\n")
    scene = Scene(journal=tmp_path)
    with scene.served() as url:
        viewer = look().open(f"{url}comparison/fifo")
        viewer.page.get_by_text("this line does not begin a journal").wait_for()
        assert "taken" not in viewer.page.title()

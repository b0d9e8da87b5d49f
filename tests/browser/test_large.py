"""Tests of the page of a large cluster in a real browser: speed and accessibility."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest

from tests.browser.bars import Bar
from tests.browser.conftest import EMPTY, Look, await_decision, faults, seen_at, until_live
from tests.browser.scenes import PATIENT, Scene, cluster, small_job, submitted

pytestmark = pytest.mark.alone
PAINT_SECONDS, UPDATE_SECONDS = 1.0, 0.2
NUMBERS = itertools.count()  # A retried test needs other job names than its first try.


@pytest.fixture(scope="module")
def large() -> Iterator[Scene]:
    """Yield a scene of 1,000 nodes and 500 jobs, with hours of history, whose page is served."""
    scene = Scene(PATIENT)
    with scene.served():
        scene.do(*cluster(1000, 400, 100, scene.ledger.now()))
        scene.past()
        yield scene


def test_a_large_cluster_is_painted_within_a_second(large: Scene, look: Look) -> None:
    bar = Bar("first paint", PAINT_SECONDS)
    for _ in range(5):
        bar.empty.append(look().open(large.url + EMPTY).first_paint())
        began = time.process_time()
        viewer = look().open(large.url)
        bar.wall.append(viewer.first_paint())
        bar.cpu.append(time.process_time() - began + viewer.cpu())
    bar.judge()


def test_a_decision_is_on_the_page_within_a_fifth_of_a_second(large: Scene, look: Look) -> None:
    viewer, bar = until_live(look().open(large.url)), Bar("update", UPDATE_SECONDS)
    for _ in range(7):
        bar.empty.append(look().open(large.url + EMPTY).first_paint())
        viewer.page.bring_to_front()
        job = small_job(f"newcomer-{next(NUMBERS)}", large)
        time.sleep(1)  # The job must not arrive right after the job before it.
        await_decision(viewer, job.name)
        spent = time.process_time() + viewer.cpu()
        made = large.do(*submitted(job))
        decided = time.time() - (time.monotonic() - made)
        bar.wall.append(seen_at(viewer) - decided)
        bar.cpu.append(time.process_time() + viewer.cpu() - spent)
    bar.judge()
    assert viewer.complaints == []
    assert viewer.shifts() == []


def test_every_node_is_on_the_map_and_arrows_go_from_node_to_node(large: Scene, look: Look) -> None:
    page = until_live(look().open(large.url)).page
    assert page.locator(".tile").count() == 1000
    assert page.locator('.tile[tabindex="0"]').count() == 1
    page.locator('.tile[tabindex="0"]').focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#told-node").inner_text().startswith("node-0001")
    page.keyboard.press("ArrowDown")
    columns = page.evaluate("getComputedStyle(document.getElementById('tiles')).gridTemplateColumns.split(' ').length")
    assert page.locator("#told-node").inner_text().startswith(f"node-{columns + 1:04}")
    page.keyboard.press("End")
    assert page.locator("#told-node").inner_text().startswith("node-0999")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_large_cluster_has_no_serious_fault_of_access(large: Scene, look: Look, scheme: str) -> None:
    viewer = until_live(look(scheme).open(large.url))
    viewer.shot(f"large-{scheme}")
    assert faults(viewer) == []

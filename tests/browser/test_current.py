"""Tests of how the page stays current: what it shows after many changes, and when it asks the service for changes."""

from __future__ import annotations

import random

import pytest

from policy.cluster.events import JobGone, JobSeen, NodeSeen, Synced
from tests import builders
from tests.browser.conftest import Look, Viewer, until_live
from tests.browser.scenes import PATIENT, Scene, cluster, small_job, submitted, too_large

SCROLL = "(box, part) => box.scrollTo(0, part * box.scrollHeight)"
WHO = """rows => rows.map((row) => row.getAttribute('aria-label')
  ?? `${row.querySelector('.number')?.textContent ?? ''} ${row.querySelector('a, .told')?.textContent}`)"""


def test_what_came_went_and_moved_leaves_the_page_as_one_that_is_opened_now(look: Look) -> None:
    scene = Scene(PATIENT)
    with scene.served() as url:
        aside = builders.node("the-last", unschedulable=True)
        scene.do(*cluster(4, 6, 4, scene.ledger.now()), NodeSeen(builders.node("spare")), NodeSeen(aside))
        viewer = until_live(look().open(url))
        viewer.page.evaluate("window.kept = document.querySelector('[data-list=nodes]').lastElementChild")
        first = list(scene.ledger.snapshot.jobs.values())
        for at in range(4):
            scene.do(*submitted(small_job(f"comes-{at}", scene)))
            scene.do(JobGone(first[2 * at].uid), NodeSeen(builders.node(f"new-{at}")))
            viewer.page.wait_for_selector(f".tile[aria-label^='new-{at}']")
        fresh = look().open(url)
        await_state(viewer, f"document.body.dataset.frame === '{frame_of(fresh)}'")
        for name in ("queue", "running", "decisions", "nodes"):
            assert rows_of(viewer, name) == rows_of(fresh, name)
        assert viewer.page.evaluate("window.kept.isConnected"), "a tile that only changed its place was made anew"
        assert viewer.complaints == []


@pytest.mark.parametrize("scrolled", [0.5, *(pytest.param(part, marks=pytest.mark.full) for part in (0, 1))])
def test_wherever_one_has_scrolled_a_long_queue_is_as_one_that_is_opened_now(look: Look, scrolled: float) -> None:
    chance, scene = random.Random(7), Scene(PATIENT)
    with scene.served() as url:
        there = [too_large(f"waits-{at}", chance.randint(1, 50), scene) for at in range(60)]
        scene.do(NodeSeen(builders.node("n1")), *(JobSeen(job) for job in there), Synced())
        viewer = until_live(look().open(url))
        viewer.page.locator(".p-queue .scroll").evaluate(SCROLL, scrolled)
        for at in range(5):
            gone = [there.pop(chance.randrange(len(there))) for _ in range(chance.choice((0, 1, 3, 14)))]
            come = [too_large(f"comes-{at}-{one}", chance.randint(1, 50), scene) for one in range(len(gone) or 1)]
            there += come
            scene.do(*(JobGone(job.uid) for job in gone), *(JobSeen(job) for job in come))
            viewer.page.locator(f"[data-list=queue] a[href='jobs/team/{come[-1].name}']").wait_for(state="attached")
        fresh = look().open(url)
        await_state(viewer, f"document.body.dataset.frame === '{frame_of(fresh)}'")
        assert rows_of(viewer, "queue") == rows_of(fresh, "queue")
        assert [row.split()[0] for row in rows_of(fresh, "queue")] == [str(at + 1) for at in range(len(there))]
        assert viewer.shifts() == []
        assert viewer.complaints == []


def test_a_decision_is_shown_at_once_and_what_nobody_has_decided_a_moment_later(look: Look) -> None:
    scene, viewer = Scene(PATIENT), look()
    page, events = viewer.page, heard_by(viewer)
    with scene.served() as url:
        scene.do(NodeSeen(builders.node("n1")), Synced())
        page.clock.install()
        until_live(viewer.open(url))
        await_events(viewer, events, 1)
        page.clock.pause_at(page.evaluate("Date.now() / 1000") + 10)
        await_state(viewer, "!asking && !due")
        scene.do(JobSeen(too_large("only-seen", 3, scene)))
        await_events(viewer, events, 2)
        await_state(viewer, "!asking && due > 0")  # The page's stopped clock delays its request.
        page.clock.run_for(300)
        page.locator("[data-list=queue]").get_by_text("only-seen").wait_for(state="attached")
        scene.do(*submitted(small_job("decided-at-once", scene)))  # The page's clock is still stopped.
        page.locator("[data-list=decisions]").get_by_text("decided-at-once").first.wait_for(state="attached")


def heard_by(viewer: Viewer) -> list[str]:
    """Return a list to which each event of the stream is added as the page receives it."""
    found: list[str] = []
    viewer.devtools.send("Network.enable")
    viewer.devtools.on("Network.eventSourceMessageReceived", lambda event: found.append(event["data"]))
    return found


def await_events(viewer: Viewer, events: list[str], number: int) -> None:
    viewer.until(lambda: len(events) >= number, "heard by the page")


def await_state(viewer: Viewer, state: str) -> None:
    """Wait until the JavaScript expression ``state`` is true, by repeated evaluation from outside the page.

    The page itself cannot wait: its clock is stopped, and its content security policy forbids eval.
    """
    viewer.until(lambda: viewer.page.evaluate(state), state)


def frame_of(viewer: Viewer) -> str:
    return str(viewer.page.evaluate("document.body.dataset.frame"))


def rows_of(viewer: Viewer, name: str) -> list[str]:
    """Return the content of each row of the list, without parts that change with time alone."""
    found: list[str] = viewer.page.locator(f"[data-list={name}] > *").evaluate_all(WHO)
    assert found
    return found

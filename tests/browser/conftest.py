"""Fixtures with a real browser for the page: one browser per module, a fresh profile per test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from tests.browser import chromium
from tests.e2e.waiting import PATIENCE, TEST_LIMIT, until

SHOTS = Path(os.environ.get("PAGE_SCREENSHOTS", "")) if os.environ.get("PAGE_SCREENSHOTS") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Limit the tests' time without fixtures, because the first one may have to build binaries."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_LIMIT, func_only=True))


# This script records layout shifts from the first moment on.
WATCH = """
window.shifts = [];
const told = (one) => [one.node?.outerHTML ?? one.node?.textContent ?? "?", one.previousRect, one.currentRect]
  .map((part) => (typeof part === "string" ? part : JSON.stringify(part)).slice(0, 200));
new PerformanceObserver((list) => {
  for (const shift of list.getEntries()) {
    window.shifts.push([shift.value, shift.startTime, shift.sources.map(told)]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield a running Chromium; if there is none, the tests fail."""
    path = chromium.find()  # This may start Playwright, which must not run twice at once.
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, timeout=PATIENCE * 1000)
        yield found
        found.close()


@dataclass
class Viewer:
    """A browser tab; ``complaints`` has the errors and warnings on its console."""

    page: Page
    folder: Path
    complaints: list[str] = field(default_factory=list)

    def open(self, url: str) -> Viewer:
        self.page.goto(url, wait_until="load")
        return self

    def shot(self, name: str, *, whole: bool = True) -> Path:
        """Save a screenshot in the tests' folder of screenshots, and return its path."""
        path = self.folder / f"{name}.png"
        self.page.screenshot(path=path, full_page=whole)
        return path

    def shifts(self) -> list[Any]:
        """Return the page's layout shifts so far, each as [size, time, moved elements]."""
        found: list[Any] = self.page.evaluate("window.shifts")
        return found

    def cpu(self) -> float:
        """Return the CPU seconds that the page's main thread has used so far."""
        metrics = self.devtools.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

    @cached_property
    def devtools(self) -> CDPSession:
        """Return a session of Chromium's DevTools protocol, which counts CPU from its first use on."""
        found = self.page.context.new_cdp_session(self.page)
        found.send("Performance.enable", {"timeDomain": "threadTicks"})
        return found

    def first_paint(self) -> float:
        """Return the seconds from the navigation to the first content."""
        script = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
        self.until(
            lambda: self.page.evaluate(script) is not None, "painted"
        )  # The browser records the paint a moment after the page has loaded.
        return float(self.page.evaluate(script)) / 1000

    def until(self, look: Callable[[], object], what: str) -> None:
        """Wait until ``look()`` is true, and process the browser's messages meanwhile."""
        until(look, what, pause=lambda: self.page.wait_for_timeout(20))


@pytest.fixture
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of screenshots: PAGE_SCREENSHOTS, or else pytest's own output."""
    folder = SHOTS or tmp_path_factory.getbasetemp() / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


Look = Any  # A Look is a function that makes a Viewer from colour scheme, width and height.


@pytest.fixture
def look(browser: Browser, shots: Path) -> Iterator[Look]:
    """Yield a function that opens a tab with a profile of its own, by colour scheme and size in pixels."""
    opened: list[Viewer] = []

    def make(scheme: str = "light", width: int = 1600, height: int = 1000) -> Viewer:
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})  # type: ignore[arg-type]
        context.add_init_script(WATCH)
        context.set_default_timeout(PATIENCE * 1000)
        viewer = Viewer(context.new_page(), shots)
        assert viewer.cpu() >= 0  # The first call starts the counting of CPU time.
        viewer.page.on("console", lambda message: _note(viewer, message.type, message.text))
        viewer.page.on("pageerror", lambda error: viewer.complaints.append(str(error)))
        opened.append(viewer)
        return viewer

    yield make
    for viewer in opened:
        viewer.page.context.close()


def _note(viewer: Viewer, kind: str, text: str) -> None:
    if kind in ("error", "warning"):
        viewer.complaints.append(f"{kind}: {text}")


def until_live(viewer: Viewer) -> Viewer:
    viewer.page.wait_for_selector("#live[data-state=live]")
    return viewer


SERIOUS = {"serious", "critical"}


def faults(viewer: Viewer) -> list[tuple[str, str]]:
    """Return the serious and critical findings of axe-core (accessibility) as (rule, HTML of the first element)."""
    found: Any = Axe().run(viewer.page).response["violations"]
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found if one["impact"] in SERIOUS]


EMPTY = "jobs/no/body"  # This page of the service is almost empty.

SEEN = """([name, seconds]) => new Promise((resolve, reject) => {
  const list = document.querySelector('[data-list="decisions"]');
  const there = () => list.textContent.includes(name);
  if (there()) reject(new Error(`${name} was on the page before it was decided`));
  const watch = new MutationObserver(() => {
    if (!there()) return;
    watch.disconnect();
    requestAnimationFrame(() => resolve(performance.timeOrigin + performance.now()));
  });
  watch.observe(list, { childList: true, subtree: true });
  const late = () => reject(new Error(`${name} is not among: ${list.innerText.slice(0, 200)}`));
  setTimeout(late, seconds * 1000);
})"""
LATEST_SECONDS = 60  # A decision counts as missing after this time; other checks judge how fast it came.


def await_decision(viewer: Viewer, name: str) -> None:
    """Start a script that notes when the first decision about that job appears; it must not be on the page yet."""
    viewer.page.evaluate(f"(asked) => {{ window.seen = ({SEEN})(asked); }}", [name, LATEST_SECONDS])


def seen_at(viewer: Viewer) -> float:
    """Return when the decision of the last `await_decision` was drawn, in seconds since the epoch."""
    return float(viewer.page.evaluate("window.seen")) / 1000

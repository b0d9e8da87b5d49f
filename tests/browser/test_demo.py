"""Tests of the page on the embedded cluster of `kohort demo` while it runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from policy.cluster.reasons import Reason
from tests.browser.conftest import Look, Viewer, faults, until_live
from tests.controlplane.ports import LOOPBACK, free_ports
from tests.e2e.waiting import until

pytestmark = pytest.mark.full
SPEED = 5  # The demo runs five times faster than in real time; its ten jobs take ten minutes of simulated time.
NODES = 3


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[str]:
    """Yield the address of the page of a running `kohort demo` in which a job runs."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "extender", "demo", "--no-live", f"--port={port}", f"--speed={SPEED}"]
    with (tmp_path / "demo").open("wb") as output:
        started = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    url = f"http://{LOOPBACK}:{port}/"
    try:
        until(lambda: _runs(url) or started.poll() is not None, "something running, or the demo ended")
        assert started.poll() is None, (tmp_path / "demo").read_text()
        yield url
    finally:
        started.terminate()
        started.wait()


def _runs(url: str) -> bool:
    try:
        jobs = httpx.get(f"{url}v1/jobs", timeout=60, trust_env=False).json()["jobs"]
    except httpx.TransportError:
        return False
    return any(job["state"] == "running" for job in jobs)


def test_the_page_follows_the_embedded_cluster(demo: str, look: Look) -> None:
    viewer = until_live(look().open(demo))
    page = viewer.page
    page.locator("[data-list=running] tr svg.bar rect.there").first.wait_for(state="attached")
    assert page.locator("#tiles .tile").count() == NODES
    page.locator("#tiles .tile svg").first.wait_for()
    # More jobs arrive than fit, and the page shows them without a reload.
    page.locator("[data-list=queue] tr .why .tag", has_text=Reason.NO_ROOM.value).first.wait_for()
    page.locator("[data-list=decisions]").get_by_text("planned: to start with").first.wait_for()
    viewer.shot("demo")
    assert faults(viewer) == []
    tells_of_a_job(viewer)
    assert viewer.complaints == []


def tells_of_a_job(viewer: Viewer) -> None:
    """Check that the link of a running job leads to its page with members and history."""
    viewer.page.locator("[data-list=running] a.job").first.click()
    page = until_live(viewer).page
    page.locator("[data-list=history]").get_by_text("planned: to start with").first.wait_for()
    page.locator("[data-list=members]").get_by_text("worker-0").first.wait_for()
    viewer.shot("demo-job")

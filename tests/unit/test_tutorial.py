"""The first part of docs/tutorial.md, as it stands there: ten elastic jobs on the embedded cluster."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from extender.cli.service import DEFAULT_SERVER
from tests.documents.tutorial import ROOT, blocks, environment, need_checkout, run
from tests.eventually import wait_until

SEEN = "default/job-4"  # the job that the page asks about


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """What the first terminal runs; its output is in ``tmp_path``/demo."""
    need_checkout()
    (command,) = blocks("First")
    with (tmp_path / "demo").open("wb") as output:
        started = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=ROOT, env=environment(), stdout=output)
    yield started
    started.terminate()
    started.wait()


def _has_come() -> bool:
    try:
        return httpx.get(f"{DEFAULT_SERVER}/v1/jobs/{SEEN}", timeout=5, trust_env=False).is_success
    except httpx.TransportError:
        return False


@pytest.mark.full
@pytest.mark.timeout(240)
def test_the_first_part_shows_elastic_jobs_and_ends_as_it_says(demo: subprocess.Popen[bytes], tmp_path: Path) -> None:
    wait_until(lambda: demo.poll() is not None or _has_come(), "the job that the page asks about has come")
    assert demo.poll() is None, (tmp_path / "demo").read_text()
    (questions,) = blocks("Second")
    said = run(questions)
    assert re.search(r"job-\d +TFJob +\d \(\d-\d\) +running", said), "workers now, and their bounds"
    assert re.search(r"job-\d 1 ps\+\d worker", said), "ps and workers of a job on one node"
    assert demo.wait() == 0
    ended = (tmp_path / "demo").read_text()
    assert re.search(r"^kod2 +10 +10 ", ended, re.MULTILINE), "Kohort finished all ten"
    assert re.search(r"^fifo-pod +10 +5 ", ended, re.MULTILINE), "five are left half placed, as the page says"

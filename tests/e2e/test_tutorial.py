"""Tests of docs/tutorial.md: ten jobs on a cluster in memory, then a TFJob on the cluster of `make cluster`."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.controlplane.cluster import USUAL_PORTS
from tests.controlplane.ports import LOOPBACK
from tests.documents.tutorial import ROOT, blocks, checkout, environment, need_checkout, run
from tests.e2e.waiting import until

SEEN = "default/job-4"  # The tutorial runs `kohort explain` on this job.
ADDRESS = re.compile(r"export KOHORT_CLI_SERVER=(http://\S+)")


@pytest.fixture(autouse=True)
def usual_port_taken() -> Iterator[bool]:
    """Occupy the usual port of `make cluster`, to show that no command of the tutorial depends on it.

    Yield whether the port was free to occupy.
    """
    with ExitStack() as held:
        try:
            held.enter_context(socket.create_server((LOOPBACK, USUAL_PORTS[0])))
        except OSError:
            yield False
        else:
            yield True


@dataclass(frozen=True, slots=True)
class Demo:
    """The command that the tutorial starts in the first terminal, as a process, and its output."""

    process: subprocess.Popen[bytes]
    output: Path

    @property
    def printed(self) -> str:
        return self.output.read_text()

    def has_come(self) -> bool:
        """Tell whether the job that the tutorial explains exists."""
        if (address := ADDRESS.search(self.printed)) is None:
            return False
        try:
            return httpx.get(f"{address[1]}/v1/jobs/{SEEN}", timeout=60, trust_env=False).is_success
        except httpx.TransportError:
            return False


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    need_checkout()
    (command,) = blocks("First")
    output = tmp_path / "demo"
    with output.open("wb") as file:
        started = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=ROOT, env=environment(), stdout=file)
    yield Demo(started, output)
    started.terminate()
    started.wait()


def test_the_first_part_shows_elastic_jobs_and_ends_as_it_says(demo: Demo) -> None:
    until(lambda: demo.has_come() or demo.process.poll() is not None, "the job that the page asks about")
    assert demo.process.poll() is None, demo.printed
    (questions,) = blocks("Second")
    address = ADDRESS.search(demo.printed)
    assert address
    assert ADDRESS.search(questions), "the reader is told where to write the address that the first terminal shows"
    said = run(ADDRESS.sub(address[0], questions))
    assert re.search(r"job-\d +TFJob +\d \(\d-\d\) +running", said), "workers now, and their bounds"
    assert re.search(r"job-\d 1 ps\+\d worker", said), "ps and workers of a job on one node"
    assert demo.process.wait() == 0
    assert re.search(r"^kod2 +10 +10 ", demo.printed, re.MULTILINE), "Kohort finished all ten"
    assert re.search(r"^fifo-pod +10 +5 ", demo.printed, re.MULTILINE), "five are left half placed, as the page says"


def test_the_other_parts_run_as_they_are_written(usual_port_taken: bool, tmp_path: Path) -> None:
    need_checkout()
    here = checkout(tmp_path)
    steps = blocks("Third")
    marked = "".join(f"echo '-- step {number}'\n{step}" for number, step in enumerate(steps))
    try:
        said = dict(enumerate(re.split(r"^-- step \d+\n", run(marked, here), flags=re.MULTILINE)[1:]))
    finally:
        run("make cluster-down", here)
    assert said[0].count(" Ready ") == 2
    assert len(set(re.findall(r"mnist-\S+ .* (node-\d)", said[1]))) == 1, "all its pods are on one node"
    assert re.search(r"mnist +TFJob +(\d → )?6 \(2-6\) +running", said[2]), "it has grown into idle room"
    assert "heavy" in said[3]
    assert re.search(r"mnist +TFJob +(\d → )?[2-5] \(2-6\) +running", said[4]), "it gives workers back"
    assert re.search("Shrinking|Shrunk", said[4]), "kubectl describe tells it"
    assert "default/mnist" in said[5], "the decisions tell the story"
    if usual_port_taken:
        assert f"port {USUAL_PORTS[0]} is used by another process: Kohort, and its page, are at http://" in said[0]

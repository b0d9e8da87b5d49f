"""Test how soon a killed extender is ready again on the real API server with 1,000 nodes and 10,000 bound pods.

The jobs' pods are created bound, and the nodes have no kubelet: what is timed is the lists, from start to /readyz.
Other load on the machine slows it, so all times are printed with the load, and the median is judged.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import live
from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
NODES, GANGS = 1000, 2000  # Each job has five members.
KILLS = 3
READY_IN = 5.0


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with live.bare_plane(NODES) as started:
        names = sorted(node["metadata"]["name"] for node in started.api.get("/api/v1/nodes")["items"])
        live.submit(started, live.gangs(GANGS, "kohort", "runs"), on=names * (GANGS // NODES))
        yield started


def running(kohort: Kohort) -> float:
    return live.series(kohort.health, "kohort_gangs").get('{state="running"}', 0.0)


def memory(kohort: Kohort) -> float:
    """Return the extender's resident MiB."""
    status = Path(f"/proc/{kohort.extender.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def test_a_killed_extender_is_ready_again_with_all_that_is_bound(plane: ControlPlane) -> None:
    kohort, took = live.kohort(plane), []
    try:
        for _ in range(KILLS):
            assert running(kohort) == GANGS
            kohort.extender.crash()
            began = time.monotonic()
            kohort.extender.start()
            kohort.wait_ready(120)
            took.append(time.monotonic() - began)
            cpu = live.cpu_seconds({"extender": kohort.extender})["extender"]
            print(f"ready after {took[-1]:.2f} s, {cpu:.2f} s of CPU, {memory(kohort):.0f} MiB,", end=" ")
            print(f"load {os.getloadavg()[0]:.1f}")
        assert running(kohort) == GANGS
    finally:
        kohort.stop()
    assert statistics.median(took) <= READY_IN

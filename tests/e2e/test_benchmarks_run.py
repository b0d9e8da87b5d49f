"""Tests that every benchmark's command runs at its smallest size, because they are rarely run otherwise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

SMALL = {
    "beside": "--nodes 5",
    "burst": "--nodes 5 --gangs 6 --seconds 3 --rooms 2",
    "decisions": "--nodes 20",
    "gang_throughput": "--nodes 5 --gangs 3 --commit all first",
    "preemption": "--preemptions 1",
    "rebuild": "--nodes 20",
    "simulator": "--nodes 4",
    "verbs": "--nodes 5 --pods 20",
}
ROOT = Path(__file__).parents[2]


def report(name: str, written: Path) -> dict[str, dict[str, float]]:
    """Run one round of the benchmark at its smallest size; return its medians and ratios by name."""
    options = [*SMALL[name].split(), "--rounds", "1", "--json", str(written)]
    command = [sys.executable, "-m", f"benchmarks.{name}", *options]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
    found = json.loads(written.read_text())
    return {"figures": {key: each["median"] for key, each in found["figures"].items()}, "ratios": found["ratios"]}


@pytest.mark.parametrize("name", sorted(SMALL.keys() - {"gang_throughput"}))
def test_the_command_measures_something(name: str, tmp_path: Path) -> None:
    assert report(name, tmp_path / "out.json")["figures"]


def test_every_scheduler_that_gangs_are_measured_on_binds_them_all(tmp_path: Path) -> None:
    found = report("gang_throughput", tmp_path / "out.json")
    for name in ("kohort", "kohort-first", "native", "plain"):
        assert found["figures"][f"pods not bound in 90 s, {name}"] == 0
        assert found["figures"][f"pods per second, {name}"] > 0
    assert found["figures"]["pods with PodScheduled=False after 1 s, kohort-first"] == 0
    ratios = {"pods_per_second/native", "pods_per_second/plain", "cpu_seconds/plain"}
    ratios |= {
        f"{kind}, kohort-first/{rival}" for kind in ("pods_per_second", "gang_spread") for rival in ("plain", "kohort")
    }
    assert ratios <= found["ratios"].keys()

"""Seeds of the simulation: as many as a minute allows here, the rest by `make soak`; and that a seed is a story."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.faults import KINDS
from tests.simulation.many import run_seeds, shortfall, shown, table
from tests.simulation.run import Report

ROOT = Path(__file__).parents[2]
KOD2 = range(6, 6 * 301, 6)  # the policy goes by the seed
ALL, VERY_MANY = range(1, 2_001), range(100_001, 120_001)
DIGEST = """
from tests.simulation.many import run_seed
for seed in (3, 4, 6):
    report = run_seed(seed)
    print(seed, report.digest, report.steps, sorted(report.faults.items()), report.seconds)
"""


def _run(seeds: range) -> Counter[str]:
    """Play them; how often each kind of fault took place."""
    reports = list[Report]()
    for report in run_seeds(seeds):
        reports.append(report)
        if report.failure:
            story = "\n".join(report.story[-400:])
            pytest.fail(f"{report.line}\n{story}\nreplay: {report.replay()}", pytrace=False)
        if len(reports) % 500 == 0:
            print(f"{len(reports)} of {len(seeds)} seeds", flush=True)
    faults = sum((report.faults for report in reports), Counter[str]())
    print(f"{len(reports)} seeds, {sum(r.steps for r in reports)} steps, {sum(r.gangs for r in reports)} gangs bound, "
          f"{faults.total()} faults of {len(faults)} kinds\n{shown(table(reports))}")  # fmt: skip
    assert not shortfall(reports)
    return faults


@pytest.mark.timeout(600)
def test_no_seed_breaks_an_invariant() -> None:
    _run(KOD2)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_seed_of_any_policy_breaks_an_invariant() -> None:
    faults = _run(ALL)
    assert sum(1 for kind in KINDS if faults[kind] >= 100) >= 30


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_no_seed_of_very_many_breaks_an_invariant() -> None:
    faults = _run(VERY_MANY)
    assert not [kind for kind in KINDS if faults[kind] < 100]


@pytest.mark.timeout(120)
def test_a_seed_tells_the_same_story_whatever_the_hashes() -> None:
    told = []
    for hash_seed in ("1", "3"):  # they put the names of two resources in different orders in a set
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", DIGEST], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
        )
        told.append(done.stdout)
    assert told[0] == told[1]
    assert len(told[0].splitlines()) == 3

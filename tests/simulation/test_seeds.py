"""Seeds of the simulation: 2,000 here, 20,000 by `make soak`; and that a seed is a story."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from tests.hashseeds import printed
from tests.simulation.faults import KINDS, LEAST, least
from tests.simulation.many import RESIZES, SEEDS_FOR_RESIZES, resizes, run_seeds, shortfall, shown, table
from tests.simulation.run import Report
from tests.simulation.scenario import POLICIES

EVERY_POLICY = range(1, 1_001)  # the policy goes by the seed
KOD2 = range(1_002, 7_002, 6)
VERY_MANY = range(100_001, 120_001)
UNTIL = float(os.environ.get("SEEDS_UNTIL", "inf"))  # when `.ci/run`, which has 90 minutes, wants no more
FEWEST = 600  # however late it is
OFTEN = 30  # kinds of fault that must have taken place LEAST times
Say = Callable[[str, object], None]
DIGEST = """
from tests.simulation.many import run_seed
for seed in (3, 4, 6):
    report = run_seed(seed)
    print(seed, report.digest, report.steps, sorted(report.faults.items()), report.seconds)
"""


def _run(seeds: Sequence[int], say: Say, fewest: int) -> None:
    """Play them; every kind of fault must have taken place often enough, and each under every policy."""
    reports = list[Report]()
    for report in run_seeds(seeds, aside=True):
        reports.append(report)
        if report.failure:
            story = "\n".join(report.story[-400:])
            pytest.fail(f"{report.line}\n{story}\nreplay: {report.replay()}", pytrace=False)
        if len(reports) % 500 == 0:
            print(f"{len(reports)} of {len(seeds)} seeds", flush=True)
        if len(reports) >= fewest and time.time() > UNTIL:
            break
    faults = sum((report.faults for report in reports), Counter[str]())
    say("counted", f"{len(reports)} of {len(seeds)} seeds, {sum(r.steps for r in reports)} steps, "
        f"{sum(r.gangs for r in reports)} gangs bound, {faults.total()} faults of {len(faults)} kinds")  # fmt: skip
    print(shown(table(reports)))
    print(resizes(reports))
    assert not shortfall(reports)
    share = min(1.0, len(reports) / len(EVERY_POLICY))
    assert not {kind: faults[kind] for kind in KINDS if faults[kind] < least(kind) * share}
    assert sum(1 for kind in KINDS if faults[kind] >= LEAST) >= OFTEN


@pytest.mark.timeout(5400)  # 10 to 40 minutes of two cores, and it leaves them to the other tests
def test_no_seed_breaks_an_invariant(record_property: Say) -> None:
    """2,000 seeds: 1,000 in a row, so over all policies alike, and 1,000 more of the main loop's (kod2)."""
    _run([*EVERY_POLICY, *KOD2], record_property, fewest=FEWEST)


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_no_seed_of_very_many_breaks_an_invariant(record_property: Say) -> None:
    _run(VERY_MANY, record_property, fewest=len(VERY_MANY))


SHORT_OF = {
    "steps": Report(1, steps=299, gangs=8, faults=Counter({"bind-lost": 10})),
    "gangs": Report(1, steps=300, gangs=6, jobs=15, did=Counter(refused=1), faults=Counter({"bind-lost": 10})),
    "faults": Report(1, steps=300, gangs=8, faults=Counter({"bind-lost": 9})),
}


@pytest.mark.parametrize("short", SHORT_OF.values(), ids=SHORT_OF)
def test_a_seed_in_which_too_little_happens_fails(short: Report) -> None:
    assert short.failure.startswith("too little was done")


def test_seeds_in_which_no_job_of_a_kind_is_resized_fail() -> None:
    one = Report(1, policy="kod2", compared=1, did=Counter(dict.fromkeys(RESIZES, 1)))
    others = [Report(seed, policy=POLICIES[seed % len(POLICIES)]) for seed in range(2, SEEDS_FOR_RESIZES + 1)]
    assert not shortfall([one, *others])
    del one.did["Deployment-shrunk"]
    assert shortfall([one, *others]) == "never happened: Deployment-shrunk"
    assert not shortfall([one])
    assert "StatefulSet-grown" in resizes([one])


def test_a_job_that_was_refused_counts() -> None:
    assert not Report(1, steps=300, gangs=7, did=Counter(refused=1), faults=Counter({"bind-lost": 10})).failure


@pytest.mark.timeout(300)
def test_a_seed_tells_the_same_story_whatever_the_hashes() -> None:
    # These seeds put the names of two resources in different orders in a set.
    told = [printed(hash_seed, "-c", DIGEST) for hash_seed in ("1", "3")]
    assert told[0] == told[1]
    assert len(told[0].splitlines()) == 3

"""Every write of thirteen scenarios, ended in three ways: whatever dies where, the end is right."""

from __future__ import annotations

import multiprocessing
import os

import pytest

from tests.simulation.crashes import (
    CRASHING,
    PLOTS,
    WAYS,
    Counting,
    Kept,
    crash,
    play_plot,
    points,
    reference,
)

OWN = {
    "indexed-shrink": 11, "indexed-grow": 5, "set-shrink": 11, "set-grow": 5,
    "deployment-shrink": 11, "deployment-grow": 5,
}  # fmt: skip
LEAST_POINTS = {
    "admission": 20, "commit": 9, "k-of-n": 6, "release": 20, "shrink": 12, "grow": 6, "memory": 24, **OWN,
}  # fmt: skip
RESIZES = ("shrink", "grow", *OWN)


@pytest.mark.timeout(900)  # a minute on two quiet cores
def test_a_crash_at_any_write_comes_right() -> None:
    found = {name: list(points(name)) for name in PLOTS}
    assert all(len(found[name]) >= least for name, least in LEAST_POINTS.items()), {n: len(p) for n, p in found.items()}
    assert all({who for who, _ in found[name]} == set(CRASHING) for name in RESIZES)
    cases = [(name, *point, way) for name in PLOTS for point in found[name] for way in WAYS]
    with multiprocessing.get_context("spawn").Pool(len(os.sched_getaffinity(0))) as pool:
        wrong = {case: violations for case, violations in pool.imap(crash, cases, chunksize=8) if violations}
    print(f"{len(cases)} crashes at {sum(map(len, found.values()))} writes of {len(PLOTS)} scenarios")
    assert not wrong


@pytest.mark.parametrize("name", RESIZES)
def test_a_resize_is_what_it_is_named_after(name: str) -> None:
    """A scenario in which nobody is resized has no crash points of a resize."""
    report, _ = play_plot(name, Counting())
    kind = {"indexed": "Job", "set": "StatefulSet", "deployment": "Deployment"}.get(name.rpartition("-")[0], "TFJob")
    assert report.did[f"{kind}-{'shrunk' if name.endswith('shrink') else 'grown'}"] == 1


def test_what_oasis_keeps_is_looked_at_in_the_slots_in_which_it_decides() -> None:
    """Three jobs are decided about in one slot, and the first runs in the next: there is something to compare."""
    kept = reference("memory")
    decided, runs = sorted(kept.prices)[-2:]
    assert all('"oasis"' in text for text in kept.texts[decided].values())
    assert len(kept.texts[decided]) == 3
    assert kept.prices[decided] != kept.prices[runs]
    assert all(price > 0 for price in (*kept.prices[decided].values(), *kept.prices[runs].values()))


@pytest.mark.parametrize("changed", ["texts", "prices"])
def test_a_letter_or_a_digit_that_differs_is_found(changed: str) -> None:
    kept, other = Kept({1: {"a": "plan"}}, {1: {"cpu": 0.1}}), Kept({1: {"a": "plan"}}, {1: {"cpu": 0.1}})
    assert list(kept.departures(other)) == []
    if changed == "texts":
        kept.texts[1] = {"a": "Plan"}
    else:
        kept.prices[1] = {"cpu": 0.1 + 1e-16}
    assert len(list(kept.departures(other))) == 1

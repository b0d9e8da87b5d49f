"""Every write of seven scenarios, ended in three ways: whatever dies where, the end is right."""

from __future__ import annotations

import multiprocessing
import os

import pytest

from tests.simulation.crashes import CRASHING, PLOTS, WAYS, crash, points

LEAST_POINTS = {"admission": 20, "commit": 9, "k-of-n": 6, "release": 20, "shrink": 12, "grow": 6, "memory": 24}
RESIZES = ("shrink", "grow")


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

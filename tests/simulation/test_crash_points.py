"""Tests that a crash at any write of sixteen scenarios, in three ways, ends in the right state.

`make test` runs a tenth of them, spread evenly, and `make full` all.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pytest

from lab.sim.pods.world import SimulatedWorld
from lab.virtual.clocks import loop_time
from tests.simulation.crashes import (
    CRASHING,
    PLOTS,
    WAYS,
    CrashAtWrite,
    KeptByOasis,
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
    "admission": 20, "commit": 9, "repair": 6, "k-of-n": 20, "release": 20, "shrink": 12, "grow": 6, "memory": 24,
    "early": 9, "early-k-of-n": 20, **OWN,
}  # fmt: skip
RESIZES = ("shrink", "grow", *OWN)
# scenario -> how many gangs were admitted, how many were released whole, and how many bindings were sent
HAPPENS = {
    "admission": (3, 0, range(10, 11)), "commit": (2, 0, range(9, 10)), "repair": (1, 0, range(6, 7)),
    "early": (2, 0, range(9, 10)), "early-k-of-n": (2, 1, range(8, 30)),
    "k-of-n": (2, 1, range(8, 30)), "release": (2, 1, range(12, 13)), "memory": (2, 0, range(9, 10)),
}  # fmt: skip


Case = tuple[str, str, int, str]  # A point is (plot, process, number of the process's write, way of the crash).
EVERY = 10  # This is no multiple of the number of ways, so that the selected points include all ways.


@cache
def cases(name: str) -> tuple[Case, ...]:
    """Return every case of the scenario."""
    found = list(points(name))
    assert len(found) >= LEAST_POINTS[name]
    if name in RESIZES:
        assert {who for who, _ in found} == set(CRASHING)
    return tuple((name, *point, way) for point in found for way in WAYS)


def share(name: str) -> tuple[Case, ...]:
    """Return the scenario's cases that `make test` runs."""
    return cases(name)[::EVERY]


def wrong(found: Iterable[tuple[str, list[str]]]) -> dict[str, list[str]]:
    return {case: violations for case, violations in found if violations}


def test_the_gates_share_has_every_process_and_way() -> None:
    shares = [share(name) for name in PLOTS]
    assert all(shares)
    assert {(who, way) for one in shares for _, who, _, way in one} == {(who, way) for who in CRASHING for way in WAYS}


@pytest.mark.parametrize("name", PLOTS)
def test_a_crash_at_a_tenth_of_the_writes_comes_right(name: str) -> None:
    assert not wrong(map(crash, share(name)))


@pytest.mark.full
@pytest.mark.parametrize("name", PLOTS)
def test_a_crash_at_any_write_comes_right(name: str) -> None:
    assert not wrong(map(crash, cases(name)))


@pytest.mark.parametrize("name", RESIZES)
def test_a_resize_is_what_it_is_named_after(name: str) -> None:
    """A scenario named after a resize has exactly one, so that crashes happen at the writes of a resize."""
    report, _ = play_plot(name, CrashAtWrite())
    kind = {"indexed": "Job", "set": "StatefulSet", "deployment": "Deployment"}.get(name.rpartition("-")[0], "TFJob")
    assert report.did[f"{kind}-{'shrunk' if name.endswith('shrink') else 'grown'}"] == 1


def test_every_plot_is_asked_whether_it_happened() -> None:
    assert set(PLOTS) == {*RESIZES, *HAPPENS}


@pytest.mark.parametrize("name", HAPPENS)
def test_a_plot_is_what_it_is_named_after(name: str) -> None:
    """The scenario admits, releases and binds as often as listed: a released gang is admitted and bound a second
    time.
    """
    report, _ = play_plot(name, CrashAtWrite())
    admitted, released, bindings = HAPPENS[name]
    assert (report.did["admit"], report.did["released"]) == (admitted, released)
    assert report.writes["extender bind"] in bindings
    assert report.gangs == admitted - released


def test_k_of_n_is_released_within_30_s_of_its_bindings() -> None:
    """Two of three members stay bound for more than 15 s and at most 30 s, and are then released."""
    since, longest = -1.0, 0.0

    def look(world: SimulatedWorld) -> None:
        nonlocal since, longest
        bound = sum(bool(pod.node) for pod in world.store.pods.values())
        since = (since if since >= 0 else loop_time()) if 0 < bound < 3 else -1.0
        longest = max(longest, loop_time() - since if since >= 0 else 0.0)

    play_plot("k-of-n", CrashAtWrite(), tuple((second / 2, look) for second in range(100)))
    assert 15 < longest <= 30


def test_what_oasis_keeps_is_looked_at_in_the_slots_in_which_it_decides() -> None:
    """The reference run decides in a time slot of which the annotations are recorded, so that there is something to
    compare.
    """
    kept = reference("memory")
    decided, runs = sorted(kept.prices)[-2:]
    assert all('"oasis"' in text for text in kept.texts[decided].values())
    assert len(kept.texts[decided]) == 3
    assert kept.prices[decided] != kept.prices[runs]
    assert all(price > 0 for price in (*kept.prices[decided].values(), *kept.prices[runs].values()))


@pytest.mark.parametrize("changed", ["texts", "prices"])
def test_a_letter_or_a_digit_that_differs_is_found(changed: str) -> None:
    kept, other = KeptByOasis({1: {"a": "plan"}}, {1: {"cpu": 0.1}}), KeptByOasis({1: {"a": "plan"}}, {1: {"cpu": 0.1}})
    assert list(kept.departures(other)) == []
    if changed == "texts":
        kept.texts[1] = {"a": "Plan"}
    else:
        kept.prices[1] = {"cpu": 0.1 + 1e-16}
    assert len(list(kept.departures(other))) == 1

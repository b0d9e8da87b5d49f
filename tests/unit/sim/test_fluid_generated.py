"""Generated traces under every system: the invariants hold after every step, and nobody who could run is left out."""

from __future__ import annotations

import pytest

from policy.sim.fluid.check import Checker
from policy.sim.fluid.run import simulate
from policy.sim.report import Result
from policy.systems import SYSTEMS, make_policy
from tests.unit.sim.generated import Made, made

TRACES = 100  # of each kind
SOAK = 500
# Half-placed jobs hold their room: that is what this baseline is there to show.
MAY_DEADLOCK = {"fifo-pod"}


def checked(name: str, seed: int, *, disturbed: bool) -> tuple[Made, Result]:
    case, checker = made(seed, disturbed=disturbed), Checker()
    result = simulate(case.trace, make_policy(name), case.settings, faults=case.faults, on_step=checker)
    assert checker.broken == [], f"seed {seed}"
    return case, result


def disturbed(name: str, seeds: range) -> None:
    for seed in seeds:
        checked(name, seed, disturbed=True)


def undisturbed(name: str, seeds: range) -> None:
    for seed in seeds:
        case, result = checked(name, seed, disturbed=False)
        assert len(result.jobs) == len(case.trace.jobs)
        left = [job.name for job in result.jobs if not (job.finished or job.rejected)]
        assert left == [] or name in MAY_DEADLOCK, f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_the_invariants_hold_whatever_befalls(name: str) -> None:
    disturbed(name, range(TRACES))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_every_job_that_fits_is_served(name: str) -> None:
    undisturbed(name, range(TRACES))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_the_invariants_hold_on_a_thousand_traces(name: str) -> None:
    disturbed(name, range(SOAK))
    undisturbed(name, range(SOAK))

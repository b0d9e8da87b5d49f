"""The checker finds what a broken policy breaks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from lab.sim.fluid.check import Checker
from lab.sim.fluid.fluidrun import simulate
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.fluid.pricecheck import falls
from lab.sim.objects import JobSpec
from lab.sim.traces import Trace, node
from policy.cluster.actions import Action, Admit, Decision, Migrate, Resize
from policy.cluster.snapshot import Snapshot
from policy.systems import make_policy
from policy.systems.base import Policy
from policy.systems.oasis.market import Market
from policy.systems.oasis.prices import Ground, Prices
from tests.unit.sim.generated import made
from tests.unit.sim.scripts import UID, Script, everywhere
from tests.unit.sim.worlds import spec

JOB = replace(spec(ps=1, workers=4, work=600.0), min_workers=2, max_workers=6)
WHOLE = everywhere(JOB, "n1")
SHORT = FluidSettings(quiet_seconds=30.0, horizon=900.0)


def found(policy: Policy, *jobs: JobSpec) -> str:
    checker = Checker()
    nodes = (node("n1", 6, 32), node("n2", 6, 32))
    simulate(Trace(nodes, jobs or (JOB,)), policy, SHORT, on_step=checker)
    return "\n".join(checker.broken)


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (Admit(UID, 1, dict(list(WHOLE.items())[:2])), "admitted with 1 workers; allowed: 2 to 6"),
        (Admit(UID, 4, dict(list(WHOLE.items())[1:])), "admitted with a plan that does not match its members at ps-0"),
        (Resize(UID, 1), "resized to 1 workers; allowed: 2 to 6"),
        (Resize(UID, 7), "resized to 7 workers; allowed: 2 to 6"),
        (Migrate(UID, dict(list(WHOLE.items())[1:])), "migrated with a plan that does not match its members at ps-0"),
    ],
)
def test_an_action_beyond_the_bounds(action: Action, said: str) -> None:
    admit = () if isinstance(action, Admit) else ((0.0, Admit(UID, 4, WHOLE)),)
    assert said in found(Script((*admit, (10.0, action)), admits=False))


def market_of(prices: list[float]) -> Market:
    """Return a market of one resource in one slot: three nodes, of which 0, 2 and 4 units of 10 are taken, at these
    prices.
    """
    ground = Ground.of([(one, one.allocatable) for one in (node("a", 10, 1), node("b", 10, 1), node("c", 10, 1))], "x")
    ground = replace(ground, names=("cpu",), capacity=np.full((3, 1), 10.0))
    return Market(ground, np.array([[[0.0], [2.0], [4.0]]]), np.array([[[price] for price in prices]]))


def test_a_price_that_falls_as_more_is_taken() -> None:
    assert list(falls(market_of([1.0, 1.5, 3.0]))) == []
    assert list(falls(market_of([1.0, 1.0, 1.0]))) == []
    assert list(falls(market_of([1.0, 3.0, 2.0]))) == ["cpu: its price falls as more is taken"]


def test_the_prices_of_a_run_of_oasis_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def watched() -> Checker:
        case, policy = made(0, disturbed=False), make_policy("oasis")
        checker = Checker(policy)
        simulate(case.trace, policy, case.settings, on_step=checker)
        return checker

    health = watched()
    assert (health.broken, health.markets > 0) == ([], True)
    right = Prices.units
    # in this broken policy only free room has a price
    monkeypatch.setattr(Prices, "units", lambda self, used: right(self, used) * (used == 0))
    assert any("its price falls as more is taken" in what for what in watched().broken)


def test_a_node_that_holds_more_than_it_has() -> None:
    second = replace(JOB, name="b")
    crowd = Script(((0.0, Admit(UID, 4, WHOLE)), (5.0, Admit("job-000001", 4, WHOLE))), admits=False)
    assert "the pods on node n1 request" in found(crowd, JOB, second)


def test_a_job_that_waits_unspoken_to() -> None:
    @dataclass(frozen=True)
    class Silent(Policy):
        name: str = "silent"

        def decide(self, snapshot: Snapshot, now: float) -> Decision:
            return Decision()

    assert "it waits, and the policy gives no reason" in found(Silent())


def test_a_sound_run_is_sound() -> None:
    assert found(Script(((0.0, Admit(UID, 4, WHOLE)), (50.0, Migrate(UID, everywhere(JOB, "n2")))), admits=False)) == ""

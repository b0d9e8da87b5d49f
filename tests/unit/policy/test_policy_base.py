"""The defaults of the policies' base class."""

from __future__ import annotations

import math

from policy.cluster.actions import Decision
from policy.cluster.snapshot import Snapshot
from policy.systems import make_policy
from policy.systems.base import Policy


class Plain(Policy):
    """A policy that admits no job and overrides nothing else of the base class."""

    name = "plain"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        return Decision()


def test_a_system_need_not_say_more_than_its_name_and_what_it_decides() -> None:
    plain, snapshot = Plain(), Snapshot()
    assert plain.base is plain
    assert (plain.next_moment(0.0), plain.next_change(snapshot, 0.0)) == (math.inf, None)
    assert not any((plain.grows, plain.draws, plain.keeps, plain.judges_once, plain.cooldown, plain.starve_limit))
    assert {plain.weights(snapshot), plain.grows_on, plain.idle_threshold} == {None}
    assert plain.recalled(snapshot, plain.parts({})) == plain.prices(snapshot, 0.0) == {}
    assert plain.forget({"key": 1}, "job-a") == {"key": 1}


def test_beneath_a_rebalancer_the_base_is_asked() -> None:
    both = make_policy("kod2+specon", starve_limit_seconds=70.0)
    assert (both.base.name, both.base.starve_limit, both.base.grows) == ("kod2", 70.0, True)
    assert both.keeps
    assert not both.base.keeps

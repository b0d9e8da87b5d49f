"""Test with made-up pods that the checks of single pods and pod groups report each kind of violation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lab.sim.objects import PodObject
from lab.virtual.clocks import SimLoop, sleep
from policy.cluster.pod import Phase
from policy.cluster.resources import NOTHING
from tests.simulation.bare import Bare, BarePods
from tests.simulation.witness import PARTIAL_CALM

POD = PodObject("u-1", "bare", "group-1-0", node="n1", phase=Phase.RUNNING)


@pytest.mark.parametrize(
    ("pods", "calm", "faults"),
    [
        ([POD], True, 1),
        ([POD], False, 0),
        ([POD, replace(POD, uid="u-2")], True, 0),
        ([replace(POD, node="gone")], True, 0),
        ([replace(POD, phase=Phase.FAILED)], True, 0),
        ([POD, replace(POD, uid="u-2", phase=Phase.SUCCEEDED)], True, 0),
        ([replace(POD, deleted=1.0)], True, 0),
        ([replace(POD, node="silent", deleted=1.0)], True, 1),
    ],
    ids=[
        "partly bound",
        "in the storm",
        "whole",
        "its node is gone",
        "it holds no room",
        "it has trained",
        "it stops",
        "it stops where nobody tells",
    ],
)
def test_a_group_that_is_partly_bound_for_long_is_found(pods: list[PodObject], calm: bool, faults: int) -> None:
    violations = list[str]()

    async def judge() -> None:
        witness = SimpleNamespace(calm_since=0.0 if calm else None, violated=lambda rule, what: violations.append(what))
        store = SimpleNamespace(nodes={"n1": SimpleNamespace(ready=True), "silent": SimpleNamespace(ready=False)})
        sim: Any = SimpleNamespace(
            world=SimpleNamespace(store=store), witness=witness, faults=SimpleNamespace(chance=None)
        )
        bare, group = BarePods(sim), Bare("group-1", ("group-1-0", "group-1-1"), 2, NOTHING, 5.0, owned=True)
        for _ in range(2):
            bare._check_partial(group, pods)
            await sleep(PARTIAL_CALM + 1.0)
        bare._check_partial(group, pods)

    _in_virtual_time(judge)
    assert bool(violations) is bool(faults)


def _in_virtual_time(play: Callable[[], Any]) -> None:
    loop = SimLoop()
    try:
        loop.run_until_complete(play())
    finally:
        loop.close()

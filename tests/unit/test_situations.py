"""Generated waiting situations in virtual time: the reason names what keeps the gang waiting, and lifting it starts it.

A situation has one constraint or two. Of two, both are named, and lifting only one of them does not start the gang.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.situations.draw import live, pairs, singles
from tests.situations.intime import InTime
from tests.situations.kinds import ALONE
from tests.situations.scene import Constraint, Scene

SAMPLE = 3  # every third situation is part of `make test`
LIVE = {scene.name for scene in (*live(singles(), 30), *live(pairs(), 10))}
SINGLES = [scene for scene in singles() if scene.name not in LIVE]
PAIRS = [scene for scene in pairs() if scene.name not in LIVE]


def marked(scenes: Iterable[Scene]) -> list[object]:
    return [
        pytest.param(scene, id=scene.name, marks=() if at % SAMPLE == 0 else pytest.mark.full)
        for at, scene in enumerate(scenes)
    ]


def named(stage: InTime, constraint: Constraint) -> None:
    """Check that the explanation names the constraint, with its values, and that the placement agrees."""
    found = stage.explained()
    ahead = ", ".join(one.job for one in found.ahead)
    told = f"{stage.waits().detail}; {found.arithmetic}; {found.missing_pods}; {ahead}"
    names, _ = stage.binding()
    assert not constraint.kind or constraint.kind in names, (constraint, told)
    missing = [value for value in constraint.values if value not in told]
    assert not missing, (missing, told)


@pytest.mark.parametrize("scene", marked(SINGLES))
def test_the_one_constraint_is_named_and_lifting_it_starts_the_gang(scene: Scene) -> None:
    stage, (constraint,) = InTime(scene), scene.constraints
    assert stage.waits().reason == constraint.code
    named(stage, constraint)
    assert stage.binding()[0] <= {constraint.kind}, "nothing else is blamed"
    assert not stage.starts()
    stage.lift(*constraint.lift)
    assert stage.starts(), stage.explained()


@pytest.mark.parametrize("scene", marked(PAIRS))
def test_both_constraints_are_named_and_only_lifting_both_starts_the_gang(scene: Scene) -> None:
    for first, second in (scene.constraints, scene.constraints[::-1]):
        stage = InTime(scene)
        assert stage.waits().reason in {one.code for one in scene.constraints}
        named(stage, first)
        named(stage, second)
        stage.lift(*first.lift)
        assert not stage.starts(), f"lifting {first} was enough"
        assert stage.binding()[0] <= {second.kind}, "what was lifted is not blamed any more"
        stage.lift(*second.lift)
        assert stage.starts(), stage.explained()


def test_there_are_as_many_situations_as_promised_and_of_every_kind() -> None:
    assert (len(SINGLES), len(PAIRS)) == (120, 40)
    assert {scene.constraints[0].code for scene in SINGLES} >= {
        "GangExceedsCluster", "RoomHeldByOtherPods", "WaitingForRoom", "RoomHeldByFinishedJobs", "NodesClosed",
        "PlannedNodeNotOffered", "JobSuspended", "WaitingForPods", "BehindHeavierJob",
    }  # fmt: skip
    assert len(ALONE) == 17

"""Tests of a job of every elastic kind: bound whole, shrunk for a heavier job, grown back, without failures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort
from tests.e2e import kinds
from tests.e2e.kinds import CORES, KINDS, MOST, Health, bound, create, rival, running, waits
from tests.e2e.tfjobs import TFJOBS, TFJob
from tests.e2e.waiting import never, until

OF_THE_OPERATOR = [name for name, kind in KINDS.items() if kind.operator]
RIVAL = 3  # The heavier job has so many members of one core each.


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with kinds.one_node(tmp_path_factory.mktemp("jobkinds")) as started:
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    with kinds.quick_kohort(plane) as started:
        yield started


@pytest.fixture
def space(plane: ControlPlane, space: str) -> Iterator[str]:
    yield space
    kinds.clear(plane, space)


@pytest.mark.parametrize("name", KINDS)
def test_it_grows_gives_its_highest_workers_to_a_heavier_job_and_grows_back(
    plane: ControlPlane, kohort: Kohort, space: str, name: str
) -> None:
    kind = KINDS[name]
    with Health(plane, create(plane, space, name)) as health:
        until(lambda: running(plane, space).keys() == kind.slots(MOST), "six workers")
        before = running(plane, space)

        heavy = rival(plane, space)
        until(lambda: bound(plane, space, "rival") == RIVAL, "the heavier job bound")
        left = running(plane, space)
        assert left.keys() == kind.slots(CORES - RIVAL - bool(kind.rigid)), "the highest went"
        assert left.items() <= before.items(), "nobody else was started anew"

        plane.api.delete(heavy.path)
        until(lambda: len(running(plane, space)) == len(kind.slots(MOST)), "six workers again")
        assert left.items() <= running(plane, space).items()
        if kind.operator:
            until(lambda: "Running" in health.said, "looked at")
    assert health.said & {"Failed", "Succeeded", "Complete", "Restarting", "Suspended"} == set()


@pytest.mark.full
@pytest.mark.parametrize("name", KINDS)
def test_a_gang_that_does_not_fit_whole_gets_nothing(
    plane: ControlPlane, kohort: Kohort, space: str, name: str
) -> None:
    filler = TFJob(space, "filler", workers=5, ps=1)
    plane.api.create(TFJOBS.format(namespace=space), filler.manifest())
    until(lambda: bound(plane, space, "filler") == 6, "the filler bound")
    create(plane, space, name)
    until(lambda: waits(kohort, space) == "WaitingForRoom", "told why it waits")
    never(lambda: bound(plane, space), "a part of the gang bound", 3)
    plane.api.delete(filler.path)
    until(lambda: len(running(plane, space)) >= len(KINDS[name].slots(2)), "started once there is room")


@pytest.mark.soak
@pytest.mark.parametrize("name", OF_THE_OPERATOR)
def test_it_is_resized_with_the_operator_restarted_in_the_middle(
    plane: ControlPlane, kohort: Kohort, space: str, name: str
) -> None:
    """The operator is killed once while the job shrinks and once while it grows back."""
    kind, operator = KINDS[name], plane.processes["training-operator"]

    def restart() -> None:
        operator.crash()
        never(lambda: operator.alive, "an operator", 3)
        operator.restart()

    with Health(plane, create(plane, space, name)) as health:
        until(lambda: running(plane, space).keys() == kind.slots(MOST), "six workers")
        before = running(plane, space)
        heavy = rival(plane, space)
        until(lambda: len(running(plane, space)) < len(before), "the first worker taken")
        restart()
        until(lambda: bound(plane, space, "rival") == RIVAL, "the heavier job bound")
        left = running(plane, space)
        assert left.keys() == kind.slots(CORES - RIVAL - 1)
        assert left.items() <= before.items()

        plane.api.delete(heavy.path)
        until(lambda: len(running(plane, space)) > len(left), "the first worker given back")
        restart()
        until(lambda: running(plane, space).keys() == kind.slots(MOST), "six workers again")
        assert running(plane, space)[kind.rigid] == before[kind.rigid]
    assert health.said & {"Failed", "Succeeded"} == set()

"""The checks of the storm on the real control plane find violations in made-up observations with one fault each."""

import pytest

from tests.controlplane import ControlPlane
from tests.e2e.observer import ClusterObserver, Sighting
from tests.e2e.storm import is_whole, overcommitted
from tests.e2e.tfjobs import TFJob

CORES = {("a", "ps"): 1, ("a", "worker"): 2}


def seen(uid: str, node: str = "n1", role: str = "worker", phase: str = "Running", **other: bool) -> Sighting:
    flags = {"terminating": False, "gone": False} | other
    return Sighting(0.0, "a", role, 0, uid, node, phase, **flags)


FITS = {
    "within": [seen("u", role="ps"), seen("v")],
    "other nodes": [seen("u"), seen("v", "n2"), seen("w", "n3")],
    "seen twice": [seen("u"), seen("u"), seen("u", terminating=True)],
    "one after the other": [seen("u"), seen("u", gone=True), seen("v"), seen("v", phase="Succeeded"), seen("w")],
    "not bound": [seen("u"), seen("v", ""), seen("w", "")],
}
OVER = {
    "two": [seen("u"), seen("v")],
    "one that is still going": [seen("u"), seen("u", terminating=True), seen("v")],
    "for a moment only": [seen("u"), seen("v"), seen("v", gone=True)],
}


@pytest.mark.parametrize("story", FITS.values(), ids=FITS.keys())
def test_what_fits(story: list[Sighting]) -> None:
    assert overcommitted(story, CORES, 3) == []


@pytest.mark.parametrize("story", OVER.values(), ids=OVER.keys())
def test_what_was_ever_too_much(story: list[Sighting]) -> None:
    assert len(overcommitted(story, CORES, 3)) == 1


@pytest.mark.parametrize(("bound", "want"), [(0, True), (1, False), (2, False), (3, True), (5, True)])
def test_a_gang_is_whole_from_its_minimum_on(plane: ControlPlane, bound: int, want: bool) -> None:
    observer = ClusterObserver(plane, "team", [seen(str(number), phase="Running") for number in range(bound)])
    assert is_whole(observer, TFJob("team", "a", workers=4, least=2, most=4)) is want


@pytest.fixture
def plane() -> ControlPlane:
    """Return a stand-in for a control plane, of which no test asks anything."""
    return object.__new__(ControlPlane)

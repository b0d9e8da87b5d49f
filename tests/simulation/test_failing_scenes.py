"""Test scenes in which members fail on a node: the gang runs elsewhere within 30 s, and no gang starts on a node that
is avoided.
"""

from __future__ import annotations

from typing import Final

import pytest

from extender.control import calls
from extender.control.callkinds import MarkNode
from extender.kube.jobkinds import FAILURES, FORGIVE
from lab.sim.objects import WorkloadKind
from policy.transitions import failing
from tests.simulation.failingscenes import (
    BAD,
    FIRST,
    LONGEST,
    REPAIRED_WITHIN,
    Course,
    Scene,
    drawn_scene,
    first,
    job,
    notes_of_node,
    run,
)

TWO: Final = (first("a", 2, 2.0), job("b", 2, 16.0))
CROWD: Final = (job("crowd", 9, 80.0),)  # It fits on all nodes but the bad one and those of b.
NEEDS_THE_BAD_NODE: Final = (job("crowd", 10, 80.0),)
SCENES: Final = {
    "two jobs": Scene(TWO, CROWD),
    "the service is killed": Scene(TWO, CROWD, killed=True),
    "an indexed job": Scene((TWO[0], job("b", 2, 16.0, WorkloadKind.INDEXED_JOB)), CROWD),
    "under drs": Scene(TWO, CROWD, policy="drs"),
}


def judge(scene: Scene, course: Course) -> None:
    """Check what must hold in every scene with two failing jobs."""
    assert course.failed.keys() == course.whole.keys() == {one.name for one in scene.failing}
    assert {name: at for name, at in course.whole.items() if at - course.failed[name] > REPAIRED_WITHIN} == {}
    # Neither comes a member that failed back to the node, nor does a later gang start there while it is avoided.
    assert course.started_there(FIRST, scene.barred_until) == []


@pytest.mark.parametrize("name", SCENES)
def test_no_gang_starts_on_a_node_where_members_of_two_jobs_failed(name: str) -> None:
    scene = SCENES[name]
    course, sim, report = run(scene)
    judge(scene, course)
    assert report.violations == []
    assert course.annotations[0].count('"default/') == 2
    assert notes_of_node(sim).keys() == {FAILURES}


def test_one_job_that_crashes_everywhere_bars_nothing() -> None:
    scene = Scene(TWO, CROWD, everywhere=True)
    course, sim, report = run(scene)
    assert report.violations == []
    assert (course.annotations, notes_of_node(sim)) == ([""], {})
    assert not sim.extender.live.ledger.snapshot.nodes[BAD].shunned


def test_a_forgiven_node_is_used_at_once() -> None:
    scene = Scene(TWO, NEEDS_THE_BAD_NODE, forgiven=120.0)
    course, sim, report = run(scene)
    judge(scene, course)
    assert report.violations == []
    assert [name for name, _ in course.started_there(120.0, 140.0)] != []
    assert not notes_of_node(sim).keys() & {FAILURES, FORGIVE}


def test_in_time_the_node_is_used_again() -> None:
    scene = Scene(TWO, NEEDS_THE_BAD_NODE)
    course, _, report = run(scene)
    judge(scene, course)
    assert report.violations == []
    assert [name for name, _ in course.started_there(scene.barred_until, LONGEST)] != []


@pytest.mark.parametrize("seed", range(1, 7))
def test_nothing_is_violated_in_a_drawn_scene(seed: int) -> None:
    scene = drawn_scene(seed)
    course, _, report = run(scene)
    judge(scene, course)
    assert report.violations == []


# -- Seeded defects: each is caught by a scene. ------------------------------------------------------


def test_a_failure_that_is_not_written_is_noticed_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failures are not kept on the node, so that a restart forgets them (like Kueue #1654)."""
    real = calls.calls

    def without_marks(desired: object) -> object:
        return (call for call in real(desired) if not isinstance(call, MarkNode))  # type: ignore[arg-type]

    monkeypatch.setattr("extender.control.controller.calls", without_marks)
    scene = SCENES["the service is killed"]
    with pytest.raises(AssertionError):
        judge(scene, run(scene)[0])


def test_a_failure_that_counts_at_once_is_noticed_when_a_job_crashes_everywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other members need not live on, so that a job that crashes everywhere bars its nodes."""
    monkeypatch.setattr(failing, "_lived_on", lambda draft, job_uid, node: True)
    monkeypatch.setattr(failing, "EVERYWHERE", BAD)
    scene = Scene(TWO, CROWD, everywhere=True)
    course, _, _ = run(scene)
    assert course.annotations != [""]


def test_a_member_that_is_repaired_on_the_same_node_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The member's slot keeps its node, so that the second job's member comes back to the bad node."""
    monkeypatch.setattr("policy.transitions.facts.suspect", lambda draft, old, pod, now, gone=False: None)
    scene = SCENES["two jobs"]
    with pytest.raises(AssertionError):
        judge(scene, run(scene)[0])

"""Test ten scenes in which a quota refuses the pods of a job: the job starts within 30 s once another job can give
workers.

More scenes are drawn. If no job gives workers (a seeded defect), rule L10 is violated in them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from lab.sim.objects import WorkloadKind
from policy.systems import quotas
from tests.simulation.quotascenes import LIMIT, SPACE, Scene, drawn_scene, job, late, quota, run

GROWN: Final = job("grown", 1, 6, ps=1)  # This job has seven pods once it has grown.
SCENES: Final = {
    "a job that came earlier gives": Scene((GROWN, late()), (quota(7),)),
    "a heavier job gives": Scene((replace(GROWN, utility=50.0), late(1)), (quota(7),)),
    "an indexed job gives": Scene((job("grown", 2, 6, kind=WorkloadKind.INDEXED_JOB), late(3)), (quota(6),)),
    "a stateful set gives": Scene((job("grown", 2, 6, kind=WorkloadKind.STATEFULSET), late(3)), (quota(6),)),
    "two jobs must give": Scene((job("a", 1, 3), job("b", 1, 3), late(4)), (quota(6),)),
    "its pods come halfway": Scene((GROWN, late(4, ps=1)), (quota(9),)),
    "under drs": Scene((GROWN, late()), (quota(7),), "drs"),
    "under dragon": Scene((GROWN, late()), (quota(7),), "dragon"),
    "under specon above kod2": Scene((GROWN, late()), (quota(7),), "kod2+specon"),
    "all have too little before another job has gone": Scene(
        (job("grown", 2, 6), job("short", 2), late(2)),
        (quota(4, at=0.3), (90.0, lambda world: world.delete_job(SPACE, "short"))),
    ),
}


@pytest.mark.parametrize("name", SCENES)
def test_a_job_whose_pods_a_quota_refuses_starts_soon_after_another_can_give(name: str) -> None:
    course, sim, report = run(SCENES[name])
    assert course.able is not None
    assert course.started is not None, f"not started; violations {report.violations}"
    assert course.started - course.able <= LIMIT, (course, report.run_log[-5:])
    assert report.violations == []
    assert all(one.spec.workers >= one.spec.min_workers for one in sim.world.store.jobs.values())


DRAWN: Final = range(1, 13)


@pytest.mark.parametrize("seed", DRAWN)
def test_nothing_is_violated_in_a_drawn_scene(seed: int) -> None:
    course, _, report = run(drawn_scene(seed))
    assert report.violations == []
    if course.able is not None:
        assert course.started is not None
        assert course.started - course.able <= LIMIT, (course, report.run_log[-5:])


def test_scenes_that_are_drawn_have_a_job_that_waits_for_others() -> None:
    """In most of them the quota is full when the job arrives, so that it starts only when others give."""
    scenes = [drawn_scene(seed) for seed in DRAWN]
    assert len({scene.policy for scene in scenes}) > 2
    assert {one.kind for scene in scenes for one in scene.jobs} >= {WorkloadKind.TFJOB, WorkloadKind.STATEFULSET}


@pytest.mark.parametrize("scene", [SCENES["a job that came earlier gives"], drawn_scene(3)], ids=["by hand", "drawn"])
def test_the_rule_of_the_seeds_notices_a_job_to_which_nobody_gives_room(
    monkeypatch: pytest.MonkeyPatch, scene: Scene
) -> None:
    monkeypatch.setattr(quotas._Return, "shrinks", lambda self, waiting: ())
    _, _, report = run(scene)
    assert report.violations[0].startswith(f"L10: default/{late().name}")
    assert "lacks pods, and others could give workers" in report.violations[0]

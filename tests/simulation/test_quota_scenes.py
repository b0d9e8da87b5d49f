"""Test ten scenes in which a quota refuses the pods of a job: the job starts within 30 s once another job can give
workers.

The whole service runs in virtual time, without faults, on the simulated cluster, whose operators obey the quota.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from lab.sim.objects import JobObject, JobSpec, WorkloadKind
from lab.sim.pods.world import SimulatedWorld
from lab.sim.traces import Trace, node, pod_requests
from policy.cluster.model import PS, WORKER, Role
from policy.systems import quotas
from tests.simulation.past import complete
from tests.simulation.quotas import shortage, surplus
from tests.simulation.run import SeedReport, Simulation, play
from tests.simulation.scenario import PARAMETERS, Scenario, scheduler_of, settings_of

LIMIT: Final = 30.0
SPACE: Final = "default"
LATE: Final = "late"  # the name of the job that waits
ARRIVES: Final = 40.0
LONGEST: Final = 160
LOOK: Final = 2.0  # The rules that the seeds check are checked here every 2 s.
Act = tuple[float, Callable[[SimulatedWorld], object]]


def job(
    name: str, least: int, most: int = 0, at: float = 0.0, ps: int = 0, kind: WorkloadKind = WorkloadKind.TFJOB,
    utility: float = 1.0, seconds: float = 1e5,
) -> JobSpec:  # fmt: skip
    roles: tuple[Role, ...] = (Role(PS, ps, pod_requests(1, 1)),) if ps else ()
    roles += (Role(WORKER, least, pod_requests(1, 1)),)
    return JobSpec(name, roles, least, max(least, most), seconds, at, kind=kind, utility=utility)


def late(workers: int = 2, **changes: Any) -> JobSpec:
    return job(LATE, workers, at=ARRIVES, **changes)


def quota(pods: int | None, at: float = 30.0) -> Act:
    return at, lambda world: world.set_quota(SPACE, pods)


@dataclass(frozen=True)
class Scene:
    jobs: tuple[JobSpec, ...]
    acts: tuple[Act, ...]
    policy: str = "kod2"


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


@dataclass
class Course:
    """The times at which another job could first give workers to the job that waits, and at which its minimum was
    bound.
    """

    able: float | None = None
    started: float | None = None

    def look(self, sim: Simulation, world: SimulatedWorld) -> None:
        there = {one.spec.name: one for one in world.store.jobs.values()}
        waits = there.get(LATE)
        if waits is None or self.started is not None:
            return
        if complete(waits, sim.witness.bound(waits.uid), waits.spec.min_workers):
            self.started = world.now
        elif self.able is None and _can_be_given(world, list(there.values())):
            self.able = world.now


def _can_be_given(world: SimulatedWorld, jobs: list[JobObject]) -> bool:
    """Tell whether the other jobs have at least as many workers beyond their minimum as the quota has too few pods."""
    short = shortage(world, SPACE)
    return short <= sum(surplus(world, one) for one in jobs if one.spec.name != LATE)


def run(scene: Scene) -> tuple[Course, Simulation, SeedReport]:
    course, made = Course(), list[Simulation]()
    policy = {"policy": scene.policy, "parameters": PARAMETERS.get(scene.policy, {})}
    settings = settings_of(kod2={"cooldown_seconds": 5.0}, **policy)
    nodes = tuple(node(f"node-{index}", 10, 32) for index in range(2))
    scenario = Scenario(0, Trace(nodes, scene.jobs), settings, scheduler_of(settings), LONGEST, LOOK)

    def make() -> Simulation:
        sim = Simulation(scenario, kinds=(), longest=LONGEST)
        looks = ((float(at), lambda world: course.look(sim, world)) for at in range(int(ARRIVES), LONGEST))
        sim.acts = (*scene.acts, *looks)
        made.append(sim)
        return sim

    report = play(make)
    return course, made[0], report


@pytest.mark.parametrize("name", SCENES)
def test_a_job_whose_pods_a_quota_refuses_starts_soon_after_another_can_give(name: str) -> None:
    course, sim, report = run(SCENES[name])
    assert course.able is not None
    assert course.started is not None, f"not started; violations {report.violations}"
    assert course.started - course.able <= LIMIT, (course, report.run_log[-5:])
    assert report.violations == []
    assert all(one.spec.workers >= one.spec.min_workers for one in sim.world.store.jobs.values())


def test_the_seeds_rule_notices_a_job_that_nobody_gives_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas._Return, "shrinks", lambda self, waiting: ())
    _, _, report = run(SCENES["a job that came earlier gives"])
    assert report.violations[0].startswith("L10: default/late lacks pods, and others could give workers")

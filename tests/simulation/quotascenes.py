"""Scenes in which a quota refuses the pods of a job: the whole service in virtual time on the simulated cluster.

`drawn_scene` draws scenes of a family of their own, so that no seed of the storm and no digest changes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from lab.sim.objects import JobObject, JobSpec, WorkloadKind
from lab.sim.pods.world import SimulatedWorld
from lab.sim.traces import Trace, node, pod_requests
from policy.cluster.job import PS, WORKER, Role
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
GROWING: Final = ("kod2", "drs", "dragon", "kod2+specon")  # the policies that grow and shrink running jobs
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


def drawn_scene(seed: int) -> Scene:
    """Return jobs that have grown over their minima when a quota is set, and one or two that arrive after that."""
    chance = random.Random(f"quota scene {seed}")
    kinds = (WorkloadKind.TFJOB, WorkloadKind.INDEXED_JOB, WorkloadKind.STATEFULSET)
    grown = tuple(_grown(chance, f"grown-{number}", chance.choice(kinds)) for number in range(chance.randint(1, 3)))
    most = sum(one.max_workers + sum(role.replicas for role in one.roles if role.name == PS) for one in grown)
    spare = sum(one.max_workers - one.min_workers for one in grown)
    later = tuple(
        replace(late(chance.randint(1, max(1, spare // 2))), name=LATE if not number else f"{LATE}-{number}")
        for number in range(chance.randint(1, 2))
    )
    policy = chance.choice(GROWING)
    return Scene((*grown, *later), (quota(most + chance.choice((0, 0, 0, 1))),), policy)


def _grown(chance: random.Random, name: str, kind: WorkloadKind) -> JobSpec:
    least = chance.randint(1, 2)
    ps = chance.randint(0, 1) if kind is WorkloadKind.TFJOB else 0
    return job(name, least, least + chance.randint(2, 3), ps=ps, kind=kind, utility=chance.choice((1.0, 1.0, 20.0)))

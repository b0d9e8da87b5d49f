"""Scenes in which members of two jobs fail on one node: the whole service in virtual time on the simulated cluster.

`drawn_scene` draws scenes of a family of their own, with ``nodes.avoid_failing``, so that no seed of the storm and no
digest changes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from extender.kube.api import NODES
from extender.kube.jobkinds import FAILURES, FORGIVE
from lab.sim.objects import JobSpec, PodObject, WorkloadKind
from lab.sim.pods.world import SimulatedWorld
from lab.sim.traces import Trace, node, pod_requests
from policy.cluster.job import WORKER, Role
from policy.cluster.pod import Phase
from tests.simulation.run import SeedReport, Simulation, play
from tests.simulation.scenario import PARAMETERS, Scenario, scheduler_of, settings_of
from tests.simulation.storm import end_pod

BAD: Final = "node-03"  # members fail on this node
REPAIRED_WITHIN: Final = 30.0
WATCH: Final = 15.0
HALF_LIFE: Final = 150.0
LATE: Final = 3.0  # A failure that counts is known to all this many seconds after the watch.
FIRST: Final = 20.0  # the time of the first failure
APART: Final = 30.0
LONGEST: Final = 330
POLICIES: Final = ("kod2", "drs", "dragon", "kod2+specon")


def job(name: str, workers: int, at: float, kind: WorkloadKind = WorkloadKind.TFJOB) -> JobSpec:
    """Return a job of which a node takes one worker, because of its memory."""
    return JobSpec(name, (Role(WORKER, workers, pod_requests(4, 20)),), workers, workers, 1e5, at, kind=kind)


def first(name: str, workers: int, at: float, kind: WorkloadKind = WorkloadKind.TFJOB) -> JobSpec:
    """Return a job of which a node takes one worker, because of its CPU; a worker of `job` fits beside it."""
    return JobSpec(name, (Role(WORKER, workers, pod_requests(6, 1)),), workers, workers, 1e5, at, kind=kind)


@dataclass(frozen=True)
class Scene:
    """A cluster and what happens there.

    failing: the jobs of which a member fails on the node ``BAD``, in this order. everywhere: whether all members of a
    failing job fail. later: the jobs that arrive after that. killed: whether the service is killed when the node is
    avoided. forgiven: when an administrator forgives the node; None if nobody does.
    """

    failing: tuple[JobSpec, ...]
    later: tuple[JobSpec, ...] = ()
    nodes: int = 12
    everywhere: bool = False
    killed: bool = False
    forgiven: float | None = None
    policy: str = "kod2"

    @property
    def barred_from(self) -> float:
        """Return the time from which on no member may be bound to the node."""
        return FIRST + APART * (len(self.failing) - 1) + WATCH + LATE

    @property
    def barred_until(self) -> float:
        """Return the time until which no member may be bound to the node."""
        return FIRST + APART * (len(self.failing) - 1) + HALF_LIFE if self.forgiven is None else self.forgiven


@dataclass
class Course:
    """What was seen: members that were bound to the node, and how long each failing job lacked a member.

    bound: the time of each binding to the node, by the pod's name and UID. failed: when a member of the job failed.
    whole: when the job was whole again, by its name. began: the world's time at the start; the other times count from
    it. annotations: the annotation of the bad node when it must be barred.
    """

    bound: dict[tuple[str, str], float] = field(default_factory=dict)
    failed: dict[str, float] = field(default_factory=dict)
    whole: dict[str, float] = field(default_factory=dict)
    annotations: list[str] = field(default_factory=list)
    began: float | None = None

    def now(self, world: SimulatedWorld) -> float:
        self.began = world.now if self.began is None else self.began
        return world.now - self.began

    def look(self, world: SimulatedWorld) -> None:
        now = self.now(world)
        for pod in world.store.pods.values():
            if pod.node == BAD:
                self.bound.setdefault((pod.name, pod.uid), now)
        for name in self.failed.keys() - self.whole.keys():
            if len(list(_living(world, name))) == _size(world, name):
                self.whole[name] = now

    def started_there(self, since: float, until: float) -> list[tuple[str, float]]:
        """Return the pods that were bound to the node between these times, with the time."""
        return [(name, at) for (name, _), at in sorted(self.bound.items()) if since <= at < until]


def _living(world: SimulatedWorld, name: str) -> Iterator[PodObject]:
    jobs = {one.spec.name: uid for uid, one in world.store.jobs.items()}
    pods = (pod for pod in world.store.pods.values() if pod.owner == jobs.get(name))
    return (pod for pod in pods if pod.node and pod.phase is not Phase.FAILED and pod.deleted is None)


def _size(world: SimulatedWorld, name: str) -> int:
    return next(one.spec.workers for one in world.store.jobs.values() if one.spec.name == name)


def _shut(but: tuple[str, ...]) -> Callable[[SimulatedWorld], object]:
    """Return the act that cordons all nodes but these; it uncordons all if there are none."""

    def act(world: SimulatedWorld) -> None:
        for name, one in [*world.store.nodes.items()]:
            world.add_node(replace(one, unschedulable=bool(but) and name not in but))

    return act


def _fail(course: Course, name: str, everywhere: bool) -> Callable[[SimulatedWorld], object]:
    def act(world: SimulatedWorld) -> None:
        there = [pod for pod in _living(world, name) if everywhere or pod.node == BAD]
        assert any(pod.node == BAD for pod in there), f"{name} has no member on {BAD}"
        for pod in there:
            end_pod(world, pod, Phase.FAILED)
        course.failed[name] = course.now(world)

    return act


def _acts(scene: Scene, course: Course) -> Iterator[tuple[float, Callable[[SimulatedWorld], object]]]:
    """Yield what happens: while a failing job arrives, only the bad node and enough others take members."""
    for index, one in enumerate(scene.failing):
        others = [f"node-{number:02}" for number in range(scene.nodes) if f"node-{number:02}" != BAD]
        begin = index * (len(others) // len(scene.failing))
        yield one.arrival - 1.0, _shut((BAD, *others[begin : begin + one.workers - 1]))
        yield one.arrival + 12.0, _shut(())
        yield FIRST + APART * index, _fail(course, one.name, scene.everywhere)
    yield from ((float(at), course.look) for at in range(LONGEST))


def run(scene: Scene) -> tuple[Course, Simulation, SeedReport]:
    course, made = Course(), list[Simulation]()
    policy: dict[str, Any] = {"policy": scene.policy, "parameters": PARAMETERS.get(scene.policy, {})}
    nodes = {"avoid_failing": True, "half_life_seconds": HALF_LIFE, "watch_seconds": WATCH}
    settings = settings_of(nodes=nodes, **policy)
    cluster = tuple(node(f"node-{index:02}", 10, 32) for index in range(scene.nodes))
    trace = Trace(cluster, (*scene.failing, *scene.later))
    scenario = Scenario(0, trace, settings, scheduler_of(settings), LONGEST, 2.0)

    def make() -> Simulation:
        sim = Simulation(scenario, kinds=(), longest=LONGEST)
        extra: list[tuple[float, Callable[[SimulatedWorld], object]]] = []
        if scene.killed:
            extra.append((scene.barred_from, lambda _: sim.extender.kill()))
        if scene.forgiven is not None:
            extra.append((scene.forgiven, lambda _: _annotate(sim, {FORGIVE: "true"})))
        extra.append((scene.barred_from, lambda _: course.annotations.append(notes_of_node(sim).get(FAILURES, ""))))
        sim.acts = (*_acts(scene, course), *extra)
        made.append(sim)
        return sim

    report = play(make)
    return course, made[0], report


def notes_of_node(sim: Simulation) -> dict[str, str]:
    """Return the annotations of the bad node."""
    found = sim.cluster.server.store.get(NODES, "", BAD) or {}
    return dict(found.get("metadata", {}).get("annotations") or {})


def _annotate(sim: Simulation, notes: dict[str, str]) -> None:
    store = sim.cluster.server.store
    item = store.get(NODES, "", BAD)
    assert item is not None
    meta = item["metadata"]
    store.put(NODES, {**item, "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), **notes}}})


def drawn_scene(seed: int) -> Scene:
    """Return two jobs with a member on the bad node, and jobs that arrive while it is avoided."""
    chance = random.Random(f"failing scene {seed}")
    kinds = (WorkloadKind.TFJOB, WorkloadKind.TFJOB, WorkloadKind.INDEXED_JOB)
    failing = (
        first("failing-0", chance.randint(2, 3), 2.0, chance.choice(kinds)),
        job("failing-1", chance.randint(2, 3), 16.0, chance.choice(kinds)),
    )
    nodes = chance.randint(12, 16)
    later = tuple(
        job(f"later-{number}", chance.randint(1, 4), chance.uniform(75.0, 190.0), chance.choice(kinds))
        for number in range(chance.randint(2, 5))
    )
    return Scene(failing, later, nodes, killed=chance.random() < 0.5, policy=chance.choice(POLICIES))

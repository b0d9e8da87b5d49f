"""Kept scenarios: nodes, jobs, settings and faults as a JSON file for people to read and edit.

Unlike a seed, a kept scenario does not change when a change of the code draws other random numbers. What is still
random in it (how long a message takes, which name a pod gets) depends on a salt.
"""

from __future__ import annotations

import json
import math
import random
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from extender.config.settings import Settings
from lab.sim.objects import CleanPods, JobSpec, WorkloadKind
from lab.sim.pods.worldcore import WorldSettings
from lab.sim.traces import Trace, node, pod_requests
from policy.cluster.job import Role
from policy.cluster.node import Node
from policy.cluster.resources import Resources
from tests.simulation.faults import BY_TIME, KINDS, DrawnFault
from tests.simulation.keptfaults import KeptFaults
from tests.simulation.mutants import switched_on
from tests.simulation.run import SeedReport, Simulation, play
from tests.simulation.scenario import WORLD, Scenario, scheduler_of, volume_of

FOLDER: Final = Path(__file__).parent / "scenarios"
GIB: Final = 1 << 30
LISTS: Final = ("nodes", "jobs", "faults")  # These fields of the file have one line for each entry.
DIGITS: Final = 3  # Times in the file have this many decimals of a second.


class ScenarioPart(BaseModel):
    """The base class of the file's parts; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class KeptNode(ScenarioPart):
    name: str
    cores: int
    memory_gib: int


class KeptRole(ScenarioPart):
    """A role of a job: its number of replicas and what each requests."""

    replicas: int
    cores: float
    memory_gib: float


class KeptJob(ScenarioPart):
    """A job; ``arrival`` is in seconds after the start."""

    name: str
    kind: WorkloadKind = WorkloadKind.TFJOB
    arrival: float
    roles: dict[str, KeptRole]
    min_workers: int
    max_workers: int
    work_seconds: float
    clean_pods: CleanPods = CleanPods.RUNNING
    utility: float = 1.0
    annotations: dict[str, str] = {}


class KeptFault(BaseModel):
    """A fault; fields beside the declared ones are the values of the fault, such as its target."""

    model_config = ConfigDict(extra="allow", frozen=True)
    kind: str
    at: str = ""
    nth: int | str = 0
    seconds: float | None = None

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        if self.kind not in KINDS:
            raise ValueError(f"kind: {self.kind!r} is no kind of fault; tests/simulation/faults.py has them all")
        if (self.kind in BY_TIME) is bool(self.at):
            raise ValueError(
                f"at: a {self.kind} has {'none, it comes by time' if self.at else 'one: the call it hits'}"
            )
        if self.nth not in ("*", 0) and (isinstance(self.nth, str) or self.nth < 0):
            raise ValueError(f'nth: {self.nth!r} is neither a number from 1 on nor "*"')
        if bool(self.nth) is (self.seconds is not None):
            raise ValueError("a fault has either nth, of the call that it hits, or seconds, since the start")
        return self


class KeptScenario(ScenarioPart):
    """A kept scenario.

    ``defect`` is the seeded defect that it shows, or empty if it showed a defect of the code at its time. ``caught`` is
    what was violated when it was written, ``seed`` the seed from which it was taken. ``storm`` and ``first`` are as in
    Scenario.
    """

    defect: str
    caught: str
    seed: int
    storm: float
    first: str = ""
    lag: float = Field(description="of kube-scheduler's cache")
    world: dict[str, Any]
    settings: dict[str, Any]
    nodes: tuple[KeptNode, ...]
    jobs: tuple[KeptJob, ...]
    faults: tuple[KeptFault, ...]

    def scenario(self, salt: str) -> Scenario:
        """Return the scenario to run; everything random in it depends on ``salt``."""
        settings = Settings.model_validate(self.settings)
        scheduler = replace(scheduler_of(settings), lag=self.lag)
        trace = Trace(tuple(map(_node, self.nodes)), tuple(map(_job, self.jobs)))
        changed: dict[str, Any] = dict(self.world)
        world = replace(WORLD, **changed)
        return Scenario(zlib.crc32(salt.encode()), trace, settings, scheduler, self.storm, 1.0, world, self.first)

    def play(self, salt: str = "", defect: str | None = None, longest: float = math.inf) -> SeedReport:
        """Run the scenario until a rule is violated, and for no more than ``longest`` seconds of virtual time.

        ``defect`` replaces the scenario's own defect; with "", the code is run without a defect.
        """
        scenario = self.scenario(salt)
        faults = list(map(_drawn_fault, self.faults))

        def make() -> Simulation:
            return Simulation(
                scenario,
                faults=lambda run_log: KeptFaults(scenario.seed, run_log, faults),
                impatient=True,
                longest=longest,
            )

        named = self.defect if defect is None else defect
        if not named:
            return play(make)
        with switched_on(named):
            return play(make)

    def text(self) -> str:
        """Return the text of the file."""
        fields = self.model_dump(mode="json", exclude_defaults=True)
        values = {name: _lines(value) if name in LISTS else json.dumps(value) for name, value in fields.items()}
        parts = (f"{json.dumps(name)}: {value}" for name, value in values.items())
        return "{\n  " + ",\n  ".join(parts) + "\n}\n"


def _lines(entries: Iterable[Mapping[str, object]]) -> str:
    text = ",\n    ".join(json.dumps(entry) for entry in entries)
    return f"[\n    {text}\n  ]" if text else "[]"


def read(name: str) -> KeptScenario:
    """Return the kept scenario of that name."""
    return KeptScenario.model_validate_json((FOLDER / f"{name}.json").read_text())


def names() -> list[str]:
    """Return the names of all kept scenarios."""
    return sorted(file.stem for file in FOLDER.glob("*.json"))


def kept(simulation: Simulation, defect: str, caught: str, storm: float) -> KeptScenario:
    """Return a kept scenario with the jobs and settings of a run and the faults that occurred in it."""
    scenario = simulation.scenario
    return KeptScenario(
        defect=defect,
        caught=caught,
        seed=scenario.seed,
        storm=round(storm, DIGITS),
        first=simulation.led_first if scenario.leased else "",
        lag=scenario.scheduler.lag,
        world=_world(scenario.world),
        settings=scenario.settings.model_dump(mode="json", exclude_defaults=True),
        nodes=tuple(map(_kept_node, scenario.trace.nodes)),
        jobs=tuple(map(_kept_job, scenario.trace.jobs)),
        faults=tuple(map(_kept_fault, simulation.faults.taken)),
    )


def _world(settings: WorldSettings) -> dict[str, float]:
    names = ("terminate_seconds", "eviction_seconds", "collect_seconds")
    return {name: getattr(settings, name) for name in names}


def _kept_node(found: Node) -> KeptNode:
    return KeptNode(
        name=found.name, cores=found.allocatable["cpu"] // 1000, memory_gib=found.allocatable["memory"] // GIB
    )


def _node(saved: KeptNode) -> Node:
    return node(saved.name, saved.cores, saved.memory_gib)


def _kept_job(job: JobSpec) -> KeptJob:
    return KeptJob(
        name=job.name,
        kind=job.kind,
        arrival=round(job.arrival, DIGITS),
        roles={role.name: _kept_role(role.replicas, role.requests) for role in job.roles},
        min_workers=job.min_workers,
        max_workers=job.max_workers,
        work_seconds=round(job.work_seconds, DIGITS),
        clean_pods=job.clean_pods,
        utility=job.utility,
        annotations=dict(job.annotations),
    )


def _kept_role(replicas: int, asks: Resources) -> KeptRole:
    return KeptRole(replicas=replicas, cores=asks["cpu"] / 1000, memory_gib=asks["memory"] / GIB)


def _job(saved: KeptJob) -> JobSpec:
    roles = (Role(name, one.replicas, pod_requests(one.cores, one.memory_gib)) for name, one in saved.roles.items())
    return JobSpec(
        name=saved.name,
        roles=tuple(roles),
        min_workers=saved.min_workers,
        max_workers=saved.max_workers,
        work_seconds=saved.work_seconds,
        arrival=saved.arrival,
        clean_pods=saved.clean_pods,
        utility=saved.utility,
        annotations=saved.annotations,
        kind=saved.kind,
        volumes=(volume_of(saved.name),),
    )


def _kept_fault(fault: DrawnFault) -> KeptFault:
    values = {name: _short(value) for name, value in fault.values.items()}
    return KeptFault(kind=fault.kind, at=fault.at, nth=fault.nth, seconds=_short(fault.since), **values)


def _short(value: Any) -> Any:
    return round(value, DIGITS) if isinstance(value, float) else value


def _drawn_fault(saved: KeptFault) -> DrawnFault:
    values = dict(saved.model_extra or {})
    return DrawnFault(random.Random(0), saved.kind, saved.at, saved.nth, saved.seconds, values)

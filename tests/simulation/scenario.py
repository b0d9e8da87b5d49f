"""What a seed is: the cluster, the jobs and when they come, the settings."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from extender.config.settings import Settings
from extender.demo.run import scheduler_config
from extender.embedded.config import ProfileConfig, SchedulerConfig
from extender.kube.jobkinds import MIN_WORKERS
from extender.leading.lease import EVERYBODY
from policy.cluster.model import PS, WORKER, Node, Role
from policy.sim.objects import CleanPods, JobSpec
from policy.sim.pods.ground import WorldSettings
from policy.sim.traces import Trace, node, pod_requests

REPLICAS = ("replica-a", "replica-b")
BYSTANDER = "default-scheduler"
WORLD = WorldSettings(eviction_seconds=20.0, collect_seconds=5.0)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that a run is given. ``storm``: seconds during which faults come, ``gap``: between two of them."""

    seed: int
    trace: Trace
    settings: Settings
    scheduler: SchedulerConfig
    storm: float
    gap: float
    world: WorldSettings = WORLD

    @property
    def leased(self) -> bool:
        """Whether there are two replicas, of which a Lease says who leads."""
        return self.settings.lease.identity != EVERYBODY

    @property
    def replicas(self) -> tuple[str, ...]:
        """The pods of Kohort."""
        return REPLICAS if self.leased else REPLICAS[:1]


def drawn(seed: int) -> Scenario:
    """The scenario of that seed."""
    chance = random.Random(f"scenario {seed}")
    nodes = tuple(_node(chance, index) for index in range(chance.choice((3, 4, 5))))
    storm = chance.uniform(65.0, 85.0)
    jobs = tuple(_job(chance, index, storm) for index in range(chance.randint(10, 13)))
    settings = settings_of(
        answer=chance.choice(("one-node", "one-node", "ranked")),
        gate=chance.choice(("when-queued", "when-queued", "always", "never")),
        nominate_above_nodes=chance.choice((500, 500, 0)),
        kod2={
            "gate": chance.choice(("loose", "loose", "strict")),
            "cooldown_seconds": chance.choice((5.0, 30.0)),
            "starve_limit_seconds": chance.choice((30.0, 600.0)),
            "scale_out": chance.choice(("together", "anywhere")),
            "backfill": chance.random() < 0.8,
        },
        lease={"identity": EVERYBODY if chance.random() < 0.6 else REPLICAS[0]},
    )
    scheduler = replace(scheduler_of(settings), lag=chance.choice((0.0, 0.05, 0.4)))
    return Scenario(seed, Trace(nodes, jobs), settings, scheduler, storm, chance.choice((1.5, 3.0, 6.0)))


def settings_of(**changes: Any) -> Settings:
    """The default settings with a shorter back-off of gangs: what is waited out there is only time."""
    release = {"backoff_initial_seconds": 2.0, "backoff_max_seconds": 20.0}
    plain: dict[str, Any] = {"release": release, "refusal_memory_seconds": 10.0, "lease": {"identity": EVERYBODY}}
    return Settings.model_validate(plain | changes)


def scheduler_of(settings: Settings) -> SchedulerConfig:
    """kube-scheduler with our profile and one of its own."""
    ours = scheduler_config("http://kohort", settings)
    return replace(ours, profiles={**ours.profiles, BYSTANDER: ProfileConfig(preemption=False)})


def _node(chance: random.Random, index: int) -> Node:
    return node(f"node-{index}", chance.choice((6, 8, 10)), 32)


def _job(chance: random.Random, index: int, storm: float) -> JobSpec:
    least = chance.randint(1, 3)
    most = least + chance.randint(0, 3)
    servers = chance.choice((0, 1, 1, 2))
    asks = pod_requests(chance.choice((1, 1, 2)), chance.choice((1, 2, 4)))
    roles = ((Role(PS, servers, pod_requests(1, 2)),) if servers else ()) + (
        Role(WORKER, chance.randint(least, most), asks),
    )
    return JobSpec(
        name=f"job-{index}",
        roles=roles,
        min_workers=least,
        max_workers=most,
        work_seconds=chance.uniform(5.0, 60.0),
        arrival=chance.uniform(0.0, storm * 0.8),
        clean_pods=chance.choice((CleanPods.RUNNING, CleanPods.RUNNING, CleanPods.ALL)),
        utility=chance.choice((0.5, 1.0, 1.0, 3.0)),
        annotations={MIN_WORKERS: "many"} if chance.random() < 0.03 else {},
    )

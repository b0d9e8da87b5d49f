"""Draw the scenario of a seed: the cluster, the jobs and their arrivals, and the settings."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from extender.config.settings import Settings
from extender.kube.jobkinds import ELASTIC_PS, MIGRATABLE, MIN_WORKERS, TRAINING
from extender.leading.lease import EVERYBODY
from lab.embedded.config import ProfileConfig, SchedulerConfig, config_for
from lab.sim.objects import CleanPods, JobSpec, WorkloadKind
from lab.sim.pods.worldcore import WorldSettings
from lab.sim.traces import Trace, node, pod_requests
from policy.cluster.job import PS, WORKER, Role
from policy.cluster.node import Node

REPLICAS = ("replica-a", "replica-b")
BYSTANDER = "default-scheduler"
POLICIES = ("kod2", "drs", "dragon", "specon", "oasis", "kod2+specon")
# The times are short, so that what a policy waits for happens within a run.
PARAMETERS: Mapping[str, Mapping[str, float | str]] = {
    "drs": {"cooldown": 5.0},
    "dragon": {"urgent_threshold": 20.0, "idle_threshold": 10.0, "restart_seconds": 5.0},
    "specon": {"interval": 5.0},
    "oasis": {"slot_seconds": 15.0, "horizon": 40},
    "kod2+specon": {"specon.interval": 5.0},
}
CHUNK_SECONDS = 3.0
SHARE_OWN = 0.4  # This share of the jobs is of another kind than TFJob.
LONGEST_CALM = 600.0
WORLD = WorldSettings(eviction_seconds=20.0, collect_seconds=5.0)
# In this share of seeds, a pod takes longer to stop than a plan waits for room that others are to free.
SHARE_LATE = 0.25
FREEING_SECONDS = 5.0
LATE_WORLD = replace(WORLD, terminate_seconds=12.0)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The whole input of a run; every random stream depends on the seed.

    ``storm`` is the seconds during which faults occur, ``gap`` those between two faults. ``first`` is the replica that
    starts before the others and so leads; it is empty if all start at once.
    """

    seed: int
    trace: Trace
    settings: Settings
    scheduler: SchedulerConfig
    storm: float
    gap: float
    world: WorldSettings = WORLD
    first: str = ""

    @property
    def leased(self) -> bool:
        """Tell whether there are two replicas and a Lease decides which one leads."""
        return self.settings.lease.identity != EVERYBODY

    @property
    def longest_calm(self) -> float:
        """Return the seconds after the last fault within which every job that can run ends (L1)."""
        # Under policies that move jobs, each job has four times the work, so the calm may last twice as long.
        return (2 if moves_jobs(self.settings.system) else 1) * LONGEST_CALM

    @property
    def replicas(self) -> tuple[str, ...]:
        """Return the names of Kohort's pods."""
        return REPLICAS if self.leased else REPLICAS[:1]


def moves_jobs(policy: str) -> bool:
    """Tell whether the policy moves jobs: SpeCon, alone or above another policy."""
    return policy.endswith("specon")


def drawn(seed: int) -> Scenario:
    """Return the scenario of that seed."""
    chance, policy = random.Random(f"scenario {seed}"), POLICIES[seed % len(POLICIES)]
    nodes = tuple(_node(chance, index) for index in range(chance.choice((3, 4, 5))))
    storm = chance.uniform(65.0, 85.0)
    made = [_job(chance, index, storm) for index in range(chance.randint(12, 15))]
    quiet = 1.0
    # The jobs train longer, because SpeCon moves no job while another waits, and none that has just begun to train.
    if moves_jobs(policy):
        made = [replace(job, arrival=0.3 * job.arrival, work_seconds=4 * job.work_seconds) for job in made[:12]]
        storm, quiet = 2 * storm, 3.0
    if chance.random() < 0.35:
        spoilt = chance.randrange(len(made))
        made[spoilt] = replace(made[spoilt], annotations={MIN_WORKERS: "many"})
    said, varying = random.Random(f"said {seed}"), random.Random(f"ps {seed}")
    made = [replace(job, annotations={**job.annotations, **_said(said, job)}) for job in made]
    varied = [_with_elastic_ps(varying, job) if job.role(PS) is not None else job for job in made]
    kinds = random.Random(f"kinds {seed}")
    jobs = tuple(_of_own_kind(kinds, job, plain) for job, plain in zip(varied, made, strict=True))
    late = random.Random(f"stops {seed}").random() < SHARE_LATE
    settings = settings_of(
        **({"barrier": {"freeing_seconds": FREEING_SECONDS}} if late else {}),
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
        policy=policy,
        parameters=PARAMETERS.get(policy, {}),
        lease=_lease(chance, random.Random(f"elect {seed}")),
    )
    scheduler = replace(scheduler_of(settings), lag=chance.choice((0.0, 0.05, 0.4)))
    gap = quiet * chance.choice((1.5, 3.0, 6.0))
    return Scenario(seed, Trace(nodes, jobs), settings, scheduler, storm, gap, LATE_WORLD if late else WORLD)


def _lease(chance: random.Random, electing: random.Random) -> Mapping[str, Any]:
    """Return settings for one replica that always leads, or for two that elect a leader.

    The leader is elected by the replicas' kube-schedulers or by their extenders.
    """
    if chance.random() < 0.6:
        return {"identity": EVERYBODY}
    if electing.random() < 0.5:
        return {"identity": REPLICAS[0]}
    return {"identity": REPLICAS[0], "name": "kohort-extender", "elect": True}


def _said(chance: random.Random, job: JobSpec) -> Mapping[str, str]:
    """Return the annotations that a job's user writes: its training, its utility for OASiS, and whether it may be
    moved.
    """
    value, target = chance.choice((1.0, 10.0, 100.0)), chance.choice((4.0, 8.0, 16.0))
    annotation = worth(job.work_seconds, value, chance.choice((0.1, 1.0)), target)
    return {TRAINING: annotation, MIGRATABLE: "true" if chance.random() < 0.7 else "false"}


def _with_elastic_ps(chance: random.Random, job: JobSpec) -> JobSpec:
    """Return the job. Half of the jobs get annotations by which their number of ps may change at a restart."""
    if chance.random() < 0.5:
        return job
    annotation = (
        job.annotations[TRAINING].removesuffix("}") + f", workerGigabits: 1, psGigabits: {chance.choice((1, 2, 3))}}}"
    )
    return replace(job, annotations={**job.annotations, TRAINING: annotation, ELASTIC_PS: "true"})


def _of_own_kind(chance: random.Random, job: JobSpec, plain: JobSpec) -> JobSpec:
    """Return the job, turned in SHARE_OWN of the cases into a kind that has only workers.

    ``plain`` is the job without an elastic number of ps.
    """
    kind = chance.choice((WorkloadKind.INDEXED_JOB, WorkloadKind.STATEFULSET, WorkloadKind.DEPLOYMENT))
    if chance.random() >= SHARE_OWN:
        return job
    return replace(plain, kind=kind, roles=tuple(role for role in plain.roles if role.name == WORKER))


def worth(seconds: float, value: float, steepness: float, target: float) -> str:
    """Return the annotation that describes a training, with a utility that falls at the time slot ``target``.

    ``seconds`` is the work of the training in seconds of one worker.
    """
    chunks = max(1, round(seconds / CHUNK_SECONDS))
    return (
        f"{{epochs: 1, chunks: {chunks}, batches: 1, secondsPerBatch: {CHUNK_SECONDS}, gradientMegabytes: 1, "
        f"utility: {{value: {value}, steepness: {steepness}, target: {target}}}}}"
    )


def settings_of(**changes: Any) -> Settings:
    """Return the default settings with these changes, a shorter back-off of gangs, because waiting only costs time, and
    ``barrier.commit: all``, because kube-scheduler has another profile here; early.py has the seeds with ``first``.
    """
    release = {"backoff_initial_seconds": 2.0, "backoff_max_seconds": 20.0}
    plain: dict[str, Any] = {"release": release, "refusal_memory_seconds": 10.0, "lease": {"identity": EVERYBODY}}
    return Settings.model_validate(plain | changes | {"barrier": {"commit": "all"} | changes.get("barrier", {})})


def scheduler_of(settings: Settings) -> SchedulerConfig:
    """Return kube-scheduler's configuration with Kohort's profile and a profile for foreign pods."""
    ours = config_for("http://kohort", settings)
    return replace(ours, profiles={**ours.profiles, BYSTANDER: ProfileConfig(preemption=False)})


def volume_of(job: str) -> str:
    """Return the PersistentVolumeClaim that all pods of the job name."""
    return f"{job}-data"


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
        volumes=(volume_of(f"job-{index}"),),
    )

"""OASiS's simulated clusters and jobs (OASiS, section V-A), drawn from a seed.

The available text of the paper lacks its numbers. The ranges are those of the printed paper as far as they are known,
and otherwise this project's calibration: see docs/policies/oasis.md. The text swaps the server types; here workers run
on GPU servers. Slots here are OASiS's time slots.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

from lab.sim.objects import CleanPods, JobObject, JobSpec, job_fact
from lab.sim.traces import Trace
from policy.cluster.constraints import Constraints
from policy.cluster.job import PS, WORKER, Role
from policy.cluster.node import Node
from policy.cluster.resources import BANDWIDTH, Resources
from policy.cluster.snapshot import Snapshot
from policy.cluster.training import Training, Utility
from policy.placement.gang import ask_of, fits
from policy.placement.room import Room
from policy.systems.oasis.workload import POOL

GIB = 1 << 30
# A time slot takes a bit over an hour; the simulated start is a multiple of it, so that a time slot begins there.
SLOT_SECONDS = 4000.0
# EC2 types as (GPUs, vCPUs, GiB): P2 8xlarge and 16xlarge, G3 8xlarge and 16xlarge; then C4 8xlarge.
GPU_SERVERS = ((8, 32, 488), (16, 64, 732), (2, 32, 244), (4, 64, 488))
PS_SERVER = (0, 36, 60)
DISK_GIB = 600
LONGEST = 15  # A drawn job that would take more time slots than this with all its workers is drawn again.


@dataclass(frozen=True, slots=True)
class Draw:
    """The ranges from which a trace is drawn.

    ``servers`` is the number of servers for workers, and as many for ps are added. ``slots`` is the number of time
    slots. ``kinds`` has the shares of time-insensitive, -sensitive and -critical jobs, ``priority`` the range of
    theta1, the value of a job. Jobs arrive in the first ``arrivals`` slots. ``fixed`` is the maximum of workers for
    rivals that do not scale. ``chunks``, ``longest`` and ``target`` are the highest number of chunks of data (N), the
    most time slots that a job takes with all its workers, and the highest theta3, the target in time slots.
    """

    jobs: int
    servers: int = 50
    slots: int = 100
    arrivals: int = 80
    kinds: tuple[float, float, float] = (0.10, 0.55, 0.35)
    priority: tuple[float, float] = (1.0, 100.0)
    fixed: int = 30
    chunks: int = 100
    longest: int = LONGEST
    target: float = float(LONGEST)


def tiny(jobs: int, servers: int, slots: int) -> Draw:
    """Return the ranges of an instance whose optimum can be computed.

    It has few servers of either kind, and its jobs can end within half of its slots.
    """
    arrivals, longest = max(1, round(0.6 * slots)), max(1, slots // 2)
    return Draw(jobs, servers, slots, arrivals, chunks=12, longest=longest, fixed=6)


def trace(draw: Draw, seed: int) -> Trace:
    """Return the trace that the seed draws from these ranges, with ``draw.servers`` GPU servers for workers and as many
    servers for ps.
    """
    chance = random.Random(f"oasis/{seed}")
    nodes = (
        *(_server(chance, f"worker-{i:03d}", WORKER, chance.choice(GPU_SERVERS)) for i in range(draw.servers)),
        *(_server(chance, f"ps-{i:03d}", PS, PS_SERVER) for i in range(draw.servers)),
    )
    slots = sorted(_arrivals(chance, draw))
    return Trace(nodes, tuple(_job(chance, draw, index, slot) for index, slot in enumerate(slots)), SLOT_SECONDS)


def _server(chance: random.Random, name: str, pool: str, shape: tuple[int, int, int]) -> Node:
    gpus, cores, memory = shape
    amounts = {
        "cpu": cores * 1000, "memory": memory * GIB, "ephemeral-storage": DISK_GIB * GIB, "pods": 110,
        "nvidia.com/gpu": gpus, BANDWIDTH: round(chance.uniform(20, 50) * 1000),
    }  # fmt: skip
    return Node(name, Resources({key: amount for key, amount in amounts.items() if amount}), labels={POOL: pool})


def _arrivals(chance: random.Random, draw: Draw) -> list[int]:
    """Return one arrival time slot for each job, in no order and in bursts, as in the Google cluster data; one slot has
    twenty times the usual number.
    """
    weights = [math.exp(chance.gauss(0.0, 0.7)) for _ in range(draw.arrivals)]
    weights[min(1, draw.arrivals - 1)] = 20.0 * sorted(weights)[len(weights) // 2]
    return chance.choices(range(draw.arrivals), weights, k=draw.jobs)


def _requests(chance: random.Random, gpus: int, gigabits: float) -> Resources:
    amounts = {
        "cpu": chance.randint(1, 10) * 1000, "memory": chance.randint(2, 32) * GIB,
        "ephemeral-storage": chance.randint(5, 10) * GIB, "pods": 1, "nvidia.com/gpu": gpus,
        BANDWIDTH: round(gigabits * 1000),
    }  # fmt: skip
    return Resources({key: amount for key, amount in amounts.items() if amount})


def _training(chance: random.Random, draw: Draw) -> Training:
    while True:
        made = Training(
            epochs=chance.randint(50, 200),
            chunks=chance.randint(5, draw.chunks),
            batches=chance.randint(10, 100),
            seconds=math.exp(chance.uniform(math.log(2e-5), math.log(5e-4))) * SLOT_SECONDS,
            gradient=chance.uniform(30, 575),
            worker_bandwidth=round(chance.uniform(0.5, 5.0), 3),
            ps_bandwidth=round(chance.uniform(5, 20), 3),
        )
        chunk = made.batches * made.step_seconds / SLOT_SECONDS
        if chunk <= 1.0 and made.worker_slots(SLOT_SECONDS) <= draw.longest * made.chunks:
            return made


def _utility(chance: random.Random, draw: Draw) -> Utility:
    kind = chance.choices(("insensitive", "sensitive", "critical"), draw.kinds)[0]
    steep = {"insensitive": 0.0, "sensitive": chance.uniform(0.01, 1.0), "critical": chance.uniform(4.0, 6.0)}[kind]
    return Utility(chance.uniform(*draw.priority), steep, chance.uniform(1.0, draw.target))


def _job(chance: random.Random, draw: Draw, index: int, slot: int) -> JobSpec:
    training = replace(_training(chance, draw), utility=_utility(chance, draw))
    workers = min(training.chunks, chance.randint(1, draw.fixed))
    worker = _requests(chance, chance.randint(0, 4), training.worker_bandwidth)
    server = _requests(chance, 0, training.ps_bandwidth)
    return job(f"job-{index:04d}", slot, training, worker, server, workers)


def job(
    name: str, slot: int, training: Training, worker: Resources, server: Resources, workers: int,
    slot_seconds: float = SLOT_SECONDS,
) -> JobSpec:  # fmt: skip
    """Return a job that asks for ``workers`` workers and the ps that they need, and may have from one to N workers."""
    per_ps = training.workers_per_ps
    servers = max(1, math.ceil(workers / per_ps - 1e-9))
    roles = (
        Role(PS, servers, server, Constraints(node_selector=((POOL, PS),))),
        Role(WORKER, workers, worker, Constraints(node_selector=((POOL, WORKER),))),
    )
    return JobSpec(
        name=name,
        roles=roles,
        min_workers=1,
        max_workers=training.chunks,
        work_seconds=training.worker_slots(slot_seconds) * slot_seconds,
        arrival=slot * slot_seconds,
        clean_pods=CleanPods.ALL,
        training=training,
        ps_elastic=True,
    )


def with_flat_utility(traced: Trace) -> Trace:
    """Return the trace with the same jobs, each with a utility that does not depend on the completion time."""

    def flat(spec: JobSpec) -> JobSpec:
        training = spec.training
        if training is None or training.utility is None:
            return spec
        return replace(spec, training=replace(training, utility=replace(training.utility, steepness=0.0)))

    return replace(traced, jobs=tuple(flat(spec) for spec in traced.jobs))


# -- The functions below draw the jobs of the testbed of OASiS's section V-B. ------------------------

TESTBED_SLOTS = 16
# A job of the testbed takes at most this many time slots with all its workers, and this is also the largest theta3. The
# simulation, too, has one limit for both.
TESTBED_LONGEST = 5.0
# Megabytes of gradients: the model's parameters at four bytes each.
MODELS = {
    "alexnet": 244.0, "resnet-50": 102.0, "resnet-101": 178.0, "resnet-152": 241.0, "vgg-11": 531.0,
    "inception-bn": 45.0,
}  # fmt: skip


def testbed(seed: int) -> Trace:
    """Return twelve jobs in the first nine slots on nine servers: two for ps, and seven for workers, four with a GPU.

    The data are 200 images in chunks of 20 or 30, with mini-batches of 10. Epochs and speeds are lost, so each job is
    drawn to need one to five slots with all its workers.
    """
    chance = random.Random(f"oasis-testbed/{seed}")
    nodes = (
        *(_host(f"worker-{i}", WORKER, 32, 80, gpus=1 if i < 4 else 0) for i in range(7)),
        *(_host(f"ps-{i}", PS, 8, 32, gpus=0) for i in range(2)),
    )
    slots = sorted(chance.randrange(9) for _ in range(12))
    jobs = (_fitting(_testbed_job(chance, index, slot), nodes) for index, slot in enumerate(slots))
    return Trace(nodes, tuple(jobs), SLOT_SECONDS)


def _fitting(spec: JobSpec, nodes: tuple[Node, ...]) -> JobSpec:
    """Return the job with its maximum of workers lowered to what the empty testbed can hold together with their ps.

    With more, the job would never start, and FIFO would start no other job.
    """
    empty = Snapshot(nodes={node.name: node for node in nodes})
    training, worker, server = spec.training, spec.role(WORKER), spec.role(PS)
    if training is None or worker is None or server is None:
        return spec
    for workers in range(worker.replicas, 0, -1):
        made = job(spec.name, 0, training, worker.requests, server.requests, workers)
        fact = job_fact(JobObject(spec.name, made, created=0.0))
        if fits(Room.of(empty), ask_of(empty, fact, workers)):
            return replace(spec, roles=made.roles)
    return spec


def _host(name: str, pool: str, cores: int, memory: int, gpus: int) -> Node:
    amounts = {"cpu": cores * 1000, "memory": memory * GIB, "pods": 110, "nvidia.com/gpu": gpus, BANDWIDTH: 22_000}
    return Node(name, Resources({key: amount for key, amount in amounts.items() if amount}), labels={POOL: pool})


def _testbed_job(chance: random.Random, index: int, slot: int) -> JobSpec:
    images = chance.choice((20, 30))
    chunks, batches, epochs = math.ceil(200 / images), images // 10, chance.randint(20, 100)
    bandwidth = round(chance.uniform(0.5, 3.0), 3)
    gradient = MODELS[chance.choice(sorted(MODELS))]
    wire = 2 * 8 * gradient / (1000.0 * bandwidth)
    steps = epochs * batches
    seconds = max(chance.uniform(1.0, TESTBED_LONGEST) * SLOT_SECONDS / steps - wire, 0.1 * SLOT_SECONDS / steps)
    training = Training(
        epochs=epochs, chunks=chunks, batches=batches, seconds=seconds, gradient=gradient, worker_bandwidth=bandwidth,
        ps_bandwidth=round(chance.uniform(3.0, 8.0), 3), utility=_utility(chance, Draw(12, target=TESTBED_LONGEST)),
    )  # fmt: skip
    worker = _container(chance, chance.randint(0, 1), bandwidth)
    return job(f"job-{index:02d}", slot, training, worker, _container(chance, 0, training.ps_bandwidth),
               min(chunks, chance.randint(1, 8)))  # fmt: skip


def _container(chance: random.Random, gpus: int, gigabits: float) -> Resources:
    amounts = {
        "cpu": chance.randint(1, 4) * 1000, "memory": chance.randint(2, 10) * GIB, "pods": 1, "nvidia.com/gpu": gpus,
        BANDWIDTH: round(gigabits * 1000),
    }  # fmt: skip
    return Resources({key: amount for key, amount in amounts.items() if amount})

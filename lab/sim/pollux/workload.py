"""The jobs of a workload of the Pollux artifact as jobs of the simulator; a worker is one GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from lab.sim.objects import JobSpec
from lab.sim.pollux.profiles import Profile
from lab.sim.pollux.training import TrainingJob, gain, iteration_seconds, packed, split
from lab.sim.traces.reading import Table, TraceRow, read
from lab.sim.traces.trace import Trace, node, pod_requests
from policy.cluster.job import WORKER, Role
from policy.cluster.node import Node
from policy.cluster.training import Goal, Training

NODES, GPUS_PER_NODE = 16, 4
CORES, MEMORY_GIB = 48, 192  # Only GPUs are ever short, because a worker takes less than a quarter of the rest.
ALONE = frozenset({"ncf"})  # The artifact never runs these applications on more than one GPU.


@dataclass(frozen=True, slots=True)
class PolluxWorkload:
    """The jobs of a workload; ``batches`` has the total batch size of each by its name, and ``profiles`` the
    measurements by application.
    """

    trace: Trace
    batches: Mapping[str, int]
    profiles: Mapping[str, Profile]

    def training(self, spec: JobSpec) -> TrainingJob:
        """Return the training of the job, before its start."""
        return TrainingJob(self.profiles[spec.model], self.batches[spec.name])


def workload(table: Table, profiles: Mapping[str, Profile], *, elastic: bool = True) -> PolluxWorkload:
    """Return the jobs of a workload file on 16 nodes of 4 GPUs. Raises TraceError with every faulty row.

    elastic: whether jobs may have any number of GPUs from one to ``most_gpus``, or only the number that they ask for.
    """
    batches: dict[str, int] = {}
    jobs = read(table, lambda line: _job(line, profiles, batches, elastic))
    return PolluxWorkload(Trace(_nodes(), tuple(jobs)), batches, profiles)


def most_gpus(profile: Profile, batch: int) -> int:
    """Return the largest number of GPUs for this batch: each of them takes at least the smallest number of samples
    that was measured.
    """
    if profile.name in ALONE:
        return 1
    return min(NODES * GPUS_PER_NODE, batch // profile.local_batches[0])


def seconds_alone(profile: Profile, batch: int, gpus: int) -> float:
    """Return for how long a job trains on so many GPUs, packed on the fewest nodes; starting is not counted."""
    parts = split(profile, batch, gpus)
    seconds = iteration_seconds(profile, packed(gpus), parts)
    epochs = enumerate(pairwise((0.0, *profile.targets)))
    return sum((end - start) * seconds / gain(profile, parts.batch, epoch) for epoch, (start, end) in epochs)


def _nodes() -> tuple[Node, ...]:
    return tuple(node(f"node-{index:02d}", CORES, MEMORY_GIB, GPUS_PER_NODE) for index in range(NODES))


def _job(line: TraceRow, profiles: Mapping[str, Profile], batches: dict[str, int], elastic: bool) -> JobSpec:
    line.columns(("name", "time", "application", "num_replicas", "batch_size"))
    profile = line.choice("application", profiles)
    batch = line.choice("batch_size", {str(size): size for size in profile.trainings})
    most = most_gpus(profile, batch)
    gpus = line.count("num_replicas", least=1, most=most)
    name = line.text("name")
    batches[name] = batch
    seconds = seconds_alone(profile, batch, gpus)
    return JobSpec(
        name=name,
        roles=(Role(WORKER, gpus, pod_requests(8, 32, 1)),),
        min_workers=1 if elastic else gpus,
        max_workers=most if elastic else gpus,
        work_seconds=seconds * gpus,
        arrival=line.number("time"),
        model=profile.name,
        training=_training(profile, seconds * gpus),
        migratable=True,
    )


def _training(profile: Profile, worker_seconds: float) -> Training:
    """Return what the job states of its training: the time that is exact for the GPUs it asks for, and its goal."""
    rows = next(iter(profile.trainings.values()))
    goal = Goal.MIN if rows[-1].metric < rows[0].metric else Goal.MAX
    return Training(epochs=profile.epochs, seconds=worker_seconds / profile.epochs, all_reduce=True, goal=goal)

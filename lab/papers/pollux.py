"""The world of the Pollux artifact (OSDI 2021), held to the completion times that its authors published.

Two policies that they compare Pollux with, Tiresias and Optimus, must give the published completion time of every job.
Then all policies run in the same world, with the batch sizes as submitted, which Pollux itself changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from lab.papers.experiment import Bar, Experiment, Mutant, OnData, Row, best, mean, quantile_of, worst
from lab.papers.published import level
from lab.sim.pollux.artifact import PolluxArtifact
from lab.sim.pollux.oracle import PolluxOracle
from lab.sim.pollux.polluxrun import PolluxSettings, simulate_pollux
from lab.sim.pollux.workload import PolluxWorkload
from lab.sim.rivals.emptiest import PlacementRule, emptiest_first, fullest_first
from lab.sim.rivals.optimus import Optimus
from lab.sim.rivals.tiresias import Tiresias
from policy.systems import make_policy
from policy.systems.base import Policy

DATA = "the data of the Pollux artifact"
WORKLOADS = 5  # The seeds stand for the workloads: 1000 for the first one, 1001 for the second one, and so on.


def number_of(seed: int, data: PolluxArtifact) -> int:
    """Return the number of the workload for which the seed stands."""
    numbers = sorted(data.tables)
    return numbers[seed % len(numbers)]


@dataclass(frozen=True, slots=True)
class PublishedCase:
    """Runs Tiresias or Optimus, or both, and compares every job with the published completion time.

    ``rivals``: which of them. The other fields are mechanisms of the world that a mutant changes.
    """

    rivals: tuple[str, ...] = ("tiresias", "optimus")
    settings: PolluxSettings = field(default_factory=PolluxSettings)
    place: PlacementRule = emptiest_first
    backfill: bool = True

    def __call__(self, seed: int, data: PolluxArtifact) -> Row:
        """Return for each rival the number of jobs that differ/NAME from the published ones, and its measures."""
        number, row = number_of(seed, data), dict[str, float]()
        for name in self.rivals:
            jobs = data.workload(number)
            found = simulate_pollux(jobs, self._policy(name, jobs), self.settings)
            ours = {job.name: job.jct_seconds for job in found.jobs}
            published = data.published[name][number]
            row[f"differ/{name}"] = sum(
                1 for job in ours.keys() | published.keys() if ours.get(job) != published.get(job)
            )
            row |= measures(name, list(ours.values())) | {f"restarts/{name}": float(found.resizes)}
        return row

    def _policy(self, name: str, jobs: PolluxWorkload) -> Policy:
        if name == "tiresias":
            return Tiresias(backfill=self.backfill, place=self.place)
        return Optimus(PolluxOracle(jobs), self.place)


@dataclass(frozen=True, slots=True)
class PoliciesCase:
    """Runs the policies of these names on the workload of a seed, and adds what was published."""

    names: tuple[str, ...]

    def __call__(self, seed: int, data: PolluxArtifact) -> Row:
        """Return the measures of every policy, and of the published run of Pollux."""
        number = number_of(seed, data)
        row = measures("pollux (published)", list(data.published["pollux"][number].values()))
        for name in self.names:
            found = simulate_pollux(data.workload(number), make_policy(name))
            row |= measures(name, [job.jct_seconds for job in found.jobs])
            row |= {f"makespan/{name}": found.makespan_seconds, f"finished/{name}": float(found.finished)}
            row |= {f"restarts/{name}": float(found.resizes)}
        return row


def measures(name: str, seconds: Sequence[float]) -> dict[str, float]:
    """Return mean/NAME, median/NAME and p99/NAME (linear between ranks) of the completion times."""
    return {
        f"mean/{name}": fmean(seconds),
        f"median/{name}": median(seconds),
        f"p99/{name}": quantile_of(seconds, 0.99),
    }


TIRESIAS = "jobs of 160 that differ from the published ones, Tiresias, worst workload"
OPTIMUS = "jobs of 160 that differ from the published ones, Optimus, worst workload"
ASSUMED = (
    "the seeds 1000 to 1004 stand for the workloads 1 to 5 at load 1.0",
    "the rule of placement of Tiresias and Optimus, the rounds of 60 s and the restarts of 30 s are the artifact's",
)

PUBLISHED = Experiment(
    name="pollux-published",
    system="pollux",
    title="Tiresias and Optimus in the world of the Pollux artifact give the published completion time of every job",
    source="Pollux artifact, OSDI 2021",
    measure=OnData(PublishedCase()),
    bars=(
        Bar(TIRESIAS, best("differ/tiresias"), at_most=0.0, paper="0", published=level(0.0)),
        Bar(OPTIMUS, best("differ/optimus"), at_most=0.0, paper="0", published=level(0.0)),
        Bar("mean JCT, Tiresias", mean("mean/tiresias"), unit="s", paper="3655 s", published=level(3655.2)),
        Bar("mean JCT, Optimus", mean("mean/optimus"), unit="s", paper="5314 s", published=level(5313.8)),
        Bar("restarts, Tiresias", mean("restarts/tiresias")),
        Bar("restarts, Optimus", mean("restarts/optimus")),
    ),
    seeds=WORKLOADS,
    mutants=(
        Mutant("free restarts", OnData(PublishedCase(settings=PolluxSettings(restart_seconds=0))), (TIRESIAS, OPTIMUS)),
        Mutant("no backfill", OnData(PublishedCase(("tiresias",), backfill=False)), (TIRESIAS,)),
        Mutant("fullest node first", OnData(PublishedCase(place=fullest_first)), (TIRESIAS, OPTIMUS)),
    ),
    assumed=ASSUMED,
    data=DATA,
)

OTHERS = (
    "kod2",
    "drs",
    "dragon",
    "specon",
    "drf",
    "rrh",
    "locality-only",
    "kubeflow-spread",
    "fifo-backfill",
    "fifo",
    "oasis",
)


def _bars(names: Sequence[str]) -> tuple[Bar, ...]:
    """Return a bar without a bound for the mean, median and p99 completion time of each policy."""
    return tuple(
        Bar(f"{what}, {name}", mean(f"{what.partition(' ')[0]}/{name}"), unit="s")
        for what in ("mean JCT", "median JCT", "p99 JCT")
        for name in names
    )


POLICIES = Experiment(
    name="pollux-policies",
    system="pollux",
    title="All policies in the world of the Pollux artifact, batch sizes as submitted",
    source="ours, beside the published run of Pollux, which also chooses batch sizes",
    measure=OnData(PoliciesCase(OTHERS)),
    bars=(
        *_bars(("pollux (published)", *OTHERS)),
        *(Bar(f"makespan, {name}", mean(f"makespan/{name}"), unit="s") for name in OTHERS),
        *(Bar(f"restarts, {name}", mean(f"restarts/{name}")) for name in OTHERS),
        *(Bar(f"jobs finished of 160, worst workload, {name}", worst(f"finished/{name}")) for name in OTHERS),
    ),
    seeds=WORKLOADS,
    assumed=(
        *ASSUMED,
        "a job may have any number of GPUs from one to what its batch is divided among; it states exactly how long it"
        " takes with the GPUs it asks for, and reports its progress in every round",
    ),
    data=DATA,
)

EXPERIMENTS = (PUBLISHED, POLICIES)

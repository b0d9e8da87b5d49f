"""KOD2's Figures 4, 7 and 8: four models and five batch sizes, which the paper names without their properties.

This project's model of a step: a worker computes ``batch`` images, sends its gradient to the ps and fetches the
parameters, over the memory of its node or over the network to another. Each node has one GPU for several workers, and
the paper weighs and measures CPU only, so workers compute on their cores. Costs per image and step:
- compute: 6 operations (forward and backward) for each multiply-add of the forward pass, on two cores;
- exchange: parameters once each way, at MEMORY on one node, at NETWORK between two;
- overhead: a constant time per step, for any batch.
They determine a job's work (relative to batch 32, at which the trace's 5-20 minutes are taken to hold), the contention
``a`` (the share of a step in which the ps serves one worker), and the remote factor (a step beside the ps over one
across the network). CPU utilisation: a gang that computes uses the cores that it asked for, one that only holds pods
uses none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from lab.papers import kod2figures
from lab.papers.experiment import Bar, Experiment, Mutant, OverAllSeeds, Row
from lab.papers.published import at_least, effect
from lab.sim.objects import KOHORT
from lab.sim.pods.worldcore import WorldSettings
from lab.sim.report import RunResult, reduction
from lab.sim.speed import training_rate
from lab.sim.traces import Trace, kod2, rigid
from lab.virtual.podrun import pod_by_pod, simulate
from policy.systems.baselines import FifoPod, Retry
from policy.systems.kod2 import Kod2

CORE = 15e9  # operations per second that one core sustains in training
CORES = 2  # A job's work is measured in seconds of a worker with this many cores, the middle of the trace's 1-3.
MEMORY = 1e9  # bytes per second between two processes on one node, including serialisation
# A link carries this many bytes per second: 1 Gb/s without its headers. The paper does not state its network.
NETWORK = 117e6
OVERHEAD = 0.02  # seconds that each step takes besides computing and exchange
REFERENCE = 32  # With this batch size, a job of the trace has 5-20 minutes of work.
PATIENCE = 1800.0
RESIZE_SECONDS = 30.0  # A change of its workers stops a job for so long; the paper does not say what it costs.
BATCHES = (8, 16, 32, 64, 128)
SHOWN = 64  # KOD2's Figure 8 uses this batch size.
WORKERS = (1, 2, 3, 4)  # KOD2's Figure 4 shows these numbers of workers.


@dataclass(frozen=True, slots=True)
class Model:
    """A neural network: multiply-adds of one image's forward pass, and the number of its parameters (4 bytes each)."""

    multiply_adds: float
    parameters: float

    def step(self, batch: int, bandwidth: float = MEMORY) -> float:
        """Return the seconds that a worker needs for one step with this batch size."""
        return 6 * self.multiply_adds * batch / (CORES * CORE) + OVERHEAD + self.exchange(bandwidth)

    def exchange(self, bandwidth: float) -> float:
        """Return the seconds in which gradient and parameters are transferred."""
        return 2 * 4 * self.parameters / bandwidth

    def work(self, batch: int) -> float:
        """Return the work per image at this batch, relative to the reference batch."""
        return (self.step(batch) / batch) / (self.step(REFERENCE) / REFERENCE)

    def contention(self, batch: int) -> float:
        """Return the share of a step in which the ps serves one worker."""
        return self.exchange(MEMORY) / self.step(batch)

    def remote(self, batch: int) -> float:
        """Return the speed of a worker on another node than its ps, relative to one beside it."""
        return self.step(batch) / self.step(batch, NETWORK)


# Sizes are those of the models' papers and of the usual CIFAR-10 variants. ResNext-110 is not a published network, so
# it has the size of ResNeXt-29 (8 x 64d).
MODELS: Mapping[str, Model] = {
    "CNN-rand": Model(19e6, 6.0e6),
    "VGG-16": Model(313e6, 15.0e6),
    "ResNet-50": Model(1.3e9, 23.5e6),
    "ResNext-110": Model(5.4e9, 34.4e6),
}


def ten_jobs(seed: int, model: Model, batch: int) -> tuple[Trace, WorldSettings]:
    """Return the trace of the main experiment with the model's work and speed at this batch."""
    trace = kod2(seed, contention=model.contention(batch))
    jobs = tuple(replace(job, work_seconds=job.work_seconds * model.work(batch)) for job in trace.jobs)
    return replace(trace, jobs=jobs), WorldSettings(remote=model.remote(batch), restart_seconds=RESIZE_SECONDS)


Ours = Callable[[int, Trace, WorldSettings], RunResult]


def _kod2(seed: int, trace: Trace, world: WorldSettings) -> RunResult:
    del seed
    return simulate(trace, Kod2(), world=world)


def _pods(seed: int, trace: Trace, world: WorldSettings) -> RunResult:
    return simulate(rigid(trace, KOHORT), FifoPod(Retry.FIFO, seed), world=world, patience=PATIENCE)


def _row(seed: int, batches: Sequence[int], ours: Ours) -> Row:
    row: dict[str, float] = {}
    for name, model in MODELS.items():
        for batch in batches:
            trace, world = ten_jobs(seed, model, batch)
            mine, plain = ours(seed, trace, world), pod_by_pod(trace, seed, world=world, patience=PATIENCE)
            cell = f"{name}/{batch}"
            row |= {f"jct/{cell}": mine.mean_jct_seconds, f"plain_jct/{cell}": plain.mean_jct_seconds}
            row |= {f"cpu/{cell}": mine.utilisation, f"plain_cpu/{cell}": plain.utilisation}
            row |= {f"cut/{cell}": 100 * reduction(mine, plain)}
            row |= {f"gain/{cell}": 100 * (mine.utilisation / plain.utilisation - 1)}
    return row


def figure_7(seed: int) -> Row:
    """Run all twenty pairs of model and batch size (cells) of KOD2's Figure 7."""
    return _row(seed, BATCHES, _kod2)


def figure_7_without_gang(seed: int) -> Row:
    """Return the measures of a deliberately changed run (a mutant): the cells of Figure 7 under the policy that places
    pod by pod.
    """
    return _row(seed, BATCHES, _pods)


def figure_8(seed: int) -> Row:
    """Run KOD2's Figure 8: four models at batch 64."""
    return _row(seed, (SHOWN,), _kod2)


def figure_8_without_gang(seed: int) -> Row:
    """Return the measures of a deliberately changed run (a mutant): the cells of Figure 8 under the policy that places
    pod by pod.
    """
    return _row(seed, (SHOWN,), _pods)


def figure_4(seed: int) -> Row:
    """Return KOD2's Figure 4: training time by workers beside their ps, relative to one worker; without randomness."""
    del seed
    return _times(lambda model: model.contention(REFERENCE))


def figure_4_one_at_a_time(seed: int) -> Row:
    """Return the measures of a deliberately changed run (a mutant): the times of Figure 4 if the ps served one worker
    at a time, for its whole step.
    """
    del seed
    return _times(lambda model: 1.0)


def _times(contention: Callable[[Model], float]) -> Row:
    return {
        f"time/{name}/{workers}": 1 / training_rate(["n"] * workers, ["n"], contention(model))
        for name, model in MODELS.items()
        for workers in WORKERS
    }


def _means(rows: Sequence[Row], measure: str) -> list[float]:
    """Return, for each cell (pair of model and batch size) of the figure, the mean of that measure over the seeds."""
    return [fmean(row[key] for row in rows) for key in rows[0] if key.startswith(f"{measure}/")]


def _above_zero(measure: str) -> Callable[[Sequence[Row]], float]:
    return lambda rows: float(sum(1 for value in _means(rows, measure) if value > 0))


def _share_above_zero(measure: str) -> OverAllSeeds:
    """Return a function that computes the share, over all seeds and cells (pairs of model and batch size), in which the
    measure is above zero.

    A mean of ratios is above 1 even for two equal distributions; this share tells whether they are equal.
    """

    def of(rows: Sequence[Row]) -> float:
        found = [value > 0 for row in rows for key, value in row.items() if key.startswith(f"{measure}/")]
        return sum(found) / len(found)

    return OverAllSeeds(of)


def _falling(rows: Sequence[Row]) -> float:
    """Return the number of models for which the training time becomes shorter with each additional worker."""
    times = {name: [rows[0][f"time/{name}/{workers}"] for workers in WORKERS] for name in MODELS}
    return float(sum(1 for found in times.values() if found == sorted(set(found), reverse=True)))


ASSUMED = (
    "the jobs, the patience (D = 1800 s) and the cost of a resize (30 s) are those of kod2-ten-jobs",
    "a step takes 6 operations for each multiply-add on 2 cores of 15 GFLOP/s, the transfer of the parameters both "
    "ways at 1 GB/s within a node and 117 MB/s between nodes, and 20 ms more; work is relative to batch size 32",
    "multiply-adds and parameters are those of the CIFAR-10 variants; ResNext-110 is taken to be ResNeXt-29 (8 x 64d)",
)
CELLS, GAINS = "cells of 20 with a lower mean JCT", "models of 4 with higher mean CPU utilisation"
FALLING = "models of 4 whose training time falls with each worker"
OFTEN = "share of seeds and models with higher CPU utilisation"

EXPERIMENTS = (
    Experiment(
        name="kod2-figure-4",
        system="kod2",
        title="Training time by number of workers (the speed model itself)",
        source="KOD2, Figure 4",
        measure=figure_4,
        bars=(Bar(FALLING, _falling, at_least=4, paper="all", published=at_least(4)),),
        seeds=1,
        mutants=(Mutant("the ps serves one worker at a time", figure_4_one_at_a_time, (FALLING,)),),
        figure=kod2figures.draw_figure_4,
        assumed=ASSUMED[1:],
    ),
    Experiment(
        name="kod2-figure-7",
        system="kod2",
        title="Mean JCT of ten jobs, four models and five batch sizes",
        source="KOD2, Figure 7",
        measure=figure_7,
        bars=(
            Bar(CELLS, _above_zero("cut"), at_least=20, paper="all", published=at_least(20)),
            Bar(
                "best cell's mean JCT reduction",
                lambda rows: max(_means(rows, "cut")),
                unit="%",
                paper="84 % (7b, batch 128)",
                published=effect(84.0),
            ),
            Bar("worst cell's mean JCT reduction", lambda rows: min(_means(rows, "cut")), unit="%"),
        ),
        mutants=(Mutant("no gang", figure_7_without_gang, (CELLS,)),),
        figure=kod2figures.draw_figure_7,
        assumed=ASSUMED,
    ),
    Experiment(
        name="kod2-figure-8",
        system="kod2",
        title="Mean CPU utilisation at batch 64, four models",
        source="KOD2, Figure 8",
        measure=figure_8,
        bars=(
            Bar(GAINS, _above_zero("gain"), at_least=4, paper="all", published=at_least(4)),
            Bar(OFTEN, _share_above_zero("gain"), at_least=0.9),
            Bar(
                "best model's mean gain",
                lambda rows: max(_means(rows, "gain")),
                unit="%",
                paper="up to +92 % (8b)",
                published=effect(92.0),
            ),
            Bar("worst model's mean gain", lambda rows: min(_means(rows, "gain")), unit="%"),
        ),
        mutants=(Mutant("no gang", figure_8_without_gang, (GAINS, OFTEN)),),
        figure=kod2figures.draw_figure_8,
        assumed=ASSUMED,
    ),
)

"""How one job trains in the world of the Pollux artifact: its batch on its GPUs, its speed, and its epochs.

A job runs its application for a fixed number of epochs. In each of them it makes progress at a constant pace as long as
it keeps its GPUs: the statistical gain of its batch size in the epoch, over the time of an iteration.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lab.sim.pollux.profiles import Placement, Profile

EPS = 1e-8  # A quotient that exceeds a whole number by no more than this is not rounded up.


class Split(NamedTuple):
    """A batch on a number of GPUs: samples that a GPU takes in a pass, passes beyond the first, and the batch of all.

    The batch may differ a little from the one that was asked for, because every GPU takes the same number of samples.
    """

    local: int
    more_passes: int
    batch: int


def split(profile: Profile, batch: int, gpus: int, *, accumulates: bool = False) -> Split:
    """Return how a batch is divided among the GPUs; a pass takes no more samples than the application's largest.

    On one GPU, a batch above the initial one takes two passes or more, because the variance of the gradient cannot be
    estimated from one sample. accumulates: whether this is so for every batch on one GPU.
    """
    each = math.ceil(batch / gpus - EPS)
    more = math.ceil(each / profile.local_batches[1] - EPS) - 1
    if gpus == 1 and (accumulates or batch > profile.initial_batch):
        more = max(1, more)
    local = min(math.ceil(each / (more + 1) - EPS), profile.largest_batch // (gpus * (more + 1)))
    return Split(local, more, gpus * local * (more + 1))


def iteration_seconds(profile: Profile, placement: Placement, parts: Split) -> float:
    """Return the time of one iteration: a step with its exchange, and the further passes without one."""
    step, sync = profile.step_time(placement, parts.local)
    return step + parts.more_passes * (step - sync)


def gain(profile: Profile, batch: int, epoch: int) -> float:
    """Return how many steps at the initial batch size one step at this batch size is worth, in the epoch (from 0)."""
    sqr, var = profile.gradient(batch, epoch)
    return (var + sqr) / (var / (batch / profile.initial_batch) + sqr)


def placement_of(nodes: Sequence[str]) -> Placement:
    """Return the GPUs on each node, in the order in which the workers' nodes first occur."""
    return tuple(Counter(nodes).values())


def packed(gpus: int, per_node: int = 4) -> Placement:
    """Return the placement on as few nodes as possible, full nodes first."""
    full, rest = divmod(gpus, per_node)
    return (per_node,) * full + ((rest,) if rest else ())


@dataclass(slots=True)
class TrainingJob:
    """The training of one job with a fixed total batch size; times are in seconds.

    ``nodes``: the node of each of its workers, in order. ``epoch``: how many epochs are complete. ``progress``: the
    work done. ``delay``: the time until it trains again after its last start. ``starts``: how often it has been given
    GPUs, other GPUs included, and ``began``: when its first start was over. ``delayed``, ``trained``: for how long it
    has held GPUs without training, and has trained; ``gpu_delayed``, ``gpu_trained``: the same, times its GPUs.
    """

    profile: Profile
    batch: int
    nodes: tuple[str, ...] = ()
    epoch: int = 0
    progress: float = 0.0
    delay: float = 0.0
    starts: int = 0
    began: float | None = None
    delayed: float = 0.0
    trained: float = 0.0
    gpu_delayed: float = 0.0
    gpu_trained: float = 0.0
    _paces: dict[int, float] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Tell whether all epochs are done."""
        return self.epoch >= self.profile.epochs

    @property
    def share(self) -> float:
        """Return the share (0 to 1) of the whole work that is done."""
        return self.progress / self.profile.targets[-1]

    @property
    def metric(self) -> float | None:
        """Return the validation metric after the last complete epoch, or None before the end of the first one."""
        return self.profile.trainings[self.batch][self.epoch - 1].metric if self.epoch else None

    def start(self, nodes: tuple[str, ...], now: float, restart_seconds: float) -> None:
        """Start the job on these GPUs, which costs so many seconds; losing all GPUs costs nothing by itself."""
        self.nodes, self._paces = nodes, {}
        if nodes:
            self.delay = restart_seconds
            self.starts += 1
            self.began = now + restart_seconds if self.began is None else self.began

    def pace(self, factor: float = 1.0) -> float:
        """Return the progress per second in the epoch under way; ``factor``: the share of its speed that is left."""
        if self.epoch not in self._paces:
            parts = split(self.profile, self.batch, len(self.nodes))
            seconds = iteration_seconds(self.profile, placement_of(self.nodes), parts)
            self._paces[self.epoch] = gain(self.profile, parts.batch, self.epoch) / seconds
        return factor * self._paces[self.epoch]

    def advance(self, seconds: float, factor: float = 1.0) -> float:
        """Train for so many seconds on the present GPUs; return after how many of them the job was complete, or all."""
        if not self.nodes:
            return seconds
        waited = min(self.delay, seconds)
        self.delay -= waited
        spent = self._train(seconds - waited, factor)
        self.delayed += waited
        self.trained += spent
        self.gpu_delayed += waited * len(self.nodes)
        self.gpu_trained += spent * len(self.nodes)
        return waited + spent

    def _train(self, seconds: float, factor: float) -> float:
        """Make progress; the end of an epoch is rounded to a whole second, half to even, as in the artifact."""
        left = seconds
        while left > 0 and not self.complete:
            target, pace = self.profile.targets[self.epoch], self.pace(factor)
            if self.progress + pace * left < target:
                self.progress += pace * left
                return seconds
            left -= round((target - self.progress) / pace)
            self.progress, self.epoch = target, self.epoch + 1
        return seconds - left

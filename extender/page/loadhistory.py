"""Samples of the load in the last hours, for the charts: use by resource, waiting and running jobs, and
the prices at which a policy such as OASiS sells resources.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from extender.state.ledger import Ledger
from policy.answers.load import load
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy

EVERY_SECONDS: Final = 20.0
SAMPLES: Final = 1620  # this many samples are kept, one every 20 s: those of nine hours

Pricer = Callable[[Policy, Snapshot, float], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class LoadSample:
    """The load at one moment.

    at: seconds since the epoch. used: the share in use of what ready nodes have, by resource. prices: the policy's
    price of each resource, empty if it has none.
    """

    at: float
    used: Mapping[str, float] = field(default_factory=dict)
    waiting: int = 0
    running: int = 0
    prices: Mapping[str, float] = field(default_factory=dict)


class History:
    """Takes samples of the load at intervals and keeps those of the last hours."""

    def __init__(self, ledger: Ledger, pricer: Pricer | None = None, size: int = SAMPLES) -> None:
        self._ledger = ledger
        self._pricer = pricer
        self._samples: deque[LoadSample] = deque(maxlen=size)

    def __iter__(self) -> Iterator[LoadSample]:
        """Iterate over the samples, oldest first. It is safe while another thread adds one."""
        return iter(tuple(self._samples))

    @property
    def revision(self) -> float:
        """Return a number that changes with every new sample."""
        return self._samples[-1].at if self._samples else 0.0

    async def run(self, seconds: float = EVERY_SECONDS) -> None:
        """Take a sample every ``seconds`` until cancelled; begin once every watch has delivered its initial list."""
        while True:
            if self._ledger.snapshot.synced:
                await self.sample()
            await self._ledger.clock.sleep(seconds if self._samples else 0.5)

    async def sample(self) -> None:
        """Take one sample now.

        Prices are computed on another thread, because a policy computes them over all of its time slots.
        """
        ledger = self._ledger
        asked = (ledger.policy, ledger.snapshot, ledger.now())
        prices = await asyncio.to_thread(self._pricer, *asked) if self._pricer is not None else {}
        self.append(sample_of(asked[1], asked[2], prices))

    def append(self, sample: LoadSample) -> None:
        """Add the newest sample; the oldest is dropped when there are more than ``size``."""
        self._samples.append(sample)


def sample_of(snapshot: Snapshot, now: float, prices: Mapping[str, float]) -> LoadSample:
    """Return the load of a snapshot as a sample."""
    found = load(snapshot)
    return LoadSample(now, found.used, found.waiting, found.running, prices)

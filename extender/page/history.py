"""The last hours in a ring: utilisation by resource, jobs that wait and run, prices; sampled by the ledger's clock."""

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
SAMPLES: Final = 1620  # nine hours

Pricer = Callable[[Policy, Snapshot, float], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment. used: share of what usable nodes have, by resource. at: seconds since the epoch."""

    at: float
    used: Mapping[str, float] = field(default_factory=dict)
    waiting: int = 0
    running: int = 0
    prices: Mapping[str, float] = field(default_factory=dict)


class History:
    """The ring, and the task that fills it."""

    def __init__(self, ledger: Ledger, pricer: Pricer | None = None, size: int = SAMPLES) -> None:
        """Remember nothing yet."""
        self._ledger = ledger
        self._pricer = pricer
        self._samples: deque[Sample] = deque(maxlen=size)

    def __iter__(self) -> Iterator[Sample]:
        """Oldest first; safe while another thread adds one."""
        return iter(tuple(self._samples))

    @property
    def revision(self) -> float:
        """Changes with every sample."""
        return self._samples[-1].at if self._samples else 0.0

    async def run(self, seconds: float = EVERY_SECONDS) -> None:
        """Sample for ever, once every watch has delivered its list."""
        while True:
            if self._ledger.snapshot.synced:
                await self.sample()
            await self._ledger.clock.sleep(seconds if self._samples else 0.5)

    async def sample(self) -> None:
        """Take one sample now; prices need arithmetic over all slots, so they are found beside the loop."""
        ledger = self._ledger
        asked = (ledger.policy, ledger.snapshot, ledger.now())
        prices = await asyncio.to_thread(self._pricer, *asked) if self._pricer is not None else {}
        self.append(sample_of(asked[1], asked[2], prices))

    def append(self, sample: Sample) -> None:
        """Add the newest sample; the oldest goes when the ring is full."""
        self._samples.append(sample)


def sample_of(snapshot: Snapshot, now: float, prices: Mapping[str, float]) -> Sample:
    """What the snapshot looks like as numbers."""
    found = load(snapshot)
    return Sample(now, found.used, found.waiting, found.running, prices)

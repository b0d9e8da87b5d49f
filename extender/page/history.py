"""The last hours in a ring: utilisation by resource, jobs that wait and run, prices; sampled by the ledger's clock."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from extender.page.words import GPU_SUFFIX
from extender.state.ledger import Ledger
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy

EVERY_SECONDS: Final = 20.0
SAMPLES: Final = 1620  # nine hours
MOST_RESOURCES: Final = 6

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
    most: dict[str, int] = defaultdict(int)
    used: dict[str, int] = defaultdict(int)
    for name, node in snapshot.nodes.items():
        if not node.ready:
            continue
        charged = snapshot.charged.get(name)
        for resource, amount in node.allocatable.amounts.items():
            if amount > 0 and is_shown(resource):
                most[resource] += amount
                used[resource] += min(amount, charged[resource]) if charged is not None else 0
    shares = {name: max(0.0, used[name] / most[name]) for name in sorted(most)[:MOST_RESOURCES]}
    waiting, running = sum(1 for _ in snapshot.waiting()), sum(1 for _ in snapshot.running())
    return Sample(now, shares, waiting, running, prices)


def is_shown(resource: str) -> bool:
    """Whether people watch the resource: cpu, memory and devices."""
    return resource in ("cpu", "memory") or resource.endswith(GPU_SUFFIX)

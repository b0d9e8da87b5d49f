"""How busy a cluster is, in a few numbers: the jobs that wait and run, and the share of the room that is taken."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from policy.cluster.resources import GPU_SUFFIX
from policy.cluster.snapshot import Snapshot

MOST_RESOURCES: Final = 6


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a cluster: how many jobs wait and run, and which share of the ready nodes' resources is charged.

    used: the charged share by resource, from 0 to 1.
    """

    waiting: int = 0
    running: int = 0
    used: Mapping[str, float] = field(default_factory=dict)


def load(snapshot: Snapshot) -> Load:
    """Return the load of the cluster in this snapshot."""
    most: dict[str, int] = defaultdict(int)
    taken: dict[str, int] = defaultdict(int)
    for name, node in snapshot.nodes.items():
        if not node.ready:
            continue
        charged = snapshot.charged.get(name)
        for resource, amount in node.allocatable.amounts.items():
            if amount > 0 and is_shown(resource):
                most[resource] += amount
                taken[resource] += min(amount, charged[resource]) if charged is not None else 0
    used = {name: max(0.0, taken[name] / most[name]) for name in sorted(most)[:MOST_RESOURCES]}
    return Load(sum(1 for _ in snapshot.waiting()), sum(1 for _ in snapshot.running()), used)


def is_shown(resource: str) -> bool:
    """Tell whether the resource is part of the load that people are shown: cpu, memory and devices are."""
    return resource in ("cpu", "memory") or resource.endswith(GPU_SUFFIX)

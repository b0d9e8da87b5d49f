"""How fast a job trains in a layout, in seconds of work per second; 1 is one worker beside its ps.

This is the saturating parameter-server model that this project assumes for KOD2, whose paper gives none: n workers run
at n / (1 + a (n - 1)), with a in {0.1, 0.2}. A worker on another node than its ps counts as ``remote`` (0.5) of one;
with several ps, the share of them that are remote counts.
"""

from __future__ import annotations

from collections.abc import Sequence

REMOTE = 0.5


def training_rate(workers: Sequence[str], servers: Sequence[str], contention: float, remote: float = REMOTE) -> float:
    """Return the rate with workers and ps on these nodes; without ps, all workers count in full (all-reduce)."""
    if not workers:
        return 0.0
    pulled = sum(_share(node, servers, remote) for node in workers)
    return pulled / (1.0 + contention * (len(workers) - 1))


def _share(node: str, servers: Sequence[str], remote: float) -> float:
    if not servers:
        return 1.0
    return sum(1.0 if node == server else remote for server in servers) / len(servers)

"""How fast a job trains in a layout, in seconds of work per second; 1 is one worker beside its ps.

Saturating parameter-server model (spec of the KOD2 study, 3d): n workers do n / (1 + a (n - 1)), with a in {0.1, 0.2}.
A worker that is not on its ps's node counts as ``rho`` of one; with several ps, by the share of them that are remote.
"""

from __future__ import annotations

from collections.abc import Sequence

REMOTE = 0.5


def training_rate(workers: Sequence[str], servers: Sequence[str], contention: float, remote: float = REMOTE) -> float:
    """Rate with workers and ps on these nodes; without any ps every worker counts in full (all-reduce)."""
    if not workers:
        return 0.0
    pulled = sum(_share(node, servers, remote) for node in workers)
    return pulled / (1.0 + contention * (len(workers) - 1))


def _share(node: str, servers: Sequence[str], remote: float) -> float:
    if not servers:
        return 1.0
    return sum(1.0 if node == server else remote for server in servers) / len(servers)

"""The cluster's limit of resizes: so many in any minute, whatever the policy. Its log is a field of the snapshot."""

from __future__ import annotations

import math

from policy.cluster.snapshot import Snapshot

MINUTE = 60.0


def resizes_left(snapshot: Snapshot, now: float) -> float:
    """Return how many jobs may be resized now; infinite where ``Rules.resizes_per_minute`` sets no limit."""
    limit = snapshot.rules.resizes_per_minute
    return limit - len(recent(snapshot.resizes, now)) if limit else math.inf


def recent(resizes: tuple[float, ...], now: float) -> tuple[float, ...]:
    """Return the times of the last minute (seconds since the epoch)."""
    return tuple(at for at in resizes if now - at < MINUTE)

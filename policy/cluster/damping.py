"""The limit of resizes of all jobs within a minute, under every policy. ``Snapshot.resizes`` has their times."""

from __future__ import annotations

import math

from policy.cluster.snapshot import Snapshot

MINUTE = 60.0


def resizes_left(snapshot: Snapshot, now: float) -> float:
    """Return how many more jobs may be resized now; infinity if ``Rules.resizes_per_minute`` sets no limit."""
    limit = snapshot.rules.resizes_per_minute
    return limit - len(recent(snapshot.resizes, now)) if limit else math.inf


def recent(resizes: tuple[float, ...], now: float) -> tuple[float, ...]:
    """Return those of the times (seconds since the epoch) that lie within the last minute."""
    return tuple(at for at in resizes if now - at < MINUTE)
